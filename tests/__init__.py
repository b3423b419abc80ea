"""Tests; a package so that `tests.fakes` is this one wherever it is imported from."""
