"""Check how a name, a file or a function becomes an adapter, and which message explains a failure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gradclip_adapters import registry
from gradclip_adapters.contract import Adapter, BadDeclaration
from gradclip_adapters.plain import PlainFunction

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


@pytest.mark.parametrize(
    ("target", "kind"),
    [("torch", "name"), ("./a.py", "file"), ("a.py", "file"), ("a.b:c", "function"), ("C:/x/a.py", "file")],
)
def test_kind_of_a_target_is_recognized(target: str, kind: str) -> None:
    assert registry.find_kind(target) == kind


def test_file_may_define_a_class_an_object_or_a_factory(write: Callable[..., str]) -> None:
    for last in ("", "adapter = Fake\n", "adapter = Fake()\n", "def adapter(): return Fake()\n"):
        adapter = registry.resolve(write(ADAPTER + last))
        assert isinstance(adapter, Adapter)
        assert adapter.about().framework == "fake"


def test_device_is_passed_to_the_factory(write: Callable[..., str]) -> None:
    text = ADAPTER + "class OnDevice(Fake):\n    def __init__(self, device='cpu'): self.device = device\n"
    path = write(text + "adapter = OnDevice\n")

    assert registry.resolve(path).device == "cpu"  # type: ignore[attr-defined]
    assert registry.resolve(path, device="cuda").device == "cuda"  # type: ignore[attr-defined]


@pytest.mark.parametrize("last", ["", "adapter = Fake()\n"])
def test_adapter_without_a_choice_of_devices_refuses_one(last: str, write: Callable[..., str]) -> None:
    with pytest.raises(registry.BadTarget, match="has no choice of devices"):
        registry.resolve(write(ADAPTER + last), device="cuda")


def test_file_may_import_its_neighbours(write: Callable[..., str]) -> None:
    write("NUMBER = 4711\n", "neighbour_of_a_fake.py")
    text = "from neighbour_of_a_fake import NUMBER\n" + ADAPTER + "assert NUMBER == 4711\n"

    assert isinstance(registry.resolve(write(text)), Adapter)


def test_module_may_hold_an_adapter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "some_adapters.py").write_text(ADAPTER + "made = Fake()\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    for attribute in ("Fake", "made"):
        assert registry.resolve(f"some_adapters:{attribute}").about().framework == "fake"


@pytest.mark.parametrize("last", ["", ":Fake"], ids=["file", "name-in-file"])
def test_declaration_that_breaks_the_contract_is_named(last: str, write: Callable[..., str]) -> None:
    text = "from gradclip_adapters.contract import EntryPoint\nEntryPoint('f', 'clip', ('float32',))\n" + ADAPTER

    with pytest.raises(BadDeclaration, match="operation 'clip'"):
        registry.resolve(write(text) + last)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"must define `adapter`, or one subclass .* found 0. To check a plain function, write MODULE:FN"),
        (ADAPTER + ADAPTER.replace("Fake", "Other"), "found 2"),
        ("from gradclip_adapters.contract import Adapter\n", "found 0"),
        ("adapter = 42\n", "gives a int, not a gradclip_adapters.contract.Adapter"),
        ("adapter = (\n", "cannot be imported: SyntaxError"),
        ("1 / 0\n", "cannot be imported: ZeroDivisionError"),
    ],
)
def test_file_without_an_adapter_says_why(text: str, said: str, write: Callable[..., str]) -> None:
    with pytest.raises(registry.BadTarget, match=said):
        registry.resolve(write(text))


def test_file_that_imports_a_missing_framework_is_refused(write: Callable[..., str]) -> None:
    with pytest.raises(registry.MissingFramework, match=r"does not have: No module named 'no_such_framework'"):
        registry.resolve(write("import no_such_framework\n" + ADAPTER))


def test_adapter_that_imports_a_missing_framework_late_is_refused(write: Callable[..., str]) -> None:
    text = ADAPTER + "    def __init__(self): import no_such_framework\n"

    with pytest.raises(registry.MissingFramework, match=r"cannot start in .*no_such_framework"):
        registry.resolve(write(text))


def test_unknown_name_names_the_known_ones() -> None:
    with pytest.raises(registry.BadTarget, match=r"no adapter named 'jx'\. Known: .*numpy, .*torch"):
        registry.resolve("jx")


def test_missing_framework_differs_from_a_missing_adapter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "adapter_of_nothing.py").write_text("import no_such_framework\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(registry.BUILT_IN, "nothing", "adapter_of_nothing:Adapter")
    monkeypatch.setitem(registry.BUILT_IN, "nowhere", "no_such_adapter_module:Adapter")

    with pytest.raises(registry.MissingFramework, match="no_such_framework"):
        registry.resolve("nothing")
    with pytest.raises(registry.BadTarget, match="no_such_adapter_module"):
        registry.resolve("nowhere")


def test_function_becomes_an_adapter_with_the_requested_dtypes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "some_clips.py").write_text("def clip(grads, *, clip_norm): return grads\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    adapter = registry.resolve("some_clips:clip", "clip_by_norm", ["float64"])

    assert isinstance(adapter, PlainFunction)
    (subject,) = adapter.subjects()
    assert (subject.operation, subject.dtypes) == ("clip_by_norm", ("float64",))


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
    with pytest.raises(registry.BadTarget, match=said):
        registry.resolve(target, operation, dtypes)


def test_entry_points_only_add_names() -> None:
    assert registry.BUILT_IN.items() <= registry.list_installed().items()
