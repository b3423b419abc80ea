"""How an answer reaches whoever asked: once, only where it has changed, and only with the fields that are wanted."""
