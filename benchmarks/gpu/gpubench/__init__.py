"""Compares an engine started as people start it today with the same engine started by kboot, on a node with GPUs."""
