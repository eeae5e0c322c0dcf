"""The files for Neovim, in a Neovim without a screen: file type, colours, folds, language server.

Needs nvim 0.11 or later; the parser needs `tree-sitter` and a C compiler, the server pygls.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.editors.tree_sitter_hlo import grammar_or_skip
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "editors" / "nvim"
TEXT = """HloModule m

ENTRY e {
  x = f32[4] parameter(0)
  ROOT y = f32[4] negat(x)
}
"""


def test_the_queries_are_those_of_the_grammar() -> None:
    assert (FOLDER / "queries" / "hlo" / "highlights.scm").is_file()


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    """Return a copy of editors/nvim, to which a parser can be added."""
    nvim = shutil.which("nvim")
    if nvim is None:
        pytest.skip("nvim is not installed")
    said = subprocess.run([nvim, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.match(r"NVIM v(\d+)\.(\d+)", said)
    if found is None or tuple(map(int, found.groups())) < (0, 11):
        pytest.skip("needs nvim 0.11")
    return shutil.copytree(FOLDER, tmp_path / "nvim", ignore=shutil.ignore_patterns("parser"))


def answer(runtime: Path, file: Path, lua: str) -> Any:
    """Return what `lua` returns in a Neovim that has opened `file`."""
    result, script = runtime.parent / "result.json", runtime.parent / "script.lua"
    script.write_text(
        f"local ok, value = pcall(function()\n{lua}\nend)\n"
        f"vim.fn.writefile({{vim.json.encode({{ok, value}})}}, '{result}')\nvim.cmd('qall!')\n"
    )
    words = ["nvim", "--headless", "-u", "NONE", "-i", "NONE", "--cmd", f"set rtp^={runtime}"]
    words += ["--cmd", "runtime! plugin/hlo.lua | filetype plugin on", str(file), "-S", str(script)]
    subprocess.run(words, check=True, capture_output=True, timeout=PATIENCE)
    ok, value = json.loads(result.read_text())
    assert ok, value
    return value


@pytest.mark.parametrize("name", ["m.hlo", "module_0001.jit_f.txt"])
def test_files_of_hlo_are_known(name: str, runtime: Path, tmp_path: Path) -> None:
    (tmp_path / name).write_text(TEXT)
    lua = "return {vim.bo.filetype, vim.bo.commentstring}"
    assert answer(runtime, tmp_path / name, lua) == ["hlo", "// %s"]


def test_other_texts_are_not(runtime: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("a HloModule\n")
    assert answer(runtime, tmp_path / "notes.txt", "return vim.bo.filetype") == "text"


def test_colours_and_folds(runtime: Path, tmp_path: Path) -> None:
    grammar_or_skip(tmp_path).library(runtime / "parser" / "hlo.so")
    (tmp_path / "m.hlo").write_text(TEXT)
    lua = """
vim.treesitter.get_parser(0, "hlo"):parse(true)
local function captures(line, column)
  local found = vim.treesitter.get_captures_at_pos(0, line, column)
  return vim.tbl_map(function(one) return one.capture end, found)
end
return {captures(0, 0), captures(3, 2), captures(3, 6), captures(3, 13), captures(4, 18),
        {vim.fn.foldlevel(1), vim.fn.foldlevel(4)}}"""
    found = answer(runtime, tmp_path / "m.hlo", lua)
    assert found[:4] == [["keyword"], ["variable"], ["type.builtin"], ["function.builtin"]]
    assert found[4] in ([], {})  # a misspelt opcode
    assert found[5] == [0, 1]


def test_the_language_server_answers(
    runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pygls", reason="the extra hloc[lsp]")
    program = tmp_path / "bin" / "hloc"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m hloc "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    (tmp_path / "m.hlo").write_text(TEXT)
    lua = """
vim.wait(60000, function() return #vim.diagnostic.get(0) > 0 end)
local said = vim.diagnostic.get(0)[1]
local client = vim.lsp.get_clients({name = "hloc"})[1]
local hover = client:request_sync("textDocument/hover", {
  textDocument = {uri = vim.uri_from_bufnr(0)}, position = {line = 3, character = 2}}, 60000)
local hints = vim.lsp.inlay_hint.is_enabled({bufnr = 0})
return {said.code, said.lnum, hover.result.contents.value, hints}"""
    code, line, hover, hints = answer(runtime, tmp_path / "m.hlo", lua)
    assert (code, line, hints) == ("HLOC0104", 4, True)
    assert "f32[4]" in hover
