"""Operations: what the service itself is doing, what holds it up, and the one thing a person decides: quarantine."""
