"""An experiment's raw evidence in the formats of other tools, run by run and never held whole."""
