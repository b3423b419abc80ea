"""The replay engine beside the field's load generators, judged by one referee: `make bench-replay`."""
