"""Single requests of an experiment: found among millions, and one of them across arms."""
