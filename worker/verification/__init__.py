"""Whether outputs are still the target's, asked apart from every timed run; ``docs/verification.md`` says how."""
