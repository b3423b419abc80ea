"""Who holds which block: claims, heartbeats, and what becomes of a block whose holder went away."""
