"""The build hook: an installation brings routines along, and never fails because of them."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


class _Hook:
    """Stands for hatchling's base class, which only an installer has."""

    root = str(ROOT)
    target_name = "wheel"
    app = SimpleNamespace(display_info=lambda text: None)


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module `hatch_build`."""
    monkeypatch.delenv("HLOC_PREBUILT", raising=False)
    interface = ModuleType("interface")
    interface.BuildHookInterface = _Hook  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "hatchling.builders.hooks.plugin.interface", interface)
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _noted(hook: Any, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the folders that are filled from now on, with nothing."""
    filled: list[Path] = []

    def fill(_root: Path, directory: Path) -> str:
        filled.append(directory)
        return ""

    monkeypatch.setattr(hook, "fill", fill)
    return filled


def test_a_wheel_gets_the_folder_and_nothing_stays_behind(
    hook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled = _noted(hook, monkeypatch)
    data: dict[str, Any] = {"force_include": {}}
    made = hook.RoutineHook()
    made.initialize("standard", data)
    assert data["force_include"] == {str(filled[0]): "hloc/prebuilt"}
    assert filled[0].is_dir()
    made.finalize("standard", data, "")
    assert not filled[0].exists()


def test_a_checkout_is_filled_itself(hook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    filled = _noted(hook, monkeypatch)
    data: dict[str, Any] = {"force_include": {}}
    hook.RoutineHook().initialize("editable", data)
    assert filled == [ROOT / "hloc" / "prebuilt"]
    assert not data["force_include"]


def test_wheels_for_others_stay_pure(hook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOC_PREBUILT", "0")
    monkeypatch.setattr(hook, "fill", None)
    data: dict[str, Any] = {"force_include": {}}
    made = hook.RoutineHook()
    made.initialize("standard", data)
    made.finalize("standard", data, "")
    assert not data["force_include"]


def test_what_goes_wrong_is_told_in_a_line(hook: Any, tmp_path: Path) -> None:
    """Sources without hloc stand for whatever may be missing where wheels are built."""
    broken = tmp_path / "hloc"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise ImportError('no llvmlite here')\n")
    note = hook.fill(tmp_path, tmp_path / "objects")
    assert note == "no routines were compiled: ImportError: no llvmlite here"


def test_a_process_that_hangs_is_given_up(
    hook: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def hang(command: list[str], **_: Any) -> None:
        raise subprocess.TimeoutExpired(command, 1)

    monkeypatch.setattr(hook.subprocess, "run", hang)
    assert hook.fill(ROOT, tmp_path).startswith("no routines were compiled: ")


def test_the_process_finds_the_sources(
    hook: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What the process runs, but for the routines, which take a while."""
    monkeypatch.setattr(hook, "_FILL", "import hloc, sys; print(hloc.__file__, sys.argv[1])")
    note = hook.fill(ROOT, tmp_path)
    assert note.startswith(f"{ROOT / 'hloc' / '__init__.py'} {tmp_path} routines compiled")
