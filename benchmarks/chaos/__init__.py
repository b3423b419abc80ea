"""The crash matrix as a table."""
