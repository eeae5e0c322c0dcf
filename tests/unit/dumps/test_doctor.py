"""`hloc doctor DUMP_DIR`, on a dump of our own program, and on damaged ones.

`pytest --update-golden` writes tests/golden/dumps/*.txt and the transcripts of docs/dumps.md. Each
statement in these reports was compared with XLA's files: instructions, kernels, arrays between
kernels, custom calls and inserted instructions counted from the text, sizes with its report of
memory, the arrays at the peak with its live ranges, reasons by reading the module.
"""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from hloc.cli import main

ROOT = Path(__file__).resolve().parents[3]
DUMPS = ROOT / "tests" / "golden" / "dumps"
PAGE = ROOT / "docs" / "dumps.md"
_TRANSCRIPT = re.compile(r"```\n\$ hloc (doctor [^\n]*)\n(.*?)```\n", re.DOTALL)
Capture = pytest.CaptureFixture[str]


PROGRAMS = ("train", "attend", "cluster", "convolve", "exchange", "select", "track")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The dump `train` in a folder to work in."""
    _copy("train", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _copy(name: str, folder: Path) -> None:
    """Copy a dump; all files are equally old, as those of passes without times are."""
    shutil.copytree(DUMPS / name, folder / name)
    for file in (folder / name).iterdir():
        os.utime(file, (1e9, 1e9))


def _json(capsys: Capture, *words: str, code: int = 0) -> dict[str, Any]:
    assert main(["doctor", *words, "--format=json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_report_is_the_golden_one(
    name: str, folder: Path, capsys: Capture, update_golden: bool
) -> None:
    if name != "train":
        _copy(name, folder)
    assert main(["doctor", name]) == 0
    found = capsys.readouterr().out
    golden = DUMPS / f"{name}.txt"
    if update_golden:
        golden.write_text(found)
    assert found == golden.read_text()


def test_the_page_shows_what_is_printed(capsys: Capture, update_golden: bool) -> None:
    page = PAGE.read_text()
    transcripts = _TRANSCRIPT.findall(page)
    assert transcripts
    for line, shown in transcripts:
        main(line.split())
        found = capsys.readouterr().out
        if update_golden:
            page = page.replace(f"{line}\n{shown}```", f"{line}\n{found}```")
            PAGE.write_text(page)
        else:
            assert shown == found, line


def test_json_has_all_modules_and_the_details_of_those_asked_for(capsys: Capture) -> None:
    found = _json(capsys, "train", "--module=scores")
    assert found["report"] == "dump"
    assert len(found["modules"]) == 4
    assert [detail["name"] for detail in found["details"]] == [
        "module_0002.jit_scores",
        "module_0004.jit_scores",
    ]
    assert found["details"][0]["flags"]["xla_force_host_platform_device_count"] == "2"
    assert found["recompiled"][0]["differs_in"] == "shapes"


def test_every_link_of_the_page_leads_somewhere(folder: Path, capsys: Capture) -> None:
    (folder / "pages").mkdir()
    assert main(["doctor", "train", "--html=pages/d.html"]) == 0
    assert capsys.readouterr().out == ""
    page = (folder / "pages" / "d.html").read_text()
    links = re.findall(r'href="?([^" >]+)"?', page)
    assert sum(link.startswith("#") for link in links) > 10
    for link in links:
        if link.startswith("#"):
            assert f'id="{link[1:]}"' in page, link
        else:
            assert (folder / "pages" / unquote(link)).is_file(), link
    assert page.count("<details") == 18
    assert re.search(r">copy\.\d+ = s32\[\] copy\(", page)  # a line of the diff of a pass


def test_names_in_a_dump_are_escaped(folder: Path, capsys: Capture) -> None:
    text = "HloModule m\nENTRY e { p = f32[] parameter(0)\nROOT r = f32[] custom-call(p), "
    text += 'custom_call_target="<script>\x1b[2J" }\n'
    (folder / "train" / "module_0009.<b>.before_optimizations.txt").write_text(text)
    assert main(["doctor", "train", "--module=0009", "--html=d.html"]) == 0
    page = (folder / "d.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    capsys.readouterr()
    assert main(["doctor", "train", "--module=0009"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_a_truncated_file_is_named_and_the_rest_is_reported(folder: Path, capsys: Capture) -> None:
    last = folder / "train" / "module_0006.jit_loss.cpu_after_optimizations.txt"
    last.write_text(last.read_text()[:-400])
    (folder / "train" / "module_0006.jit_loss.cpu_after_optimizations-live-range.txt").unlink()
    assert main(["doctor", "train"]) == 1
    found = capsys.readouterr()
    assert "not readable: 1 file\n    module_0006.jit_loss.cpu_after_optimizations.txt  line " in (
        found.out
    )
    assert "all-reduce" in found.out  # XLA's report of memory is still read
    assert "1 file of the dump cannot be read" in found.err
    assert found.out.count("== module_") == 4


def test_a_module_with_wrong_shapes_is_listed_and_not_examined(
    folder: Path, capsys: Capture
) -> None:
    last = folder / "train" / "module_0006.jit_loss.cpu_after_optimizations.txt"
    text = last.read_text()
    assert "%ynn_fusion = f32[4,8]" in text
    last.write_text(text.replace("%ynn_fusion = f32[4,8]", "%ynn_fusion = f32[9,8]"))
    assert main(["doctor", "train", "--module=0006"]) == 1
    found = capsys.readouterr().out
    assert "not readable: 1 file\n" in found
    assert "f32[9,8]" in found
    assert "memory: 668 B" in found


def test_binary_and_foreign_files_do_no_harm(folder: Path, capsys: Capture) -> None:
    dump = folder / "train"
    (dump / "module_0006.jit_loss.before_optimizations.txt").write_bytes(bytes(range(256)) * 9)
    (dump / "module_0006.jit_loss.cpu_after_optimizations-buffer-assignment.txt").write_bytes(b"\0")
    (dump / "module_0007.jit_g.before_optimizations.hlo.pb").write_bytes(b"\xff" * 99)
    (dump / "notes.md").write_text("# notes")
    (dump / "module_0008.metadata.textproto").write_text("{{{{")
    found = _json(capsys, "train", "--module=0006", code=1)
    (detail,) = found["details"]
    assert [os.path.basename(path) for path, _ in detail["unreadable"]] == [
        "module_0006.jit_loss.before_optimizations.txt"
    ]
    assert detail["memory"]["total_bytes"] == 668
    assert found["others"] == ["notes.md"]
    assert main(["doctor", "train", "--module=0007"]) == 1
    assert "module_0007.jit_g.before_optimizations.hlo.pb" in capsys.readouterr().out


def test_a_folder_that_is_no_dump_is_refused(folder: Path, capsys: Capture) -> None:
    (folder / "empty").mkdir()
    for words, text in (
        (["empty"], "empty is empty"),
        (["missing"], "cannot read missing: no such file or directory"),
        (["train", "--module=nobody"], "the dump has no module 'nobody'"),
    ):
        assert main(["doctor", *words]) == 1
        assert text in capsys.readouterr().err
