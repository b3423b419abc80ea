"""Speed and accuracy against the best of the field, each a ratio measured in one run; `make bench-…` runs one."""
