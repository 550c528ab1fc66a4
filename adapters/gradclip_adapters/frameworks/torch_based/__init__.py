"""Adapt the packages that clip the gradients of torch's parameters."""
