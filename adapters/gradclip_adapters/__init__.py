"""Adapters: how the suite calls a framework's clip functions. `contract` says what an adapter is."""
