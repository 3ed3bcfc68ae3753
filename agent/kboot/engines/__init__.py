"""Adapters of serving engines: pure values of how to start them and how to read them."""
