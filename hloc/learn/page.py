"""Cells as one self-contained HTML page with a slider over the commands.

Texts are escaped; the page runs only its own few lines of script.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence

from hloc.errors import printable_lines
from hloc.learn.document import PROMPTS, Cell, Code, Commands

_STYLE = """
:root { color-scheme: light dark; --line: #8886; --quiet: #666; }
body { background: Canvas; font: 17px/1.5 system-ui, sans-serif; margin: 0 auto;
  max-width: 54rem; padding: 1rem; }
pre, code { font: 14px/1.4 ui-monospace, monospace; }
pre { border: 1px solid var(--line); border-radius: 4px; overflow-x: auto; padding: .6rem; }
.command { font-weight: bold; }
.add { color: #2a7d2a; } .gone { color: #c03030; } .other { color: #9a6a00; }
.by { color: var(--quiet); }
nav { background: Canvas; border-bottom: 1px solid var(--line); display: flex; gap: .6rem;
  padding: .5rem 0; position: sticky; top: 0; }
nav input { flex: 1; }
.later { display: none; }
@media print { nav { display: none; } .later { display: block; } }
@media (prefers-color-scheme: dark) {
  :root { --quiet: #a0a8b0; }
  .add { color: #7fd07f; } .gone { color: #ff8f8f; } .other { color: #e0b050; }
}
"""

_SCRIPT = """
const parts = [...document.querySelectorAll('[data-step]')];
const last = Number(document.body.dataset.steps);
const slider = document.querySelector('input');
const count = document.querySelector('output');
function go(step) {
  const at = Math.max(0, Math.min(last, step));
  slider.value = at;
  count.textContent = `${at} / ${last}`;
  parts.forEach(p => p.classList.toggle('later', Number(p.dataset.step) > at));
}
slider.addEventListener('input', () => go(Number(slider.value)));
document.addEventListener('keydown', e => {
  if (e.target === slider) return;
  if (e.key === 'ArrowRight') go(Number(slider.value) + 1);
  if (e.key === 'ArrowLeft') go(Number(slider.value) - 1);
});
go(last);
"""


def html_page(cells: Sequence[Cell], title: str) -> str:
    """Return the page; every command is a step of the slider."""
    body: list[str] = []
    step = 0
    for cell in cells:
        if isinstance(cell, Commands):
            for command, output in cell.steps:
                step += 1
                body.append(_command(step, PROMPTS[cell.language] + command, output))
        elif isinstance(cell, Code):
            body.append(f'<pre data-step="{step}" tabindex="0">{html.escape(cell.text)}</pre>')
        else:
            body.append(f'<div data-step="{step}">{markdown_html(cell.text)}</div>')
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>{html.escape(title)}</title>",
            f'<style>{_STYLE}</style></head><body data-steps="{step}">',
            f'<nav><input type="range" min="0" max="{step}" value="{step}" aria-label="step">'
            "<output></output></nav>",
            "<main>",
            *body,
            "</main>",
            f"<script>{_SCRIPT}</script>",
            "</body></html>",
            "",
        ]
    )


def _command(step: int, command: str, output: str) -> str:
    lines = [f'<span class="command">{html.escape(printable_lines(command))}</span>']
    lines += map(_output_line, output.splitlines())
    return f'<pre data-step="{step}" tabindex="0">' + "\n".join(lines) + "</pre>"


def _output_line(line: str) -> str:
    """Colour a line of a diff by its glyph."""
    kind = {"+": "add", "-": "gone", "~": "other", "⇄": "other", "□": "other", "≡": "other"}
    text, arrow, by = line.partition("   ← ")
    shown = html.escape(text)
    if name := kind.get(line.strip()[:1]):
        shown = f'<span class="{name}">{shown}</span>'
    return shown + (f'<span class="by">{html.escape(arrow + by)}</span>' if arrow else "")


# ---------------------------------------------------------------- the Markdown that lessons use


_BOLD = re.compile(r"\*\*([^*]+)\*\*")
_ITEM = re.compile(r"(?:[-*]|\d+\.) (.*)")


def markdown_html(text: str) -> str:
    """Return headings, lists and paragraphs as HTML; code and bold inside a line."""
    return "\n".join(_block(block) for block in _blocks(text))


def _blocks(text: str) -> Iterator[list[str]]:
    """Yield the blocks separated by blank lines; a heading is its own block."""
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            if block:
                yield block
            yield [line]
            block = []
        elif line.strip():
            block.append(line)
        elif block:
            yield block
            block = []


def _block(lines: list[str]) -> str:
    first = lines[0]
    if first.startswith("#"):
        level = min(6, len(first) - len(first.lstrip("#")))
        return f"<h{level}>{_inline(first.lstrip('#').strip())}</h{level}>"
    if not _ITEM.match(first):
        return f"<p>{_inline(' '.join(lines))}</p>"
    tag = "ul" if first[0] in "-*" else "ol"
    items: list[str] = []
    for line in lines:
        if match := _ITEM.match(line):
            items.append(match[1])
        else:
            items[-1] += f" {line.strip()}"
    return f"<{tag}>{''.join(f'<li>{_inline(item)}</li>' for item in items)}</{tag}>"


def _inline(text: str) -> str:
    """Escape, then mark code and bold; text in backquotes is literal."""
    parts = re.split(r"(`[^`]+`)", html.escape(text, quote=False))
    return "".join(
        f"<code>{part[1:-1]}</code>" if part.startswith("`") else _BOLD.sub(r"<b>\1</b>", part)
        for part in parts
    )
