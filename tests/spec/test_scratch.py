"""Memory that is used again: nobody else has it meanwhile, and it is kept where it is worth it."""

from __future__ import annotations

import numpy as np
import pytest

from gradclip_spec import _scratch


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start without what other tests have left."""
    monkeypatch.setattr(_scratch, "_kept", [])


def test_two_at_a_time_share_nothing() -> None:
    with _scratch.borrowed(100, np.float64) as one, _scratch.borrowed(50, np.float32) as other:
        assert (one.size, one.dtype, other.size, other.dtype) == (100, np.float64, 50, np.float32)
        assert not np.shares_memory(one, other)


def test_the_next_has_the_same_memory() -> None:
    with _scratch.borrowed(100, np.float64) as first:
        pass
    with _scratch.borrowed(200, np.float32) as second:
        assert np.shares_memory(first, second)


def test_memory_comes_back_from_a_block_that_fails() -> None:
    with pytest.raises(ZeroDivisionError), _scratch.borrowed(100, np.float64) as first:
        raise ZeroDivisionError
    with _scratch.borrowed(100, np.float64) as second:
        assert np.shares_memory(first, second)


def test_larger_memory_takes_the_place_of_smaller() -> None:
    for size in (10, 1 << 17, 10):
        with _scratch.borrowed(size, np.float64) as array:
            assert array.size == size
    assert [piece.nbytes for piece in _scratch._kept] == [1 << 20]


def test_very_large_memory_is_not_kept_and_drives_out_nothing() -> None:
    with _scratch.borrowed(10, np.float64):
        pass
    kept = list(_scratch._kept)
    with _scratch.borrowed(1 << 23, np.float64) as array:
        array[:] = 1
    assert _scratch._kept == kept


def test_nothing_at_all() -> None:
    with _scratch.borrowed(0, np.float64) as array:
        assert array.size == 0
    assert all(piece.nbytes for piece in _scratch._kept)
