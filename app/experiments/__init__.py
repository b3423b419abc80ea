"""Experiments: register a manifest, follow it, cancel it."""
