"""What a small model needs to be measured on a large GPU: the cost of a large one, and frozen experiments."""
