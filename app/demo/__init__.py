"""The bundled demo: a small honest experiment that any host can run, made by a versioned generator."""
