"""Evidence: traces, observations, series, artifacts and what workers can do."""
