"""What was done to the service, by whom."""
