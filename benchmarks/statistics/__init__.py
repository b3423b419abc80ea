"""Worlds of known truth that judge the statistics: coverage, false words, power, saturation, and naive rivals."""
