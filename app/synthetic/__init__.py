"""Workloads made from nothing: a versioned generator of checkable tasks in several languages, with dials."""
