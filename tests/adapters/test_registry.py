"""Check how a name, a file or a function becomes an adapter, and which message explains a failure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gradclip_adapters import registry
from gradclip_adapters.contract import Adapter, BadDeclaration
from gradclip_adapters.plain import PlainFunction
from gradclip_adapters.registry import BadTarget, MissingFramework

ADAPTER = """
from gradclip_adapters.contract import About, Adapter
class Fake(Adapter):
    def about(self): return About("fake", "1")
    def subjects(self): return []
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Return a function that writes a file with this text and returns its path."""

    def write(text: str, name: str = "fake_adapter.py") -> str:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def write_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[..., str]) -> Callable[..., str]:
    """Return a function that writes a module, which can be imported."""
    monkeypatch.syspath_prepend(tmp_path)
    return write


@pytest.mark.parametrize(
    ("target", "kind"),
    [("torch", "name"), ("./a.py", "file"), ("a.py", "file"), ("a.b:c", "function"), ("C:/x/a.py", "file")],
)
def test_kind_of_a_target_is_recognized(target: str, kind: str) -> None:
    assert registry.find_kind(target) == kind


@pytest.mark.parametrize("last", ["", "adapter = Fake\n", "adapter = Fake()\n", "def adapter(): return Fake()\n"])
def test_file_may_define_a_class_an_object_or_a_factory(last: str, write: Callable[..., str]) -> None:
    path = write(ADAPTER + last)

    assert registry.resolve(path).about().framework == "fake"
    with pytest.raises(BadTarget, match="has no choice of devices"):
        registry.resolve(path, device="cuda")


def test_device_is_passed_to_the_factory(write: Callable[..., str]) -> None:
    text = ADAPTER + "class OnDevice(Fake):\n    def __init__(self, device='cpu'): self.device = device\n"
    path = write(text + "adapter = OnDevice\n")

    assert registry.resolve(path).device == "cpu"  # type: ignore[attr-defined]
    assert registry.resolve(path, device="cuda").device == "cuda"  # type: ignore[attr-defined]


def test_file_may_import_its_neighbours(write: Callable[..., str]) -> None:
    write("NUMBER = 4711\n", "neighbour_of_a_fake.py")
    text = "from neighbour_of_a_fake import NUMBER\n" + ADAPTER + "assert NUMBER == 4711\n"

    assert isinstance(registry.resolve(write(text)), Adapter)


def test_module_may_hold_an_adapter(write_module: Callable[..., str]) -> None:
    write_module(ADAPTER + "made = Fake()\n", "some_adapters.py")

    for attribute in ("Fake", "made"):
        assert registry.resolve(f"some_adapters:{attribute}").about().framework == "fake"


WITHOUT_FRAMEWORK = "import no_such_framework\n"
UNKNOWN_OPERATION = "from gradclip_adapters.contract import EntryPoint\nEntryPoint('f', 'clip', ('float32',))\n"


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("", BadTarget, r"must define `adapter`, or one .* found 0. To check a plain function, write MODULE:FN"),
        (ADAPTER + ADAPTER.replace("Fake", "Other"), BadTarget, "found 2"),
        ("from gradclip_adapters.contract import Adapter\n", BadTarget, "found 0"),
        ("adapter = 42\n", BadTarget, "gives a int, not a gradclip_adapters.contract.Adapter"),
        ("adapter = (\n", BadTarget, "cannot be imported: SyntaxError"),
        ("1 / 0\n", BadTarget, "cannot be imported: ZeroDivisionError"),
        (UNKNOWN_OPERATION, BadDeclaration, "operation 'clip'"),
        (WITHOUT_FRAMEWORK, MissingFramework, "does not have: No module named 'no_such_framework'"),
        (f"{ADAPTER}    def __init__(self): {WITHOUT_FRAMEWORK}", MissingFramework, "cannot start .*no_such_framework"),
    ],
)
def test_file_without_an_adapter_says_why(
    text: str, error: type[Exception], said: str, write: Callable[..., str]
) -> None:
    with pytest.raises(error, match=said):
        registry.resolve(write(text))


def test_declaration_that_breaks_the_contract_is_named_for_a_function_beside_it(write: Callable[..., str]) -> None:
    with pytest.raises(BadDeclaration, match="operation 'clip'"):
        registry.resolve(write(UNKNOWN_OPERATION) + ":clip")


def test_unknown_name_names_the_known_ones() -> None:
    with pytest.raises(BadTarget, match=r"no adapter named 'jx'\. Known: .*numpy, .*torch"):
        registry.resolve("jx")


def test_missing_framework_differs_from_a_missing_adapter(
    monkeypatch: pytest.MonkeyPatch, write_module: Callable[..., str]
) -> None:
    write_module(WITHOUT_FRAMEWORK, "adapter_of_nothing.py")
    monkeypatch.setitem(registry.BUILT_IN, "nothing", "adapter_of_nothing:Adapter")
    monkeypatch.setitem(registry.BUILT_IN, "nowhere", "no_such_adapter_module:Adapter")

    with pytest.raises(MissingFramework, match="no_such_framework"):
        registry.resolve("nothing")
    with pytest.raises(BadTarget, match="no_such_adapter_module"):
        registry.resolve("nowhere")


def test_function_becomes_an_adapter_with_the_requested_dtypes(write_module: Callable[..., str]) -> None:
    write_module("def clip(grads, *, clip_norm): return grads\n", "some_clips.py")

    adapter = registry.resolve("some_clips:clip", "clip_by_norm", ["float64"])

    assert isinstance(adapter, PlainFunction)
    (entry_point,) = adapter.subjects()
    assert (entry_point.operation, entry_point.dtypes) == ("clip_by_norm", ("float64",))


@pytest.mark.parametrize(
    ("target", "operation", "dtypes", "said"),
    [
        ("math:", "clip_by_norm", None, "not of the form module:function"),
        (":hypot", "clip_by_norm", None, "not of the form module:function"),
        ("no_such_module:f", "clip_by_norm", None, "There is no module 'no_such_module'"),
        ("math:no_such", "clip_by_norm", None, "has no 'no_such'"),
        ("math:pi", "clip_by_norm", None, "is a float, not a function"),
        ("math:hypot", None, None, "needs --op"),
        ("math:hypot", "clip", None, "needs --op"),
        ("math:hypot", "clip_by_norm", ["int8"], "Unknown dtype int8"),
        ("operator:neg", "clip_by_norm", None, "clip_norm"),
    ],
)
def test_function_that_cannot_be_used_says_why(
    target: str, operation: str | None, dtypes: list[str] | None, said: str
) -> None:
    with pytest.raises(BadTarget, match=said):
        registry.resolve(target, operation, dtypes)


def test_entry_points_only_add_names() -> None:
    assert registry.BUILT_IN.items() <= registry.list_installed().items()
