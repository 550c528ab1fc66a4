"""What is right: two oracles that share no code, and error bounds."""
