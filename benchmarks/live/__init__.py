"""What it costs to tell pages what a run does while it is measured."""
