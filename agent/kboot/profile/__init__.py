"""What is asked of a node."""
