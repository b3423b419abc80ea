"""Verification of outputs: the answers of a block while its worker still compares them."""
