"""What the verification catches on a real engine, how often it errs, and what it costs."""
