"""Workloads: other people's traces and prompts become frozen traces of ours, and go back again."""
