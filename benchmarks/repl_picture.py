"""docs/screens/repl.svg: a session of hlo-repl, run for real and drawn as an SVG.

    python benchmarks/repl_picture.py [FILE.svg]

Times and line numbers of rules are left out, so that the picture changes only when the output does.
The file needs no network: its font is the reader's own monospaced one.
"""

import io
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text
from rich.theme import Theme

from benchmarks import harness
from repl.program import Program
from repl.prompt.toolbar import StatusLine
from repl.render.themes import THEMES
from repl.session import Session

EXAMPLE = "softmax_relu.hlo"
COMMANDS = (
    "apply call-inliner, dce",
    "step algebraic-simplifier",
    "continue",
    "diff prev",
    "why div.6",
    "verify s0",
)
WIDTH = 122
PICTURE = harness.ROOT / "docs" / "screens" / "repl.svg"

_VOLATILE = re.compile(r"\s+\d+(?:\.\d+)? (?:ns|us|ms|s)$|\s+\(\w+\.py:\d+\)")
_COLOURS = TerminalTheme(
    (22, 25, 32),
    (208, 212, 220),
    [
        (70, 76, 88),
        (240, 113, 120),
        (135, 200, 110),
        (235, 190, 100),
        (110, 170, 250),
        (200, 140, 235),
        (90, 200, 215),
        (208, 212, 220),
    ],
)
_SVG = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-size: {char_height}px; line-height: {line_height}px;
font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


class _Recorder(Program):
    """A program that draws its lines without what differs from run to run."""

    def _print(self, text: Text, rows: bool = False) -> None:
        super()._print(_stable(text), rows)


def picture() -> str:
    """Return the SVG of the session that `COMMANDS` make on `EXAMPLE`."""
    theme = Theme(THEMES["dark"])
    console = Console(
        file=io.StringIO(),
        width=WIDTH,
        highlight=False,
        theme=theme,
        record=True,
        force_terminal=True,
        color_system="truecolor",
    )
    session = Session()
    program, status = _Recorder(session, console), StatusLine(session)
    try:
        console.print(Text.assemble(("$ ", "dim"), (f"hlo-repl {EXAMPLE}", "bold")))
        program.run_line(f"load {harness.ROOT / 'examples' / EXAMPLE}")
        for command in COMMANDS:
            console.print(Text.assemble((f"{status.where()}› ", "dim"), (command, "bold")))
            program.run_line(command)
    finally:
        session.close()
    if program.faults:
        raise SystemExit("a command of the session failed")
    title = f"hlo-repl {EXAMPLE}"
    svg = console.export_svg(
        title=title, theme=_COLOURS, code_format=_SVG, font_aspect_ratio=0.602, unique_id="repl"
    )
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def _stable(text: Text) -> Text:
    """Return `text` without times and line numbers."""
    found = _VOLATILE.search(text.plain)
    if found is None:
        return text
    before, after = text[: found.start()], text[found.end() :]
    return _stable(before + after)


def main() -> None:
    """Write the picture."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE
    path.write_text(picture())


if __name__ == "__main__":
    main()
