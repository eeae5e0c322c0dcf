"""The VS Code extension: its manifest and colours say what hloc says; it builds into a .vsix.

Building needs Node.js, npm and its registry: `pytest -m slow tests/unit/editors/test_vscode.py`.
"""

import bisect
import json
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs.generators import textmate
from hloc.cli.options import OPTIONS
from hloc.editors.tokens import Kind, tokens

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "editors" / "vscode"

SCOPES: dict[Kind, str] = {
    "comment": "comment.",
    "string": "string.",
    "section": "keyword.control.",
    "constant": "constant.language.",
    "type": "support.type.hlo",
    "opcode": "support.function.",
    "attribute": "entity.other.attribute-name.",
    "property": "support.type.property-name.",
    "definition": "entity.name.variable.",
    "number": "constant.numeric.",
    "operator": "keyword.operator.",
}
"""By kind of token; what a name stands for depends on more than its line."""


@pytest.fixture(scope="module")
def manifest() -> Any:
    return json.loads((FOLDER / "package.json").read_text())


def test_the_grammar_is_what_the_tables_say() -> None:
    written = (FOLDER / "syntaxes" / "hlo.tmLanguage.json").read_text()
    assert written == textmate.page(), "run `make docs`"


def test_every_file_of_the_manifest_is_there(manifest: Any) -> None:
    contributes = manifest["contributes"]
    (language,), (grammar,) = contributes["languages"], contributes["grammars"]
    assert language["id"] == grammar["language"] == "hlo"
    assert (FOLDER / language["configuration"]).is_file()
    assert json.loads((FOLDER / grammar["path"]).read_text())["scopeName"] == grammar["scopeName"]
    assert re.match(language["firstLine"], "HloModule jit_f, is_scheduled=true")


def test_commands_of_the_manifest_are_those_of_the_code(manifest: Any) -> None:
    """Those of the language server are registered by its client, and must have other names."""
    code = "".join(path.read_text() for path in (FOLDER / "src").glob("*.ts"))
    declared = {row["command"] for row in manifest["contributes"]["commands"]}
    assert declared == set(re.findall(r'registerCommand\("([\w.]+)"', code))
    outline = (ROOT / "hloc" / "lsp" / "outline.py").read_text()
    assert not declared & set(re.findall(r'"(hloc\.\w+)"', outline))
    settings = set(manifest["contributes"]["configuration"]["properties"])
    assert settings == {f"hloc.{name}" for name in re.findall(r'get<[\w\[\]]+>\("(\w+)"\)', code)}


def test_options_that_the_extension_passes_exist(manifest: Any) -> None:
    flags = {flag for option in OPTIONS for flag in option.flags}
    passed = set(re.findall(r'"(--[a-z-]+)', (FOLDER / "src" / "passes.ts").read_text()))
    assert passed == {"--dump-dir", "--color"}
    assert passed <= flags


def test_the_lock_file_names_no_registry() -> None:
    assert '"resolved"' not in (FOLDER / "package-lock.json").read_text()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the extension with what npm installs."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    top = tmp_path_factory.mktemp("vscode")
    folder = top / "editors" / "vscode"
    left = shutil.ignore_patterns("node_modules", "out", "*.vsix")
    shutil.copytree(FOLDER, folder, ignore=left)
    shutil.copy(ROOT / "LICENSE", top)
    installed = subprocess.run([npm, "ci"], cwd=folder, capture_output=True, text=True, check=False)
    if installed.returncode:
        pytest.skip(f"npm cannot install: {installed.stderr.splitlines()[-1:]}")
    subprocess.run([npm, "run", "package"], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.mark.slow
def test_the_package_has_what_the_manifest_names(built: Path, manifest: Any) -> None:
    with zipfile.ZipFile(built / "hloc.vsix") as package:
        names = set(package.namelist())
        packed = json.loads(package.read("extension/package.json"))
        code = package.read("extension/out/extension.js").decode()
    contributes = manifest["contributes"]
    paths = [manifest["main"], *(row["configuration"] for row in contributes["languages"])]
    paths += [row["path"] for row in contributes["grammars"]]
    assert {f"extension/{path.removeprefix('./')}" for path in paths} <= names
    assert not [name for name in names if "node_modules" in name or name.endswith(".ts")]
    vsce = ["npx", "--no-install", "vsce", "ls", "--no-dependencies"]
    listed = subprocess.run(vsce, cwd=built, check=True, capture_output=True, text=True).stdout
    own = {"README.md": "readme.md", "LICENSE": "LICENSE.txt"}  # what vsce calls them inside
    files = {f"extension/{own.get(name, name)}" for name in listed.split()}
    assert files == {name for name in names if name.startswith("extension/")}
    assert packed["contributes"] == contributes
    assert "hloc.showPasses" in code


def scopes(folder: Path, text: str) -> Iterator[tuple[Kind, str, str]]:
    """Yield kind and text of hloc's tokens, and the scope of TextMate at the same place."""
    node = shutil.which("node")
    assert node is not None
    said = subprocess.run(
        [node, "test/tokenize.mjs"],
        cwd=folder, input=text, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    rows = [json.loads(line) for line in said.splitlines()]
    places = [starts[line] + column for line, column, _, _ in rows]
    for token in tokens(text):
        yield token.kind, token.text, rows[bisect.bisect_right(places, token.at) - 1][3]


@pytest.mark.slow
def test_colours_of_the_grammar_are_those_of_hlocs_tokens(built: Path) -> None:
    for file in sorted((ROOT / "examples").glob("*.hlo")):
        found = list(scopes(built, file.read_text()))
        assert len(found) > 50
        wrong = [row for row in found if not row[2].startswith(SCOPES.get(row[0], ""))]
        assert wrong == [], file.name
