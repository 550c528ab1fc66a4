"""Make a virtual environment for each framework, because their requirements conflict, and manage these environments."""

from .folders import (
    Environment,
    EnvironmentProblem,
    State,
    find_environments_folder,
    list_environments,
    remove_environment,
)
from .making import describe_fault, make_environment
from .recipes import (
    Recipe,
    choose_version,
    find_recipe,
    is_framework_here,
    list_versions,
    matches_version,
    read_recipes,
    split_version,
)

__all__ = [
    "Environment",
    "EnvironmentProblem",
    "Recipe",
    "State",
    "choose_version",
    "describe_fault",
    "find_environments_folder",
    "find_recipe",
    "is_framework_here",
    "list_environments",
    "list_versions",
    "make_environment",
    "matches_version",
    "read_recipes",
    "remove_environment",
    "split_version",
]
