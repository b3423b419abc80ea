"""The order of the queue."""
