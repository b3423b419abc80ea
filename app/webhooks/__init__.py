"""Webhooks: who is told that an experiment has ended, and whether it was heard."""
