"""Fakes with behaviour: servers that do what the real ones do, on dials."""
