"""Postgres: the rows, the sessions that reach them and the notifications that follow a commit."""
