"""Does not import."""

message = "half written"
raise ValueError(message)
