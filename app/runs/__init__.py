"""Blocks, sessions and runs: leased by workers, read by everyone."""
