"""Run the mutation tests of the suite and print the score: mutants, right functions, hosts, negative controls.

`python score.py [--all] [--output FOLDER] [PYTEST ARGUMENTS]` runs the tests that are marked
`thorough`. Without `--all`, it runs only a fixed part of the generated mutants, and asks each right function only a
part of the rows. With `--output`, it writes the score to `mutants.json` and `mutants.md` in the folder. If the
arguments select only some of the tests, there is no score. The exit code 1 means that something is wrong or has not
run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
# In a test, pytest's `pythonpath` finds the modules beside the tests. A script must add their folders to the path.
sys.path += [str(folder) for folder in (HERE, HERE.parent) if str(folder) not in sys.path]

from conditions import describe_conditions, write_conditions  # noqa: E402
from frameworks import has_framework  # noqa: E402
from generated import batches  # noqa: E402
from mutants import WRONG, Wrong  # noqa: E402 - it lies beside this script
from mutants.right import RIGHT, Right  # noqa: E402
from negative_controls.table import TABLE  # noqa: E402

from gradclip_reports.markup import draw_markdown_table  # noqa: E402
from gradclip_spec import rules  # noqa: E402

WRONG_TEST = "test_mutant_is_caught_by_its_rule"
RIGHT_TEST = "test_right_function_is_not_blamed"
BATCH_TEST = "test_generated_mutants_are_judged"
MADE_TEST = "test_generated_right_function_is_not_blamed"
CONTROL_TEST = "test_subjects_fail_when_the_framework_is_replaced"

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
        """Return the parameters with which a test has passed."""
        return {parameter for parameter, (outcome, _) in self.select(function).items() if outcome == "passed"}

    def list_failed_elsewhere(self) -> list[str]:
        """List the failed tests that no other part of the score covers."""
        scored = (WRONG_TEST, RIGHT_TEST, MADE_TEST, CONTROL_TEST)
        return sorted(
            f"{name}[{parameter}]" if parameter else name
            for (name, parameter), (outcome, _) in self.found.items()
            if outcome == "failed" and not name.endswith(scored) and not name.startswith("test_hosts.py")
        )

    def list_not_run(self) -> list[str]:
        """List the mutants, negative controls and whole tests that the mutation tests should have run and did not run.

        A negative control whose framework is missing is not listed.
        """
        wrong = {wrong.name for wrong in WRONG} - self.select(WRONG_TEST).keys()
        right = {get_name(right) for right in RIGHT} - self.select(RIGHT_TEST).keys()
        controls = {name for name in CONTROLS if is_available(name)} - self.select(CONTROL_TEST).keys()
        files = [name for name in ("test_hosts.py", BATCH_TEST, MADE_TEST) if not self.select(name)]
        return [*sorted(wrong), *sorted(right), *sorted(controls), *files]


def is_available(control: str) -> bool:
    """Tell whether the framework of a negative control is available. NumPy always is, because the suite needs it."""
    adapter = control.rpartition("-")[0]
    return adapter == "numpy" or has_framework(adapter)


def get_name(right: Right) -> str:
    """Return the name that the tests give a right function."""
    return f"{right.operation}-{right.name}"


def count_caught(mutants: Iterable[Wrong], caught: set[str]) -> dict[str, int]:
    """Count these mutants and the caught ones among them."""
    names = [wrong.name for wrong in mutants]
    return {"caught": sum(name in caught for name in names), "total": len(names)}


def score_wrong(caught: set[str]) -> dict[str, Any]:
    """Score the mutants by operation and by rule. Every rule that judges is listed."""
    judging = [rule.id for rule in rules.load() if rule.level != "unspecified"]
    by_rule = {rule: count_caught((wrong for wrong in WRONG if wrong.rule == rule), caught) for rule in judging}
    operations = dict.fromkeys(wrong.operation for wrong in WRONG)
    return {
        **count_caught(WRONG, caught),
        "uncaught": sorted(wrong.name for wrong in WRONG if wrong.name not in caught),
        "rules_that_catch_none": [rule for rule, count in by_rule.items() if not count["caught"]],
        "by_operation": {
            operation: count_caught((wrong for wrong in WRONG if wrong.operation == operation), caught)
            for operation in operations
        },
        "by_rule": by_rule,
    }


def score_right(unblamed: set[str]) -> dict[str, Any]:
    """Count the right functions by operation, and list those that were blamed."""
    blamed = sorted({get_name(right) for right in RIGHT} - unblamed)
    return {"total": len(RIGHT), "blamed": blamed, "by_operation": dict(Counter(right.operation for right in RIGHT))}


def score_generated(outcomes: Outcomes) -> dict[str, Any]:
    """Score the generated mutants, wrong and right ones."""
    found = outcomes.select(BATCH_TEST).values()
    right = outcomes.select(MADE_TEST)
    return {
        **batches.score_batches(json.loads(told["batch"]) for _, told in found if "batch" in told),
        "right": len(right),
        "blamed": sorted(right.keys() - outcomes.list_passed(MADE_TEST)),
    }


def score_hosts(outcomes: Outcomes) -> dict[str, Any]:
    """Count the hosts that misbehave, and list those with an unexpected record."""
    found = outcomes.select("test_hosts.py")
    unexpected = sorted(name for name, (outcome, _) in found.items() if outcome != "passed")
    return {"total": len(found), "as_expected": len(found) - len(unexpected), "unexpected": unexpected}


def score_controls(outcomes: Outcomes) -> Iterator[dict[str, Any]]:
    """Yield the state of each negative control: red, green, or not run because its framework is missing."""
    states = {"passed": "red", "failed": "green", "skipped": "not run"}
    found = outcomes.select(CONTROL_TEST)
    for name in CONTROLS:
        outcome, properties = found.get(name, ("skipped", {}))
        yield {"negative control": name, "state": states[outcome], **properties}


def score(outcomes: Outcomes) -> dict[str, Any]:
    """Combine the scores, with the date and the versions."""
    return {
        **describe_conditions(),
        "wrong": score_wrong(outcomes.list_passed(WRONG_TEST)),
        "right": score_right(outcomes.list_passed(RIGHT_TEST)),
        "generated": score_generated(outcomes),
        "hosts": score_hosts(outcomes),
        "negative_controls": list(score_controls(outcomes)),
        "other_tests_failed": outcomes.list_failed_elsewhere(),
    }


def list_faults(result: dict[str, Any]) -> list[str]:
    """List the faults in the score, one line each."""
    wrong, right, hosts, controls = (result[part] for part in ("wrong", "right", "hosts", "negative_controls"))
    lines = [f"not caught: {name}" for name in wrong["uncaught"]]
    lines += [f"a rule that catches no function: {rule}" for rule in wrong["rules_that_catch_none"]]
    lines += [f"blamed, though right: {name}" for name in [*right["blamed"], *result["generated"]["blamed"]]]
    lines += batches.list_faults(result["generated"])
    lines += [f"a host that was not recorded as expected: {name}" for name in hosts["unexpected"]]
    lines += [f"a green negative control: {each['negative control']}" for each in controls if each["state"] == "green"]
    return lines + [f"a test that failed: {name}" for name in result["other_tests_failed"]]


def write_markdown(result: dict[str, Any]) -> str:
    """Write the score as a page."""
    wrong, right, hosts, made = (result[part] for part in ("wrong", "right", "hosts", "generated"))
    lines = [
        "# The mutation tests of the suite",
        "",
        f"Made by `nox -s mutation` {write_conditions(result)}.",
        "",
        f"- Mutants caught by the rule that they break: {wrong['caught']} of {wrong['total']}",
        f"- Rules that catch no function: {len(wrong['rules_that_catch_none'])} of {len(wrong['by_rule'])}",
        f"- Right functions blamed: {len(right['blamed'])} of {right['total']}",
        f"- Generated mutants caught: {made['caught']} of {made['proven']} ({100 * made['share']:.1f} %)",
        f"- Generated right functions blamed: {len(made['blamed'])} of {made['right']}",
        f"- Tests of misbehaving hosts that end as expected: {hosts['as_expected']} of {hosts['total']}",
        f"- Negative controls: {', '.join(f'{n} {state}' for state, n in count_states(result).items())}",
        "",
        *(f"- **Wrong here:** {fault}" for fault in list_faults(result)),
        *write_table(
            ("operation", "wrong, caught", "wrong", "right"),
            [
                (operation, count["caught"], count["total"], right["by_operation"].get(operation, 0))
                for operation, count in wrong["by_operation"].items()
            ],
        ),
        "A negative control is an adapter whose framework's functions are replaced, by the identity or by themselves",
        "with doubled results. It is red when every subject shows the replacement, except those that clip nothing by",
        "themselves or raise an error in any case: `spared` is their number.",
        "",
        *write_table(
            ("negative control", "state", "framework", "subjects red", "spared"),
            [
                tuple(each.get(name, "") for name in ("negative control", "state", "framework", "red", "spared"))
                for each in result["negative_controls"]
            ],
        ),
        *write_table(
            ("rule", "wrong, caught", "wrong"),
            [(f"`{rule}`", count["caught"], count["total"]) for rule, count in wrong["by_rule"].items()],
        ),
        *batches.write_lines(made),
    ]
    return "\n".join(lines).rstrip() + "\n"


def count_states(result: dict[str, Any]) -> Counter[str]:
    """Count the negative controls in each state."""
    return Counter(each["state"] for each in result["negative_controls"])


def write_table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return the lines of a table, followed by an empty line."""
    return [draw_markdown_table([heads, *rows]), ""]


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
    result = score(outcomes)
    page = write_markdown(result)
    if options.output is None:
        # Print only the summary. The tables of the page have hundreds of lines.
        print(page.partition("\n|")[0].rstrip())
    else:
        print(page)
        (options.output / "mutants.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        (options.output / "mutants.md").write_text(page, encoding="utf-8")
    return 1 if status or list_faults(result) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
