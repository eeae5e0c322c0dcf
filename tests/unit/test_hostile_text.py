"""A hostile module through every output: none of its texts is acted on."""

import json
import os
import pty
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hloc
from hloc.cli import main
from hloc.errors import printable
from hloc.ir.attribute_fields import quoted
from hloc.report.repro_file import repro_path
from hloc.report.text import Paint
from tests.unit.hostile_module import (
    EVIL,
    RAW,
    check_c,
    check_dot,
    check_svg,
    elements_of,
    hostile_text,
    unsafe_characters,
)
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
Capture = pytest.CaptureFixture[str]

FILE = printable(RAW).replace("/", "")[:80] + "\x1b[31m\u202e\n.hlo"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / FILE).write_text(hostile_text())
    return tmp_path


def written(folder: Path, *words: str) -> str:
    """Run hloc on the hostile module and return the file `out` that it writes."""
    assert main([*words, FILE]) == 0
    (path,) = (path for path in folder.iterdir() if path.name.startswith("out"))
    return path.read_text()


def check_page(page: str, harmless: str) -> None:
    """Check a page beside the same page of a module without hostile texts."""
    found, wanted = elements_of(page), elements_of(harmless)
    assert not found.handlers
    assert found.links == wanted.links
    assert len(found.scripts) == len(wanted.scripts)
    for (attributes, text), (_, other) in zip(found.scripts, wanted.scripts, strict=True):
        if "json" in str(attributes.get("type")):
            json.loads(text)
            assert "<" not in text
        else:
            assert text == other, "the script is hloc's own"
    assert not unsafe_characters(page)


HARMLESS = """HloModule m
ENTRY e {
  x = f32[8,8] parameter(0)
  n = f32[8,8] negate(x)
  ROOT y = f32[8,8] exponential(n)
}
"""


def test_the_module_says_what_it_is_meant_to() -> None:
    module = hloc.parse(hostile_text())
    metadata = module.entry.parameters[0].common.metadata
    assert metadata is not None
    assert metadata.op_name == metadata.source_file == EVIL


def test_pages_of_graphs(folder: Path) -> None:
    page = written(folder, "graph", "-o", "out.html")
    (folder / "h.hlo").write_text(HARMLESS)
    assert main(["graph", "-o", "h.html", "h.hlo"]) == 0
    check_page(page, (folder / "h.html").read_text())
    assert "alert" in page, "the text is shown, as text"


@pytest.mark.parametrize(
    "words",
    [("graph", "-o", "out.svg"), ("roofline", "-o", "out.svg"), ("--memory=out.svg", "-O0")],
)
def test_pictures(folder: Path, words: tuple[str, ...]) -> None:
    picture = written(folder, *words)
    check_svg(picture)
    assert not unsafe_characters(picture)


def test_dot(folder: Path) -> None:
    text = written(folder, "graph", "-o", "out.dot")
    check_dot(text)
    assert not unsafe_characters(text)


def test_the_pages_of_a_dump(folder: Path, tmp_path: Path) -> None:
    (folder / "h.hlo").write_text(HARMLESS)
    assert main(["--dump-dir=dump", FILE]) == 0
    assert main(["--dump-dir=plain", "h.hlo"]) == 0
    names = sorted(os.listdir(folder / "dump"))
    assert all(name.replace("-", "").replace(".", "").isalnum() for name in names), names
    harmless = {
        "index.html": (folder / "plain" / "index.html").read_text(),
        "": next(p for p in (folder / "plain").glob("*-*.html")).read_text(),
    }
    pages = [name for name in names if name.endswith(".html")]
    assert len(pages) >= 3
    for name in pages:
        page = (folder / "dump" / name).read_text()
        check_page(page, harmless.get(name, harmless[""]))
    json.loads((folder / "dump" / "manifest.json").read_text())


def test_the_page_of_shardings(folder: Path) -> None:
    text = """HloModule m, num_partitions=2
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[8] parameter(0), metadata={op_name="EVIL"}
  ROOT r = f32[8] all-reduce(x), replica_groups={{0,1}}, channel_id=1, use_global_device_ids=true,
    to_apply=sum, metadata={op_name="EVIL" source_file="EVIL" source_line=3}
}
"""
    for name, word in (("evil", RAW), ("plain", "word")):
        (folder / f"{name}.hlo").write_text(text.replace("EVIL", word))
        assert main(["explain-sharding", f"--html={name}.html", f"{name}.hlo"]) == 0
    check_page((folder / "evil.html").read_text(), (folder / "plain.html").read_text())


def test_reports_and_pages_of_dumps(folder: Path, capsys: Capture) -> None:
    """Names of modules come from the names of files, all else from texts."""
    shutil.copytree(ROOT / "tests" / "golden" / "dumps" / "train", "plain")
    for path in sorted(Path("plain").iterdir()):
        target = Path("evil\x1b\u202e") / path.name.replace(
            "jit_", "<img src=x onerror=alert(1)>\x1b\u202e"
        )
        target.parent.mkdir(exist_ok=True)
        data = path.read_bytes()
        if path.suffix == ".txt":
            data = data.replace(b'op_name="', b'op_name="' + RAW.encode())
            data = data.replace(b'source_file="', b'source_file="' + RAW.encode())
        target.write_bytes(data)
    for name, page in (("plain", "plain.html"), (target.parent.name, "evil.html")):
        main(["doctor", name, f"--html={page}"])
        main(["doctor", name])
    said = capsys.readouterr()
    assert not unsafe_characters(said.out + said.err)
    page = (folder / "evil.html").read_text()
    assert not unsafe_characters(page)
    found = elements_of(page)
    assert not found.handlers
    assert not found.scripts
    assert all(str(link).startswith(("#", "evil%1B")) for link in found.links), found.links
    assert "onerror" in page, "the name is shown, as text"


def test_c_headers(folder: Path) -> None:
    module = (
        'HloModule m-ain.v2\nENTRY e {\n  int = f32[2] parameter(0), metadata={op_name="EVIL"}\n'
    )
    module += "  ROOT while = f32[2] negate(int)\n}\n"
    (folder / "c.hlo").write_text(module.replace("EVIL", RAW))
    for name in (FILE, "c.hlo"):
        assert main(["-c", "--header-lang=c,c++", "-o", "made", name]) == 0
        header = (folder / "made.h").read_text()
        check_c(header)
        check_c((folder / "made.hpp").read_text())
        compiler = shutil.which("cc")
        if compiler:
            words = [compiler, "-fsyntax-only", "-Wall", "-Werror", "-std=c11", "-x", "c"]
            subprocess.run([*words, "made.h"], check=True)


TALK: tuple[tuple[str, ...], ...] = (
    ("verify",), ("stats",), ("stats", "--by=source"), ("stats", "--by=scope"), ("hash",),
    ("--print-changed", "--emit=buffers"), ("--time-passes", "--emit=buffers"), ("run",),
    ("run", "--profile"), ("run", "--compare-with=interp"), ("run", "--compare-each"),
    ("--memory",), ("roofline",), ("bisect",), ("check",), ("explain",), ("passes",),
    ("--emit=llvm-ir",), ("--emit=asm",), ("run", "--format=json"), ("partition", "-q", "-o", "p"),
    ("diff", "plain.hlo"), ("extract",), ("--passes=nothing",), ("verify", "missing\x1b\u202e"),
    ("verify", "bad.hlo"), ("verify", "worse.hlo"), ("diff", "--stat", "plain.hlo"),
)  # fmt: skip


@pytest.mark.parametrize("words", TALK, ids=" ".join)
def test_messages_and_reports(folder: Path, capsys: Capture, words: tuple[str, ...]) -> None:
    """Both streams, as they come into a log, which somebody shows on a terminal later."""
    (folder / "plain.hlo").write_text(HARMLESS)
    (folder / "bad.hlo").write_text(hostile_text().replace("f32[8] reduce", "f32[9] reduce"))
    (folder / "worse.hlo").write_text(hostile_text().replace("metadata", RAW))
    main([*words, FILE])
    said = capsys.readouterr()
    assert not unsafe_characters(said.out + said.err)
    if "json" in " ".join(words):
        json.loads(said.out)


def on_a_terminal(folder: Path, *words: str) -> str:
    """Return what a command writes to a terminal."""
    parent, child = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "400"}
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=child,
        stderr=child,
        env=environment,
    )
    os.close(child)
    found = b""
    while True:
        try:
            data = os.read(parent, 1 << 16)
        except OSError:  # Linux says so when the other side has closed
            break
        if not data:
            break
        found += data
    os.close(parent)
    assert process.wait(PATIENCE) in (0, 1)
    return found.decode("utf-8", "replace").replace("\r\n", "\n")


@pytest.mark.parametrize(
    "words",
    [
        ("parse",),
        ("parse", "--color=always"),
        ("-O1",),
        ("fmt", "--diff"),
        ("diff", "plain.hlo"),
        ("extract", "%y"),
    ],
    ids=" ".join,
)
def test_a_terminal_gets_no_sequence_of_the_module(folder: Path, words: tuple[str, ...]) -> None:
    """Texts that files and pipes get as they are."""
    (folder / "plain.hlo").write_text(HARMLESS)
    rest = [FILE, words[1]] if words[0] == "extract" else [*words[1:], FILE]
    said = on_a_terminal(folder, "-m", "hloc", words[0], *rest)
    for bad in ("\x1b]0;", "\x9b", "\u202e", "\u2028", "\x08", "\x85"):
        assert bad not in said, repr(bad)
    assert "alert" in said


def test_files_and_pipes_get_every_character(folder: Path, capsys: Capture) -> None:
    assert main(["parse", FILE]) == 0
    assert "\u202e" in capsys.readouterr().out


def test_own_colours_stay_and_others_go() -> None:
    text = f"{Paint(True).bad('error')}\t\x1b[8mhidden\x1b[0m\x1b[30;40m\x1b[2J\n"
    assert Paint(True).safe(text) == "\x1b[1;31merror\x1b[0m\t?[8mhidden\x1b[0m?[30;40m?[2J\n"
    assert Paint(False).safe(text) == "?[1;31merror?[0m\t?[8mhidden?[0m?[30;40m?[2J\n"


COMMANDS = """load {file}
show
print
print y
info y
stats
step algebraic-simplifier
apply -O2
diff
history
why r
memory
find add
run
nonsense {evil}
info {evil}
"""


@pytest.mark.parametrize("ending", ["md", "html", "ipynb"])
def test_hlo_repl(folder: Path, capsys: Capture, ending: str) -> None:
    from repl.app import run_program

    os.rename(FILE, "m\x1b\u202e.hlo")
    lines = COMMANDS.format(
        file="m\x1b\u202e.hlo", evil=RAW.replace("\u2028", "").replace("\x85", "")
    )
    (folder / "x.hlor").write_text(lines)
    run_program(["-x", "x.hlor", "--keep-going", "-v", "--export", f"out.{ending}"])
    said = capsys.readouterr()
    assert not unsafe_characters(said.out + said.err)
    text = (folder / f"out.{ending}").read_text()
    if ending == "html":
        found = elements_of(text)
        assert not found.handlers
        assert not found.links
        assert len(found.scripts) == 1
    elif ending == "ipynb":
        assert {cell["cell_type"] for cell in json.loads(text)["cells"]} == {"code"}
    else:
        assert text.startswith("````"), "a fence longer than the one in the module"
        assert text.count("\n````") == 1
    assert not unsafe_characters(text)


def test_names_of_files_come_from_no_module_as_they_are(folder: Path) -> None:
    for name in (EVIL, "..", "../../x", "a/b", "\0", "x" * 5000, "\u202e", "-rf"):
        path = repro_path(name, str(folder / "repro"))
        assert os.path.dirname(path) == str(folder / "repro")
        Path(path).touch()
    assert len(max(os.listdir(folder / "repro"), key=len)) < 120


WRONG = """from hloc.opt import Pass, any_, rule
from hloc.opt import ops as o

@rule(o.exponential(any_("x")))
def forgotten(m):
    'Wrong: exp(x) = x.'
    return m.x

forget = Pass("forget", rules=[forgotten])
"""


def test_lines_for_a_shell_are_quoted(folder: Path, capsys: Capture) -> None:
    name = "$(touch stolen); x.hlo"
    plugin = folder / "`touch stolen`.py"
    plugin.write_text(WRONG)
    (folder / name).write_text(HARMLESS)
    words = ["bisect", name, f"--plugin={plugin}", "--passes=forget"]
    main(words)
    said = capsys.readouterr()
    lines = [line for line in (said.out + said.err).splitlines() if "run it with: " in line]
    assert lines, said
    for line in lines:
        found = shlex.split(line.partition("run it with: ")[2])
        assert found[0] == "hloc"
        assert f"--plugin={plugin}" in found


def test_errors_in_python_are_fit_for_a_terminal() -> None:
    """Python prints an exception that nobody catches as it is."""
    text = "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n"
    text += f"  ROOT c = f32[2] custom-call(x), custom_call_target={quoted(EVIL + chr(10))}\n}}\n"
    for wrong in (text, text.replace("target=", "target=2"), text.replace("ROOT", f"/*{RAW}*/ROO")):
        with pytest.raises(hloc.HloError) as caught:
            hloc.compile(wrong)
        told = str(caught.value)
        assert not unsafe_characters(told)
        lines = told.split("\n")
        assert all(
            line.startswith(("<", "    ", "note: ", "      ", "error")) for line in lines[1:]
        )
