"""Pieces of files that pages show are what hloc reads or writes."""

import re
from pathlib import Path

import pytest

import hloc
from hloc.cli import main
from tests.unit.manual import ROOT

SHARDED = ROOT / "hloc" / "lessons" / "14-devices" / "device.hlo"


def excerpt(page: str, language: str, containing: str) -> str:
    """Return the one block of a page in a language with some words in it."""
    blocks = re.findall(
        rf"^```{language}\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.MULTILINE | re.DOTALL
    )
    (found,) = (block for block in blocks if containing in block)
    return str(found)


def test_hooks_have_the_names_that_the_page_uses() -> None:
    used = re.findall(r"- id: (\S+)", excerpt("check.md", "yaml", "hooks"))
    known = re.findall(r"- id: (\S+)", (ROOT / ".pre-commit-hooks.yaml").read_text())
    assert sorted(used) == sorted(known)


def test_links_are_read_from_the_file_of_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "links.toml"
    file.write_text(excerpt("devices.md", "toml", "bandwidth"))
    words = ["explain-sharding", str(SHARDED), "--mesh=data=4,pod=2", f"--links={file}"]
    assert main(words) == 0, capsys.readouterr().err
    assert "links data infiniband, pod" in capsys.readouterr().out


def test_the_header_declares_threads_as_the_page_does(tmp_path: Path) -> None:
    text = "HloModule m\nENTRY e { x = f32[512,512] parameter(0) ROOT y = f32[512,512] tanh(x) }"
    (tmp_path / "m.hlo").write_text(text)
    words = ["-q", "-O2", "-c", "-o", str(tmp_path / "m"), "--symbol-prefix=PREFIX"]
    assert main([str(tmp_path / "m.hlo"), *words]) == 0
    header = " ".join((tmp_path / "m.h").read_text().split())
    for line in excerpt("ahead-of-time.md", "c", "parallel_for").splitlines():
        assert " ".join(line.split()) in header


def test_both_headers_of_a_donation_are_read() -> None:
    lines = excerpt("donation.md", "", "buffer_donor").splitlines()
    assert len(lines) == 2
    for line in lines:
        body = "\nENTRY e { x = f32[4] parameter(0) y = f32[4] tanh(x) ROOT t = (f32[4]) tuple(y) }"
        program = hloc.compile(line + body)
        assert [alias.parameter for alias in program.aliases] == [0]
