"""A diff of two modules as an HTML page, with links to its computations."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from hloc.analysis.diff.diff_rows import KIND_WORDS, DiffTable
from hloc.pictures.plain_page import plain_page
from hloc.report.diff.diff_lines import DiffView, SpanLine, title_of, unified_lines

MOST_LINES = 5000

DIFF_STYLE = """
pre { font: 13px/1.45 ui-monospace, monospace; overflow-x: auto; }
.added { color: #1a7f37; } .removed { color: #c5221f; } .changed, .rewired { color: #9a6700; }
.merged { color: #8250df; } .moved { color: #0969da; } .bold { font-weight: bold; }
.old { text-decoration: line-through; } .new { text-decoration: underline; }
.dim, .rule, .head { opacity: .65; }
@media (prefers-color-scheme: dark) {
  .added { color: #56d364; } .removed { color: #ff7b72; } .changed, .rewired { color: #e3b341; }
  .merged { color: #d2a8ff; } .moved { color: #79c0ff; }
}
"""


def diff_page(view: DiffView, title: str) -> str:
    """Return the page of `view`; both colour and first character of a line show its kind."""
    table = view.table
    legend = ", ".join(f"{kind} {KIND_WORDS[kind]}" for kind in table.counts())
    body = [f'<p>{escape(table.summary())} <span class="quiet">{escape(legend)}</span></p>']
    block = diff_block(view)
    return plain_page(title, DIFF_STYLE, [*body, *_contents(table, block), block])


def diff_block(view: DiffView, prefix: str = "c") -> str:
    """Return at most `MOST_LINES` lines of a diff as a block; headings have ids `prefix`0, 1 ..."""
    targets = {title_of(c): f"{prefix}{i}" for i, c in enumerate(view.table.computations)}
    lines = list(unified_lines(view))
    shown = [_line(line, targets) for line in lines[:MOST_LINES]]
    if len(lines) > MOST_LINES:
        shown.append(f"... {len(lines) - MOST_LINES:,} more lines")
    return "<pre>" + "\n".join(shown) + "</pre>"


def _contents(table: DiffTable, block: str) -> Iterator[str]:
    """Yield links to the computations; equal ones are in `block` once."""
    links = [
        f'<a href="#c{i}">{escape(title_of(computation))}</a>'
        for i, computation in enumerate(table.computations)
        if f' id="c{i}"' in block
    ]
    if len(links) > 1:
        yield f"<p>{' · '.join(links)}</p>"


def _line(line: SpanLine, targets: dict[str, str]) -> str:
    pieces = []
    for text, styles in line:
        names = " ".join(name.rpartition(".")[2] for name in styles.split())
        target = targets.pop(text, "") if "bold" in names.split() else ""
        link = f' id="{target}"' if target else ""
        shown = escape(text)
        pieces.append(f'<span class="{names}"{link}>{shown}</span>' if names else shown)
    return "".join(pieces)
