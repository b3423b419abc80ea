"""Failures across experiments."""
