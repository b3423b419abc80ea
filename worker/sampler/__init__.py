"""The engine's own rejection sampler, driven with fixed logits by the runtime's Python, and judged by its counts."""
