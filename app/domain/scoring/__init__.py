"""Is an answer right? Scorers by name, each from 0 to 1 and a pure function of an answer and its question.

A further one is a function and an entry in ``registry.SCORERS``. Programs run elsewhere (``worker.scoring``).
"""
