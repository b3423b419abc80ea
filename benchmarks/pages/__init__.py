"""How long pages take in a real browser when an experiment has a million observations."""
