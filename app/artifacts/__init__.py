"""Artifacts: logs and raw files by content address, in a directory or an object store."""
