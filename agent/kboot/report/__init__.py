"""What was done: timeline, saved reports, rendering."""
