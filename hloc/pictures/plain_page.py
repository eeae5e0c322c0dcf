"""Templates of self-contained HTML pages without scripts: for text, and for a chart."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_BASE = """
:root { color-scheme: light dark; --line: #8886; --quiet: #666; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 76rem; padding: 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
h1, td { overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { border-top: 1px solid var(--line); padding: .35rem 1.6rem .35rem 0; text-align: left;
  vertical-align: top; }
th { border: 0; color: var(--quiet); font-weight: normal; }
.number { text-align: right; white-space: nowrap; }
.quiet { color: var(--quiet); }
code { font: 13px/1.4 ui-monospace, monospace; }
@media (max-width: 66rem) { th, td { padding-right: .8rem; } }
@media (prefers-color-scheme: dark) { :root { --quiet: #a0a8b0; } }
"""


def plain_page(title: str, style: str, body: Iterable[str]) -> str:
    """Return a page.

    Args:
        title: text of the title and the first heading.
        style: CSS in addition to that of every page.
        body: pieces of HTML below the heading; their texts must be escaped.
    """
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta http-equiv="Content-Security-Policy" '
            "content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            '<meta name="viewport" content="width=device-width">',
            f"<title>{escape(title)}</title><style>{_BASE}{style}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            *body,
            "</body></html>",
            "",
        ]
    )


def chart_page(title: str, svg: str) -> str:
    """Return a page with only the chart `svg`, light or dark like its surroundings."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="color-scheme" content="light dark"><title>{escape(title)}</title>'
        f"<style>body{{margin:0}}svg{{display:block}}</style></head><body><main>{svg}</main></body></html>"
    )
