"""Make the cases of operations beside the three main ones."""
