"""Benchmarks of kboot: programs side by side on one machine, medians over rounds, ratios within a round."""
