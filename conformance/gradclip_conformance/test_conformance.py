"""What `pytest --pyargs gradclip_conformance --gradclip-adapter NAME` collects."""

from __future__ import annotations

from typing import Any

import pytest

from gradclip_conformance.pytest_plugin import check_cell


def test_cell(gradclip_cell: Any, request: pytest.FixtureRequest) -> None:
    """One case for one subject."""
    connection, target, planned = gradclip_cell
    check_cell(connection, target, planned, request.config.getoption("--gradclip-timeout"))
