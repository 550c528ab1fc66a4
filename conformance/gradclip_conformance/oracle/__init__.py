"""Compute exact results with two oracles that share no code, and the error bounds by which answers are judged."""
