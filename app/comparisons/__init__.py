"""Reports and figures of an experiment."""
