"""Make the runs that several tests draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sample_runs import HOSTILE, make_cell, make_header, make_realistic_run, make_run, make_uniform

from gradclip_reports.records import Run
from gradclip_spec import rules

TORCH = [
    ("torch.nn.utils.clip_grad_norm_ [foreach=None]", "clip_by_global_norm"),
    ("torch.nn.utils.clip_grad_norm_ [foreach=True]", "clip_by_global_norm"),
    ("torch.nn.utils.clip_grad_norm_ [foreach=False]", "clip_by_global_norm"),
    ("torch.nn.utils.get_total_norm, clip_grads_with_norm_", "clip_by_global_norm"),
    ("torch.nn.utils.clip_grad_value_ [foreach=True]", "clip_by_value"),
    ("torch.nn.utils.clip_grad_value_ [foreach=False]", "clip_by_value"),
]


@pytest.fixture(scope="session")
def torch_run() -> Run:
    """Return a run of about 1,800 cells."""
    return make_realistic_run("torch", "2.13.0", TORCH)


@pytest.fixture(scope="session")
def several_runs(torch_run: Run) -> list[Run]:
    """Return the runs of three adapters. One of them has an operation that the others lack."""
    tensorflow = [("tf.clip_by_global_norm", "clip_by_global_norm"), ("tf.clip_by_norm", "clip_by_norm")]
    paddle = [("ClipGradByGlobalNorm", "clip_by_global_norm"), ("ClipGradByValue", "clip_by_value")]
    return [
        torch_run,
        make_realistic_run("tensorflow", "2.21.0", tensorflow),
        make_realistic_run("paddle", "3.3.1", paddle),
    ]


@pytest.fixture(scope="session")
def small_run() -> Run:
    """Return a run of one entry point: two cells pass, one fails, one is unsupported, and one did not run."""
    case = "norm.scaled-above/one-tensor/{}".format
    failed = {
        "input": {"clip_norm": (2.0).hex(), "gradients": [[(3.0).hex(), (4.0).hex()]]},
        "expected": [[(1.2).hex(), (1.6).hex()]],
        "observed": [[(0.6).hex(), "nan"]],
        "ulp": 4194304.0,
    }
    cells = [
        make_cell(case=case("float32")),
        make_cell(case=case("float64"), dtype="float64"),
        make_cell(case=case("float16"), dtype="float16", status="fail", **failed),
        make_cell(case=case("bfloat16"), dtype="bfloat16", status="unsupported", detail="No bfloat16 here."),
    ]
    return make_run(make_header(), cells, not_run=[("clip", "norm.identity-below/one-tensor/float32")])


@pytest.fixture(scope="session")
def hostile_run() -> Run:
    """Return a run in which every text is an attack."""
    header = make_header(HOSTILE, HOSTILE, [(HOSTILE, "clip_by_norm"), ("../../escape", "clip_by_norm")])
    entry_point = {**header.subjects[0], "dtypes": [HOSTILE], "features": [HOSTILE], "formula": {"kind": HOSTILE}}
    header = replace(
        header,
        subjects=[entry_point, header.subjects[1]],
        suite={"name": HOSTILE, "version": HOSTILE},
        environment={"python": HOSTILE, "platform": HOSTILE, HOSTILE: HOSTILE, "adapter": "forged"},
    )
    shown = {"dtype": HOSTILE, "shape": [HOSTILE], "values": [HOSTILE], HOSTILE: HOSTILE}
    members = dict.fromkeys(("subject", "theme", "dtype", "behaviour", "detail", "quote", "url"), HOSTILE)
    members |= {"input": shown, "expected": HOSTILE, "observed": [shown]}
    statuses = ["fail", "fail", "known", "documented", "unsupported"]
    cells = [
        make_cell(rule=HOSTILE, case=f"{HOSTILE}/{number}", status=status, **members)
        for number, status in enumerate(statuses)
    ]
    # The site has a page for this rule.
    rule = rules.load()[0].id
    cells.insert(0, make_cell(rule=rule, case=f"{rule}/{HOSTILE}", status="fail", **members))
    run = make_run(header, cells, not_run=[(HOSTILE, f"{HOSTILE}/9")])
    return replace(run, findings=tuple(make_uniform(cell, HOSTILE) for cell in cells[:4]))


@pytest.fixture
def write_record(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that writes text to a file and returns its path."""
    path = tmp_path / "record.jsonl"

    def write(text: str) -> Path:
        path.write_text(text, encoding="utf-8")
        return path

    return write
