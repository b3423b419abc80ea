"""Calibration: at which loads this host's client keeps time against the null engine."""
