"""Select the tests that belong to this session, and print how many tests other sessions run.

Tests of frameworks that are not installed are left out (`nox -s "adapter(NAME)"` and `"spec(NAME)"` run them). Of the
mutation tests, only a sample runs (`nox -s mutation` runs all). Tests that the command line names, by `-k` or by their
id, always run if their framework is installed.
"""

from __future__ import annotations

import math
import os
import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import pytest
from frameworks import has_framework, has_library, is_required
from hypothesis import settings

pytest_plugins = ["pytester"]

# By default, Hypothesis fails an example that takes longer than 0.2 s, which may happen on a busy machine. It also
# draws different examples in each run.
settings.register_profile("reproducible", deadline=None, derandomize=True, database=None)
settings.load_profile("reproducible")

#: The tests that need a browser. They run only if GRADCLIP_BROWSER names one, as in `nox -s browser`.
collect_ignore = [] if "GRADCLIP_BROWSER" in os.environ else ["browser"]

#: The number of tests left out, by the reason for it.
LEFT_OUT = pytest.StashKey[Counter[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--thorough", action="store_true", help="run all tests marked `thorough` instead of a sample")
    parser.addoption(
        "--all", action="store_true", help="with --thorough, run every generated mutant and ask right ones all rows"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LEFT_OUT] = Counter()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests whose library is missing here, and tests marked `thorough` that are outside the sample."""
    reasons = {item: f"of {name}" for item in items if (name := find_missing(item))}
    left = [item for item in items if item not in reasons]
    reasons |= dict.fromkeys(select_outside_sample(config, left), "of the slow tests")
    config.hook.pytest_deselected(items=list(reasons))
    config.stash[LEFT_OUT].update(reasons.values())
    items[:] = [item for item in items if item not in reasons]


def find_missing(item: pytest.Item) -> str:
    """Name the first framework or library that a test needs and this session lacks. It is empty if it has all."""
    needs = [(mark.args[0], has_framework) for mark in item.iter_markers("framework")]
    needs += [(mark.args[0], has_library) for mark in item.iter_markers("array_library")]
    # If a required framework is missing, the test itself raises the error.
    return next((name for name, is_there in needs if not is_there(name) and not is_required(name)), "")


def select_outside_sample(config: pytest.Config, items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """List the tests marked `thorough` that are not in the sample.

    `@pytest.mark.thorough(sample=N)` keeps N of the marked function's tests. The sample is the same in every run and on
    every worker: it is drawn with the function's id as the seed. With `--thorough`, all tests of the function run. A
    mark with `first=N` limits them to the first N, and `--all` removes this limit.
    """
    thorough = config.getoption("--thorough")
    if config.getoption("--all") or config.getoption("keyword") or any("::" in word for word in config.args):
        return []
    of_function: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    sizes: dict[str, float] = {}
    in_order: set[str] = set()
    for item in items:
        if mark := item.get_closest_marker("thorough"):
            function = item.nodeid.partition("[")[0]
            of_function[function].append(item)
            if "first" in mark.kwargs:
                in_order.add(function)
            sizes[function] = mark.kwargs.get("first", math.inf) if thorough else mark.kwargs.get("sample", 0)
    outside: list[pytest.Item] = []
    for function, tests in of_function.items():
        size = int(min(sizes[function], len(tests)))
        by_name = sorted(tests, key=lambda item: item.nodeid)
        kept = set(tests[:size] if function in in_order else random.Random(function).sample(by_name, size))
        outside += [item for item in tests if item not in kept]
    return outside


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Use the counts of one worker of pytest-xdist, because all workers collect the same tests."""
    if counts := getattr(node, "workeroutput", {}).get("left_out"):
        node.config.stash[LEFT_OUT] = Counter(counts)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the counts of a worker to the process that reports."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["left_out"] = dict(session.config.stash[LEFT_OUT])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if counts := config.stash[LEFT_OUT]:
        parts = ", ".join(f"{count} {reason}" for reason, count in counts.most_common())
        terminalreporter.write_line(f'Left to `nox -s mutation`, "adapter(NAME)" and "spec(NAME)": {parts}.')
