"""Read the tables of measurements, and refuse other files. Like a record, such a table may come from anybody."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from ..limits import FILE, OverLimit, check_size, parse_json
from ..lines import RecordError
from ..values import escape_text

#: Plots compute with the numbers of tables. With a larger number, a result could be beyond the range of float64.
_LARGEST = 1e300


def _is_text(value: object) -> bool:
    return type(value) is str


def _is_count(value: object) -> bool:
    return type(value) is int


def _is_time(value: object) -> bool:
    return isinstance(value, (int, float)) and type(value) is not bool and 0 <= value <= _LARGEST


def _is_distance(value: object) -> bool:
    # JSON has no infinity, so it is written as text. No distance is NaN.
    return value == "inf" or _is_time(value)


Members = Mapping[str, Callable[[object], bool]]

_ACCURACY: Members = {
    **dict.fromkeys(("subject", "dtype", "problem"), _is_text),
    "size": _is_count,
    **dict.fromkeys(("norm", "elements"), _is_distance),
}
_SPEED: Members = {
    **dict.fromkeys(("peer", "workload", "dtype", "mode"), _is_text),
    **dict.fromkeys(("ours", "theirs"), _is_time),
}


def read_accuracy(path: Path) -> list[Mapping[str, Any]]:
    """Read what `gradclip accuracy -o` wrote, and return the frameworks with their rows.

    Raises
    ------
    RecordError
        If the file cannot be read or holds something else.
    """
    document = _read(path)
    frameworks = document.get("frameworks") if isinstance(document, dict) else None
    if not isinstance(frameworks, list):
        _refuse(path, "it has no list of frameworks")
    for framework in frameworks:
        names = isinstance(framework, dict) and [framework.get(name) for name in ("adapter", "framework", "version")]
        if not names or not all(isinstance(name, str) for name in names):
            _refuse(path, "a framework lacks its adapter, its name or its version")
        _check_rows(framework.get("rows"), _ACCURACY, path, optional="norm")
    return frameworks


def read_speeds(path: Path) -> list[dict[str, Any]]:
    """Read what `nox -s bench` wrote.

    Raises
    ------
    RecordError
        If the file cannot be read or holds something else.
    """
    rows: list[dict[str, Any]] = _read(path)
    _check_rows(rows, _SPEED, path)
    return rows


def _read(path: Path) -> Any:
    try:
        with path.open("rb") as stream:
            content = stream.read(FILE + 1)
        check_size(content)
        document = parse_json(content.decode("utf-8"))
    except OverLimit as error:
        _refuse(path, str(error))
    except (OSError, ValueError, RecursionError) as error:
        _refuse(path, f"it cannot be read: {error}")
    return document


def _check_rows(rows: Any, members: Members, path: Path, optional: str = "") -> None:
    if not isinstance(rows, list):
        _refuse(path, "it has no list of rows")
    for number, row in enumerate(rows, start=1):
        for name, fits in members.items():
            value = row.get(name) if isinstance(row, dict) else None
            if not (fits(value) or (name == optional and value is None and name in row)):
                _refuse(path, f"row {number} has no valid member {name!r}")


def _refuse(path: Path, what: str) -> NoReturn:
    message = escape_text(f"{path} is not a table of measurements: {what}.")
    raise RecordError(message)
