"""What is found on a node: read, never judged."""
