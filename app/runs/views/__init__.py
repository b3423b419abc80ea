"""Sessions and runs as readers see them."""
