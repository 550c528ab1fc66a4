"""Call a framework's clip functions through adapters. The module `contract` defines what an adapter is."""
