"""Programs that stand in for a Hub and a serving engine where there is neither; kboot itself does not know them."""
