"""Several experiments side by side: what was pinned otherwise, and what each of them says by itself."""
