"""The pure pipeline, in stage order: manifest → condition → schedule → launch → observation → verdict → report."""
