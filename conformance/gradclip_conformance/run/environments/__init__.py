"""Make a virtual environment for each framework, because their requirements conflict, and manage these environments."""
