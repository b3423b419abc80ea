"""Results in other tools' formats: ours written for them, theirs read and kept apart from ours."""
