"""Run the mutation tests of the suite and print the score: mutants, right functions, hosts, negative controls.

`python score.py [--all] [--output FOLDER] [PYTEST ARGUMENTS]` runs the tests that are marked
`thorough`. Without `--all`, it runs only a fixed part of the generated mutants, and asks each right function only a
part of the rows. With `--output`, it writes the score to `mutants.md` in the folder. If the
arguments select only some of the tests, there is no score. The exit code 1 means that something is wrong or has not
run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
# In a test, pytest's `pythonpath` finds the modules beside the tests. A script must add their folders to the path.
sys.path += [str(folder) for folder in (HERE, HERE.parent) if str(folder) not in sys.path]

from confusion import describe_conditions  # noqa: E402 - it lies beside this script
from frameworks import has_framework  # noqa: E402
from generated import judging  # noqa: E402
from mutants import WRONG  # noqa: E402
from mutants.right import RIGHT, Right  # noqa: E402
from negative_controls.table import TABLE  # noqa: E402

from gradclip_reports.markup import draw_markdown_table  # noqa: E402
from gradclip_spec import rules  # noqa: E402

WRONG_TEST = "test_mutant_is_caught_by_its_rule"
RIGHT_TEST = "test_right_function_is_not_blamed"
BATCH_TEST = "test_generated_mutants_are_judged"
CONTROL_TEST = "test_entry_points_fail_when_the_framework_is_replaced"

#: The negative controls under the names that the tests use.
CONTROLS = sorted(f"{adapter}-{way}" for adapter in TABLE for way in ("identity", "doubled"))


@dataclass
class Outcomes:
    """A pytest plugin that keeps the outcome and the recorded properties of each test."""

    found: dict[tuple[str, str], tuple[str, dict[str, Any]]] = field(default_factory=dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome of the call, or of a failed step before or after it."""
        if report.when != "call" and report.outcome == "passed":
            return
        path, _, name = report.nodeid.partition("::")
        function, _, parameter = name.partition("[")
        key = (Path(path).name + "::" + function, parameter.removesuffix("]"))
        # A failure after the call replaces the call's own outcome.
        if self.found.get(key, ("passed", {}))[0] == "passed":
            self.found[key] = (report.outcome, dict(report.user_properties))

    def select(self, function: str) -> dict[str, tuple[str, dict[str, Any]]]:
        """Return the outcomes of one test function, or of the functions of one file, by parameter."""
        return {
            parameter or name: outcome
            for (name, parameter), outcome in self.found.items()
            if name.endswith("::" + function) or name.startswith(function + "::")
        }

    def list_passed(self, function: str) -> set[str]:
        return {parameter for parameter, (outcome, _) in self.select(function).items() if outcome == "passed"}

    def list_not_run(self) -> list[str]:
        """List the mutants, negative controls and whole tests that the mutation tests should have run and did not run.

        A negative control whose framework is missing is not listed.
        """
        wrong = {wrong.name for wrong in WRONG} - self.select(WRONG_TEST).keys()
        right = {get_name(right) for right in RIGHT} - self.select(RIGHT_TEST).keys()
        controls = {name for name in CONTROLS if is_available(name)} - self.select(CONTROL_TEST).keys()
        files = [name for name in ("test_hosts.py", BATCH_TEST) if not self.select(name)]
        return [*sorted(wrong), *sorted(right), *sorted(controls), *files]


def is_available(control: str) -> bool:
    """Tell whether the framework of a negative control is available. NumPy always is, because the suite needs it."""
    adapter = control.rpartition("-")[0]
    return adapter == "numpy" or has_framework(adapter)


def get_name(right: Right) -> str:
    return f"{right.operation}-{right.name}"


def write_page(outcomes: Outcomes) -> tuple[str, list[str]]:
    """Return the page of the score, and the faults in it, one line each. Pytest reports the tests that failed."""
    caught, unblamed = map(outcomes.list_passed, (WRONG_TEST, RIGHT_TEST))
    judged = {rule.id for rule in rules.load() if rule.level != "unspecified"}
    uncaught = [wrong.name for wrong in WRONG if wrong.name not in caught]
    idle = sorted(judged - {wrong.rule for wrong in WRONG if wrong.name in caught})
    blamed = sorted({get_name(right) for right in RIGHT} - unblamed)
    hosts, controls = outcomes.select("test_hosts.py"), list(list_controls(outcomes))
    found = outcomes.select(BATCH_TEST).values()
    made = judging.score_batches(json.loads(told["batch"]) for _, told in found if "batch" in told)
    states = Counter(state for _, state, *_ in controls)
    as_expected = sum(outcome == "passed" for outcome, _ in hosts.values())
    faults = [
        *(f"not caught: {name}" for name in uncaught),
        *(f"a rule that catches no function: {rule}" for rule in idle),
        *(f"blamed, though right: {name}" for name in blamed),
        *judging.list_faults(made),
        *(f"a green negative control: {name}" for name, state, *_ in controls if state == "green"),
    ]
    lines = [
        "# The mutation tests of the suite",
        "",
        f"Made by `nox -s mutation` {describe_conditions()}.",
        "",
        f"- Mutants caught by the rule that they break: {len(WRONG) - len(uncaught)} of {len(WRONG)}",
        f"- Rules that catch no function: {len(idle)} of {len(judged)}",
        f"- Right functions blamed: {len(blamed)} of {len(RIGHT)}",
        f"- Generated mutants caught: {made['caught']} of {made['proven']} ({100 * made['share']:.1f} %)",
        f"- Tests of misbehaving hosts that end as expected: {as_expected} of {len(hosts)}",
        f"- Negative controls: {', '.join(f'{count} {state}' for state, count in states.items())}",
        "",
        *(f"- **Wrong here:** {fault}" for fault in faults),
        "A negative control is an adapter whose framework's functions are replaced, by the identity or by themselves",
        "with doubled results. It is red when every entry point shows the replacement, except those that clip nothing",
        "by themselves or raise an error in any case: `spared` is their number.",
        "",
        draw_markdown_table([("negative control", "state", "framework", "entry points red", "spared"), *controls]),
        "",
        *judging.write_lines(made),
    ]
    return "\n".join(lines).rstrip() + "\n", faults


def list_controls(outcomes: Outcomes) -> Iterator[tuple[object, ...]]:
    """Yield a row for each negative control: its name, its state, and the properties that its test recorded.

    The state is "not run" if the framework is missing.
    """
    states = {"passed": "red", "failed": "green", "skipped": "not run"}
    found = outcomes.select(CONTROL_TEST)
    for name in CONTROLS:
        outcome, properties = found.get(name, ("skipped", {}))
        yield name, states[outcome], *(properties.get(key, "") for key in ("framework", "red", "spared"))


def main(arguments: Sequence[str]) -> int:
    """Run the mutation tests, print the score, and write it to the folder if one is named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path)
    options, more = parser.parse_known_args(arguments)
    outcomes = Outcomes()
    # This script has already imported the package, so pytest warns that it cannot rewrite the plugin's assertions. The
    # plugin has no assertions.
    quiet = "ignore:Module already imported so cannot be rewritten:pytest.PytestAssertRewriteWarning"
    status = pytest.main([str(HERE.parent), "--thorough", "-m", "thorough", "-W", quiet, *more], plugins=[outcomes])
    if missing := outcomes.list_not_run():
        print(f"The run is incomplete and has no score. {len(missing)} parts did not run; the first is {missing[0]}.")
        return 1
    page, faults = write_page(outcomes)
    if options.output is None:
        # Print only the summary. The tables of the page have hundreds of lines.
        print(page.partition("\n|")[0].rstrip())
    else:
        print(page)
        (options.output / "mutants.md").write_text(page, encoding="utf-8")
    return 1 if status or faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
