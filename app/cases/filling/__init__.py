"""How cases come out of observations."""
