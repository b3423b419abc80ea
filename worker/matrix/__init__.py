"""The method matrix: for every method of an installed engine, what preflight says beside what the engine does."""
