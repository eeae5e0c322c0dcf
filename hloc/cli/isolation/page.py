"""An isolation as an HTML page: each piece that diverges with its text, and the other findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from hloc.cli.isolation.judge import Finding
from hloc.cli.isolation.report import place, ran_text, together_with
from hloc.cli.isolation.search import Isolation
from hloc.ir.instruction import Instruction
from hloc.ir.origin import origin_of
from hloc.pictures.plain_page import plain_page
from hloc.report.conditioning_text import conditioning_lines
from hloc.report.run_report import comparison_text
from hloc.report.text import plural

MOST_ROWS = 100
"""Pieces of a table."""

_STYLE = """
pre { font: 13px/1.45 ui-monospace, monospace; overflow-x: auto; }
details pre { border-left: 3px solid var(--line); padding-left: .8rem; }
h3 { font-size: 1rem; } h3 code { font-size: .93rem; }
summary { cursor: pointer; }
.verdict { font-weight: bold; }
"""
_HEAD = ("instruction", "shape", "source", "side", "ulp")


def isolation_page(
    found: Isolation, file: str, sides: Sequence[str], how: str, commands: Sequence[str]
) -> str:
    """Return the page.

    Args:
        found: the result of the search.
        file: name of the module.
        sides: what was compared with the evaluator.
        how: the inputs, in words.
        commands: command lines that run the written pieces.
    """
    body = [
        f"<p>{escape(ran_text(found, sides, how))}</p>",
        f'<p class="verdict">{plural(len(found.diverging), "divergence")}</p>',
        *_diverging(found.diverging),
        "<h2>NaN and infinity</h2>",
        f"<p>First NaN: {_place(found.first_nan)}<br>"
        f"First infinity: {_place(found.first_infinity)}</p>",
        *_table("Explained by rounding", "ill-conditioned", found.ill),
        *_table("Least exact", "within the tolerance", found.worst),
        *_left(found.left),
    ]
    if commands:
        body += ["<h2>To run a piece</h2>", f"<pre>{escape(chr(10).join(commands))}</pre>"]
    return plain_page(f"Isolation of {file}", _STYLE, body)


def _diverging(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield each piece that diverges, in the order of execution, with its text."""
    for row in findings[:MOST_ROWS]:
        lines = [comparison_text(row.comparison), *conditioning_lines(row.conditioning)]
        if others := together_with(row):
            lines.append(f"only together with {others}")
        yield f"<h3><code>{escape(place(row.piece.inst))}</code> on {escape(row.side)}</h3>"
        yield f"<pre>{escape(chr(10).join(lines))}</pre>"
        yield "<details><summary>its piece</summary>"
        text = row.piece.module.to_text("short")
        yield f"<pre>{escape(text)}</pre></details>"
    yield from _more(findings)


def _table(title: str, note: str, findings: Sequence[Finding]) -> Iterator[str]:
    if not findings:
        return
    yield f'<h2>{title}</h2><p class="quiet">{plural(len(findings), "piece")}, {note}</p>'
    yield '<div class="wide" tabindex="0"><table>'
    yield _cells("th", _HEAD)
    for row in findings[:MOST_ROWS]:
        inst = row.piece.inst
        name, shape = f"%{inst.name}, {inst.opcode.name}", inst.shape.text_without_layout
        ulp = f"{row.comparison.max_ulp:,}"
        yield _cells("td", (name, shape, str(origin_of(inst) or ""), row.side, ulp))
    yield "</table></div>"
    yield from _more(findings)


def _cells(tag: str, texts: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts) + "</tr>"


def _more(findings: Sequence[Finding]) -> Iterator[str]:
    if len(findings) > MOST_ROWS:
        yield f"<p>{len(findings) - MOST_ROWS:,} more are in the JSON report.</p>"


def _left(left: dict[str, list[str]]) -> Iterator[str]:
    if not left:
        return
    yield '<h2>Not compared</h2><div class="wide" tabindex="0"><table>'
    yield _cells("th", ("why", "instructions"))
    for reason, names in left.items():
        shown = ", ".join(f"%{name}" for name in names[:MOST_ROWS])
        more = f" and {len(names) - MOST_ROWS:,} more" if len(names) > MOST_ROWS else ""
        yield _cells("td", (reason, shown + more))
    yield "</table></div>"


def _place(inst: Instruction | None) -> str:
    return f"<code>{escape(place(inst))}</code>"
