"""One module per format: row by row, in bounded memory, each with the writer that gives its rows back."""
