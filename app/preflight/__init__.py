"""Preflight over the API: a manifest against what workers have published."""
