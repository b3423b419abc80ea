"""Whose an experiment is."""
