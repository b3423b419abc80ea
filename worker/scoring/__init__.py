"""Scoring in the worker after a run was recorded: by pure scorers, and of programs in a locked-down process."""
