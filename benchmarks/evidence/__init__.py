"""The evidence store at full size: what it costs to write, to keep and to read."""
