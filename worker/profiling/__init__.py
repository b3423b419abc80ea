"""A profiling run: how long target and draft take per step, apart from everything that is timed."""
