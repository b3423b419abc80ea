"""One file for each load generator: how it is asked for an offer, and how what it measured is read."""
