"""What is forgotten: an experiment with all its evidence, and files that nothing refers to any more."""
