"""Make a virtual environment for each framework, because their requirements conflict, and manage these environments."""

from .folders import Environment, State, find_environments_folder, list_environments, remove_environment
from .interpreters import EnvironmentProblem
from .making import describe_fault, make_environment
from .recipes import Recipe, is_framework_here, read_recipes

__all__ = [
    "Environment",
    "EnvironmentProblem",
    "Recipe",
    "State",
    "describe_fault",
    "find_environments_folder",
    "is_framework_here",
    "list_environments",
    "make_environment",
    "read_recipes",
    "remove_environment",
]
