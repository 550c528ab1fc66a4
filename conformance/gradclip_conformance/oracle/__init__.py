"""Two oracles, which share no code, and the error bounds by which answers are judged."""
