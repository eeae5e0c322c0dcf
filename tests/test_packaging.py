"""What a user installs: the wheel holds everything, and the programs start from it.

The slow test makes a fresh environment and needs the package index (or a filled cache).
"""

import ast
import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[1]
TINY = "HloModule m\nENTRY e { p = f32[4] parameter(0)  ROOT r = f32[4] add(p, p) }\n"


def project() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return table


def test_version_is_the_same_everywhere() -> None:
    tree = ast.parse((ROOT / "hloc" / "__init__.py").read_text())
    versions = [
        ast.literal_eval(statement.value)
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and statement.targets[0].id == "__version__"
    ]
    assert versions == [project()["project"]["version"]]


def test_entry_points_exist() -> None:
    for target in project()["project"]["scripts"].values():
        module, _, function = target.partition(":")
        path = ROOT.joinpath(*module.split("."))
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        tree = ast.parse(file.read_text())
        names = [s.name for s in tree.body if isinstance(s, ast.FunctionDef)]
        names += [
            a.asname or a.name for s in tree.body if isinstance(s, ast.ImportFrom) for a in s.names
        ]
        assert function in names, f"{target} is not defined in {file}"


def test_no_copy_of_the_grammar_shadows_the_real_one() -> None:
    """A stray hloc/parser/hlo.lark in the checkout would be read instead of grammar/hlo.lark."""
    assert not (ROOT / "hloc" / "parser" / "hlo.lark").exists()
    assert (ROOT / "grammar" / "hlo.lark").is_file()


@pytest.mark.parametrize("line", ["run", "test"])
def test_readme_has_its_two_commands(line: str) -> None:
    """One shell line each, which needs nothing but Python with venv; CI runs the second."""
    found = [
        text.removeprefix("$ ")
        for text in (ROOT / "README.md").read_text().splitlines()
        if text.removeprefix("$ ").startswith("python3 -m venv .venv &&")
    ]
    assert len(found) == 2, found
    words = {"run": "--compare-with=interp", "test": "pytest"}
    assert words[line] in found[("run", "test").index(line)]


@pytest.mark.slow
def test_wheel_installs_and_runs(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    build = [*pip, "wheel", "--no-deps", "-w", str(wheels), str(ROOT)]
    subprocess.run(build, check=True, timeout=PATIENCE)
    (wheel,) = wheels.glob("hloc-*.whl")

    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    subprocess.run(
        [str(home / "bin" / "python"), "-m", "pip", "-q", "install", str(wheel)],
        check=True,
        timeout=PATIENCE,
    )
    file = tmp_path / "tiny.hlo"
    file.write_text(TINY)

    def output(*command: str) -> str:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        program = str(home / "bin" / command[0])
        done = subprocess.run(
            [program, *command[1:]],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    version = project()["project"]["version"]
    assert version in output("hloc", "--version")
    assert "HloModule m" in output("hloc", "parse", str(file))
    assert "OK" in output("hloc", str(file), "--run", "--random=0", "--compare-with=interp")
    assert "usage" in output("hlo-repl", "--help").lower()
    assert "HloModule m" in output("hlo-opt", "--passes=dce", str(file))
