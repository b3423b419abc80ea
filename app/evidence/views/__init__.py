"""Evidence as readers see it."""
