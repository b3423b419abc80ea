"""What GPUs and host do while an engine is measured, sampled by a small process of its own."""
