"""The regression suite: what an engine must do alike with and without speculation, case by case, method by method."""
