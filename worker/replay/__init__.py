"""The load generator: a separate, pinned process that sends when due and stamps what it reads."""
