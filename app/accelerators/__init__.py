"""Places for engines: which there are, who has them, and which must not be used."""
