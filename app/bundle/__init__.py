"""The bundle: everything a reviewer needs to recompute a report with no server and no trust."""
