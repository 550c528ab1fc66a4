"""Check what `check_clipper` refuses before it calls the function, and the sentence that says what to give instead."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradclip_conformance import check_clipper
from gradclip_conformance.run.isolation import CannotIsolate, import_target

calls: list[Any] = []


def clip(grads: Any, *, clip_norm: float) -> Any:
    calls.append(clip_norm)
    return list(grads)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"op": "clip_by_norms"}, "Unknown `op` 'clip_by_norms'; choose one of clip_by_value, "),
        ({"dtypes": ["float32", "float23"]}, "Unknown dtype float23; choose among float16, "),
        *(({"timeout": timeout}, "`timeout` is a number of seconds above 0") for timeout in (0, -1, float("nan"))),
        ({"memory": "4G", "isolated": False}, "leave out `isolated=False`"),
        ({"memory": "much"}, "'much' is not a size of memory; write 4G"),
        *(({"memory": memory}, "of memory") for memory in ("4X", "-1G", "1", "9" * 400, 0)),
        ({"formula": "eps:1"}, "is not a formula such as"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_invalid_argument_is_refused_with_what_to_give(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        check_clipper(clip, **{"op": "clip_by_norm", **arguments})

    assert calls == []


def test_function_that_lacks_a_parameter_is_refused() -> None:
    def clip_without_threshold(grads: Any) -> Any:
        return list(grads)

    with pytest.raises(TypeError, match="clip_norm"):
        check_clipper(clip_without_threshold, op="clip_by_norm")


CHECKS_WHEN_IMPORTED = """
from gradclip_conformance import check_clipper

def clip(grads, *, max):
    return [grad.clip(-max, max) for grad in grads]

try:
    print(check_clipper(clip, op="clip_by_value", dtypes=["float32"], rule="value.zero-threshold", isolated=True))
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    raise
"""


@pytest.mark.thorough(sample=0)
def test_error_names_a_module_that_starts_a_check_when_imported(tmp_path: Path) -> None:
    """Check that such a module does not start hosts without end. Each host imports the module."""
    (tmp_path / "checks_when_imported.py").write_text(CHECKS_WHEN_IMPORTED, encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-c", "import checks_when_imported"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )

    assert done.returncode == 1
    assert "while the process of another check imports it." in done.stdout
    assert "Put the call under `if __name__ == '__main__':`." in done.stdout


@pytest.mark.parametrize(
    ("text", "is_harmless"),
    [
        ("import math\nLIMIT: float = 1.0\n'A text.'\ndef clip(): pass\nclass A: pass\n", True),
        ("if __name__ == '__main__':\n    print('run')\n", True),
        ("if __name__ == '__main__':\n    pass\nelse:\n    print('imported')\n", False),
        ("for number in range(3):\n    pass\n", False),
        ("LIMIT = float('1')\n", False),
        ("print('run')\n", False),
        ("def clip(:\n", False),
    ],
    ids=["definitions", "guarded", "else", "loop", "called", "prints", "malformed"],
)
def test_script_is_imported_only_if_it_only_defines(
    text: str, is_harmless: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that a function of a running script gets its own process only if importing the script runs nothing."""
    script = tmp_path / "script.py"
    script.write_text(text, encoding="utf-8")
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "__file__", str(script), raising=False)

    def clip_values(grads: Any, *, max: float) -> Any:
        return [np.clip(gradient, -max, max) for gradient in grads]

    clip_values.__module__, clip_values.__qualname__ = "__main__", "clip_values"
    monkeypatch.setattr(main, "clip_values", clip_values, raising=False)

    if is_harmless:
        assert import_target(clip_values) == f"{script}:clip_values"
    else:
        with pytest.raises(CannotIsolate, match="importing the script would run it again"):
            import_target(clip_values)
