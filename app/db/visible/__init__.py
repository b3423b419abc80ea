"""What a principal may see of the tables."""
