"""`deferred_import`: a module is loaded when it is used, once, by whichever thread comes first."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from hloc.deferred_import import defer_import
from tests.waiting import all_at_once


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package that writes a line to `log` each time it is loaded, and has a submodule."""
    folder = tmp_path / "deferred_sample"
    folder.mkdir()
    lines = (
        f"with open({str(tmp_path / 'log')!r}, 'a') as file:",
        "    file.write('loaded\\n')",
        "import time",
        "time.sleep(0.05)  # so that threads meet while it loads",
        "value = 7",
    )
    (folder / "__init__.py").write_text("\n".join(lines))
    (folder / "part.py").write_text("from deferred_sample import value\ndouble = 2 * value\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("deferred_sample", "deferred_sample.part"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "deferred_sample"


def _times_loaded(tmp_path: Path) -> int:
    log = tmp_path / "log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_a_module_is_loaded_when_an_attribute_is_read(package: str, tmp_path: Path) -> None:
    defer_import(package)
    module = __import__(package)
    assert _times_loaded(tmp_path) == 0
    assert module.value == 7
    assert _times_loaded(tmp_path) == 1
    assert type(module) is ModuleType
    assert sys.modules[package] is module
    with pytest.raises(AttributeError, match="nothing"):
        _ = module.nothing


def test_a_part_of_a_deferred_package_loads_the_package_first(package: str, tmp_path: Path) -> None:
    defer_import(package)
    __import__(f"{package}.part")
    assert sys.modules[f"{package}.part"].double == 14
    assert _times_loaded(tmp_path) == 1


def test_threads_that_come_at_once_load_it_once(package: str, tmp_path: Path) -> None:
    defer_import(package)
    module, values = sys.modules[package], []
    all_at_once(8, lambda _: values.append(module.value))
    assert values == [7] * 8
    assert _times_loaded(tmp_path) == 1


def test_what_is_loaded_or_missing_stays_as_it_is() -> None:
    before = sys.modules["pytest"]
    defer_import("pytest")
    defer_import("no_such_module_anywhere")
    assert sys.modules["pytest"] is before
    assert "no_such_module_anywhere" not in sys.modules
