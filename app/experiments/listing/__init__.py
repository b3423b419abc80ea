"""Experiments as a list: what may be asked of it, and how it is cut into pages."""
