"""Projects, accounts, tokens, and the one place that lets a request in."""
