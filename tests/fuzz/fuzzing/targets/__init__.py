"""One module a target: what comes in, and what must hold whatever it is."""
