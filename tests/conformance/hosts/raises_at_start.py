"""Raise during the import."""

message = "half written"
raise ValueError(message)
