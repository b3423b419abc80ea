"""Leases that were taken back, for the log."""
