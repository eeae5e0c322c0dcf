"""What a person at a terminal sees: prompt, keys, menus, toolbar, pager; and what others see."""

import io
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

from hloc.report.compare import Bounds, compare
from repl.app import App
from repl.commands import execute
from repl.prompt.completion import HloCompleter
from repl.prompt.names import PrefixIndex
from repl.prompt.terminal import Terminal, history_file, is_complete, is_module
from repl.prompt.toolbar import StatusLine, peak_bytes
from repl.render.themes import THEMES, make_console, spoken
from repl.running import RunResult
from repl.session import Session
from tests.repl.modules import TINY
from tests.repl.pseudo_terminal import COLUMNS, ROOT, terminal
from tests.waiting import PATIENCE, children, wait_for_work, wait_until

Seen = Callable[[Buffer], bool]


@pytest.fixture
def session() -> Session:
    session = Session()
    session.load_text(TINY)
    return session


def plain_program(session: Session) -> tuple[App, io.StringIO]:
    out = io.StringIO()
    return App(session, Console(file=out, no_color=True, soft_wrap=True)), out


# ---------------------------------------------------------------- completion


def completer_for(session: Session) -> HloCompleter:
    """Return a completer that knows the names of the current state."""
    completer = HloCompleter(session)
    completer.prepare()
    if session.is_loaded:
        assert completer.names.prepare(session.current).ready.wait(PATIENCE)
    return completer


def completions(completer: HloCompleter, text: str) -> Iterator[tuple[str, str]]:
    for found in completer.get_completions(Document(text, len(text)), CompleteEvent()):
        whole = text[: len(text) + found.start_position] + found.text
        yield whole, found.display_meta_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("app", ["apply"]),
        ("apply cs", ["apply cse"]),
        ("apply dce,tuple", ["apply dce,tuple-simplifier"]),
        ("apply -O", ["apply -O0", "apply -O1", "apply -O2", "apply -O3"]),
        ("disable negate-n", ["disable negate-negate"]),
        ("why n", ["why n", "why nn"]),
        ("%n", ["%n", "%nn"]),
        ("show %r", ["show %r"]),
        ("show @", ["show @e"]),
        ("goto s", ["goto s0"]),
        ("diff s0..s", ["diff s0..s0"]),
        ("diff --si", ["diff --side"]),
        ("help his", ["help history"]),
        ("break ru", ["break rule"]),
        ("break op rev", ["break op reverse"]),
        ("emit llvm-ir", ["emit llvm-ir", "emit llvm-ir-opt"]),
        ("set them", ["set theme="]),
        ("set theme=l", ["set theme=light"]),
        ("stats x", []),
        ("nonsense x", []),
    ],
)
def test_completion_knows_what_a_command_takes(
    text: str, expected: list[str], session: Session
) -> None:
    assert [word for word, _ in completions(completer_for(session), text)] == expected


def test_names_come_with_shape_and_opcode(session: Session) -> None:
    assert list(completions(completer_for(session), "why nn")) == [("why nn", "f32[4] negate")]


def test_options_of_a_pass_are_offered_in_its_braces(session: Session) -> None:
    found = dict(completions(completer_for(session), "apply fusion{"))
    assert found
    assert all(word.endswith("=") and about.startswith("default") for word, about in found.items())


def test_passes_say_what_they_would_do_here(session: Session) -> None:
    completer = completer_for(session)
    list(completions(completer, "apply alg"))  # asking once begins to find out
    wait_until(
        lambda: "1 rewrite here" in dict(completions(completer, "apply alg")).values(),
        "the number of rewrites is known",
    )
    assert session.current.label == "s0"


def test_marks_and_steps_are_offered(session: Session) -> None:
    for line in ("apply algsimp", "mark before-fusion"):
        list(execute(session, line))
    found = dict(completions(completer_for(session), "goto "))
    assert list(found) == ["goto s0", "goto s1", "goto before-fusion", "goto prev"]
    assert found["goto before-fusion"] == "mark of s1"


def test_files_are_offered_by_type(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.hlo", "a.npz", "a.py", "a.hlor"):
        (tmp_path / name).touch()
    completer = completer_for(session)
    assert [word for word, _ in completions(completer, "load a")] == ["load a.hlo"]
    assert [word for word, _ in completions(completer, "inputs a")] == ["inputs a.npz"]
    assert [word for word, _ in completions(completer, "plugin a")] == ["plugin a.py"]


def test_completion_works_without_a_module() -> None:
    assert list(completions(HloCompleter(Session()), "why n")) == []


def test_twenty_thousand_names_complete_in_thirty_milliseconds() -> None:
    lines = "\n".join(f"  add.{i} = f32[4] add(x, x)" for i in range(20_000))
    session = Session()
    session.load_text(f"HloModule big\nENTRY e {{\n  x = f32[4] parameter(0)\n{lines}\n"
                      "  ROOT r = f32[4] add(x, x)\n}\n")  # fmt: skip
    completer = completer_for(session)
    for text in ("why ", "why a", "why add.1999", "%add", "why zz"):
        best = min(_seconds(completer, text) for _ in range(5))
        assert best < 0.03, f"{text!r} took {best * 1e3:.0f} ms of processor time"
    assert ("why add.19999", "f32[4] add") in list(completions(completer, "why add.1999"))


def _seconds(completer: HloCompleter, text: str) -> float:
    started = time.thread_time()
    list(completions(completer, text))
    return time.thread_time() - started


def test_a_keystroke_never_looks_at_the_module(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the lists are made in the background, nothing is offered, and nothing is listed."""
    looked = threading.Event()
    monkeypatch.setattr("repl.prompt.names.names_of", lambda _: looked.set())
    assert list(completions(HloCompleter(session), "why n")) == []
    assert not looked.is_set()


def test_a_prefix_index_finds_all_that_begin_so_and_no_more() -> None:
    index = PrefixIndex([("b", "2"), ("a.1", "1"), ("a", "0"), ("ab", "3")])
    assert [name for name, _ in index.starting_with("a", 10)] == ["a", "a.1", "ab"]
    assert [name for name, _ in index.starting_with("a", 2)] == ["a", "a.1"]
    assert list(index.starting_with("c", 10)) == []


# ---------------------------------------------------------------- several lines


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("apply cse", True),
        ("apply fusion{max-operands=3", False),
        ("apply fusion{max-operands=3}", True),
        ("HloModule m", False),
        ("HloModule m\nENTRY e {", False),
        (TINY, True),
        ("ENTRY e {\n  ROOT x = f32[] parameter(0)\n}", True),
        ("new <<END\nHloModule m", False),
        ("new <<END\nHloModule m\nEND", True),
    ],
)
def test_enter_knows_when_a_text_is_complete(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def test_what_is_pasted_is_a_module_or_lines_of_commands(session: Session) -> None:
    assert is_module(TINY)
    assert not is_module("apply cse\napply dce")
    assert not is_module("HloModule")
    program, _ = plain_program(Session())
    assert program.run_pasted(TINY)
    assert program.where() == "tiny s0"


# ---------------------------------------------------------------- words and colours


def test_every_theme_shows_the_same_text(session: Session) -> None:
    texts = set()
    for theme in THEMES:
        program, out = plain_program(session)
        program.console = make_console("never", theme)
        program.console.file = out
        program._theme = theme
        session.settings.set("theme", theme)
        program.run_line("goto s0")
        out.truncate(0)
        out.seek(0)
        program.run_line("apply algsimp" if len(session.states) == 1 else "goto s1")
        program.run_line("diff s0 s1")
        texts.add(re.sub(r"(?s)^.*?(?=ENTRY)", "", out.getvalue()))
    assert len(texts) == 1


def test_colour_is_only_written_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert make_console("auto", environment=environment).no_color
    assert not make_console("always", environment={"NO_COLOR": "1"}).no_color


def test_a_screen_reader_gets_words(session: Session) -> None:
    program, out = plain_program(session)
    for line in ("set a11y=on", "apply algsimp", "diff", "history", "verify s0"):
        program.run_line(line)
    text = out.getvalue()
    assert program.faults == 0
    assert "removed: n = f32[4] negate(x)" in text
    assert "rewired: ROOT r = f32[4] add(nn to x, x)" in text
    assert "s0 equals s1 on 24 input sets" in text
    assert text.isascii(), [char for char in text if ord(char) > 127]


def test_words_stand_for_glyphs_of_rows_only() -> None:
    assert spoken("  - a = f32[] negate(b)", rows=True) == "removed: a = f32[] negate(b)"
    assert spoken("  - a list item") == "  - a list item"
    assert spoken("  ⋮ 9 unchanged", rows=True) == "skipped: 9 unchanged"


# ---------------------------------------------------------------- the prompt


def test_the_status_line_says_where_we_are(session: Session) -> None:
    status = StatusLine(session)
    assert status.where() == "tiny s0"
    assert status.badge() == "as loaded"
    list(execute(session, "apply algsimp"))
    status.prepare()
    assert status.where() == "tiny s1 algebraic-simplifier"
    assert status.badge() == "not verified"
    status.verified[session.current] = True
    wait_until(lambda: "peak" in status.toolbar(), "the peak is known")
    assert status.toolbar() == (
        "1 kernel · 32 B · 2 instrs · peak 0 B · F2 diff:unified  "
        "F3 multiline:off  F4 emacs  F5 auto-verify:plugins  F6 names:short"
    ), "the right prompt has the badge"
    assert "✓ verified" in status.toolbar(with_badge=True), "for screen readers there is none"


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_the_toolbar_is_not_cut(session: Session, width: int) -> None:
    status = StatusLine(session)
    session.seconds[session.current] = 1.234e-3
    status.prepare()
    wait_until(lambda: "peak" in status.toolbar(), "the peak is known")
    shown = status.toolbar(width)
    assert len(shown) <= width
    assert shown.startswith("3 kernels · 112 B · 1.23 ms · 4 instrs")
    parts = {f"F{n}" for n in range(2, 7) if f"F{n}" in shown}
    assert len(parts) == {40: 0, 60: 0, 80: 2, 100: 3, 120: 5}[width]


def test_peak_memory_counts_what_is_alive_at_once(session: Session) -> None:
    assert peak_bytes(session.current.module) == 32


def test_a_run_that_fails_shows_in_the_badge(session: Session) -> None:
    program, _ = plain_program(session)
    status = StatusLine(session)
    program.terminal = SimpleNamespace(status=status)  # type: ignore[assignment]  # needs no more
    list(execute(session, "apply algsimp"))
    bad, good = (compare([np.ones(4)], [np.full(4, x)], Bounds()) for x in (2.0, 1.0))
    for comparison, badge in ((good, "not verified"), (bad, "✗ answers differ")):
        program.show(RunResult(session.current, (np.ones(4),), 1.0, comparison, "s0", "random"))
        assert status.badge() == badge


def typed(program: App, keys: str) -> int:
    """Run the program at a terminal on which `keys` are typed."""
    with create_pipe_input() as source, create_app_session(input=source, output=DummyOutput()):
        source.send_text(keys)
        return program.run_terminal()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def test_a_terminal_session_runs_to_quit(session: Session, home: Path) -> None:
    (home / ".hloc_history").touch()
    program, out = plain_program(session)
    assert typed(program, "apply algsimp\rnonsense\rquit\r") == 0
    assert "s1 algebraic-simplifier" in out.getvalue()
    assert "unknown command 'nonsense'" in out.getvalue()
    assert "apply algsimp" in (home / ".hloc_history").read_text()
    assert program.where() == "tiny s1"


def test_a_pasted_module_is_loaded_at_its_end(session: Session, home: Path) -> None:
    program, out = plain_program(session)
    text = TINY.replace("tiny", "pasted")
    typed(program, f"\x1b[200~{text}\x1b[201~\rstats\rquit\r")
    assert program.where() == "pasted s0"
    assert "pasted: 4 instructions" in out.getvalue()
    assert program.faults == 0


def test_a_module_may_be_typed_line_by_line(session: Session, home: Path) -> None:
    program, _ = plain_program(session)
    typed(program, TINY.replace("tiny", "typed").strip().replace("\n", "\r") + "\rquit\r")
    assert program.where() == "typed s0"


def test_function_keys_change_settings(session: Session, home: Path) -> None:
    program, _ = plain_program(session)
    typed(program, "\x1bOQ\x1b[17~\x1b[15~quit\r")
    settings = session.settings
    assert (settings.text("diff"), settings.text("names")) == ("side", "full")
    assert settings.text("auto-verify") == "on"


def test_vi_keys_can_be_switched_on(session: Session, home: Path) -> None:
    program, out = plain_program(session)
    typed(program, "\x1bOSstat\x1bAs\rquit\r")  # F4, then Escape and A: append at the end
    assert program.terminal is not None
    assert program.terminal.status.vi
    assert "4 instructions" in out.getvalue()


def test_multiline_is_run_by_escape_and_enter(session: Session, home: Path) -> None:
    program, out = plain_program(session)
    typed(program, "\x1bORstats\rhistory\x1b\r\x1bORquit\r")
    assert out.getvalue().index("  negate ") < out.getvalue().index("● s0")


def test_enter_takes_a_selected_item_and_runs_otherwise(session: Session, home: Path) -> None:
    """Tab fills in what all items have in common; a second Tab selects the first."""

    def shows(text: str) -> Seen:
        return lambda buffer: buffer.text == text

    def menu(buffer: Buffer) -> bool:
        return buffer.complete_state is not None

    def selected(buffer: Buffer) -> bool:
        return buffer.complete_state is not None and buffer.complete_state.complete_index == 0

    def no_menu(buffer: Buffer) -> bool:
        return buffer.complete_state is None

    for steps, expected in (
        ([("histo", shows("histo")), ("\t", shows("history"))], "history"),
        ([("st", shows("st")), ("\t", menu)], "st"),
        (
            [
                ("st", shows("st")),
                ("\t", menu),
                ("\t", selected),
                ("\r", no_menu),
                (" --by", shows("stats --by")),
            ],
            "stats --by",
        ),
    ):
        with create_pipe_input() as source, create_app_session(input=source, output=DummyOutput()):
            reader = Terminal(session)
            buffer = reader.prompt.default_buffer
            typist = threading.Thread(target=_type, args=(source, buffer, steps))
            typist.start()
            assert reader.read() == expected
            typist.join()


def _type(source: PipeInput, buffer: Buffer, steps: Sequence[tuple[str, Seen]]) -> None:
    """Type key after key, each once the one before has shown its effect, and Enter."""
    for key, seen in steps:
        source.send_text(key)
        wait_until(partial(seen, buffer), f"{key!r} shows its effect")
    source.send_text("\r")


def test_history_is_kept_beside_the_project_or_in_the_state_folder(home: Path) -> None:
    assert history_file() == home / "state" / "hloc" / "history"
    (home / ".hloc_history").touch()
    assert history_file() == Path(".hloc_history")
    (home / ".hloc_history").rename(home / "elsewhere")
    (home / ".hloc_history").symlink_to(home / "elsewhere")
    assert history_file() == home / "state" / "hloc" / "history", "lines would go elsewhere"


# ---------------------------------------------------------------- a real terminal


def test_prompt_toolbar_menu_and_search_on_a_real_terminal(tmp_path: Path) -> None:
    (tmp_path / "tiny.hlo").write_text(TINY)
    with terminal(["tiny.hlo"], tmp_path) as screen:
        screen.wait_for("tiny s0› ")
        screen.wait_for("F2 unified")
        screen.send("apply algeb\t")
        screen.wait_for("tiny s0› apply algebraic-simplifier")
        screen.send("\x03")
        screen.command("apply algsimp", "tiny s1 algebraic-simplifier› ")
        screen.wait_for("1 kernel")
        screen.send("\x12algs")
        screen.wait_for("apply algsimp")
        screen.send("\x07\x03")
        screen.send("quit\r")
        assert screen.finish() == 0
        assert not screen.screen.alternate
        assert "not verified" not in screen.screen.text(), "the badge goes with the prompt"


def test_long_output_is_paged_and_stays_on_the_screen(tmp_path: Path) -> None:
    lines = "\n".join(f"  a{i} = f32[4] negate(x)" for i in range(200))
    (tmp_path / "long.hlo").write_text(TINY.replace("  n =", f"{lines}\n  n ="))
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho PAGED; cat\n")
    pager.chmod(0o755)
    with terminal(["long.hlo"], tmp_path, {"PAGER": str(pager)}) as screen:
        screen.wait_for("tiny s0› ")
        text = screen.command("show", "tiny s0› ")
        assert text.startswith("PAGED")
        assert "a199 = f32[4]" in text
        assert "PAGED" not in screen.command("stats", "tiny s0› ")
        screen.command("set pager=off", "tiny s0› ")
        assert "PAGED" not in screen.command("show", "tiny s0› ")
        assert not screen.screen.alternate


def test_ctrl_c_during_a_run_returns_to_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "loop.hlo").write_text(
        """HloModule forever
body {
  ROOT p = s32[] parameter(0)
}
cond {
  p = s32[] parameter(0)
  zero = s32[] constant(0)
  ROOT lt = pred[] compare(zero, zero), direction=EQ
}
ENTRY e {
  x = s32[] parameter(0)
  ROOT w = s32[] while(x), condition=cond, body=body
}
"""
    )
    with terminal(["loop.hlo"], tmp_path) as screen:
        screen.wait_for("forever s0› ")
        screen.send("run\r")
        wait_until(lambda: children(screen.child), "a child process starts")
        (runs,) = children(screen.child)
        wait_for_work(runs, 1.0)
        screen.send("\x03")
        screen.wait_for("interrupted; the state is unchanged")
        screen.wait_for_prompt("forever s0› ")
        assert "  while " in screen.command("stats", "forever s0› ")
        screen.send("quit\r")
        assert screen.finish() == 0


def test_a_dumb_terminal_gets_plain_text(tmp_path: Path) -> None:
    (tmp_path / "tiny.hlo").write_text(TINY)
    with terminal(["tiny.hlo"], tmp_path, {"TERM": "dumb"}) as screen:
        screen.wait_for("tiny s0›")
        screen.send("apply algsimp\r")
        screen.wait_for("s1 algebraic-simplifier")
        screen.send("quit\r")
        assert screen.finish() == 0


def test_no_color_is_obeyed_on_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "tiny.hlo").write_text(TINY)
    script = "from repl.render.themes import make_console; make_console().print('x', style='red')"
    for environment, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        values = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "FORCE_COLOR": "1"}
        values = {key: text for key, text in values.items() if key != "NO_COLOR"} | environment
        found = subprocess.run(
            [sys.executable, "-c", script], env=values, capture_output=True, text=True, check=True
        )
        assert ("\x1b[31m" in found.stdout) is coloured
    assert COLUMNS == 110
