"""What a notebook shows of a module and of a difference: escaped, bounded, closed."""

from html.parser import HTMLParser

import hloc
from hloc.analysis.diff.diff_rows import diff_table
from hloc.ir.clone import clone_module
from hloc.ir.notebook import NotebookView
from hloc.opt.pipeline import Pipeline
from hloc.pictures.html_text import MOST_ROWS

MODULE = """HloModule m
helper { p = f32[] parameter(0)  ROOT n = f32[] negate(p) }
ENTRY e {
  x = f32[] parameter(0)
  y = f32[] call(x), to_apply=helper
  ROOT z = f32[] add(y, y)
}
"""


class Closed(HTMLParser):
    """Counts elements and rows."""

    depth = 0
    rows = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        assert tag in ("style", "div", "table", "tr", "td", "b")
        self.depth += 1
        self.rows += tag == "tr"

    def handle_endtag(self, tag: str) -> None:
        self.depth -= 1


def rows_of(page: str) -> int:
    found = Closed()
    found.feed(page)
    found.close()
    assert found.depth == 0
    return found.rows


def shown(drawn: NotebookView) -> str:
    """Return what a notebook asks for."""
    page = drawn._repr_html_()
    assert page is not None
    return page


def test_a_module_is_a_table_with_the_entry_first() -> None:
    page = shown(hloc.parse(MODULE))
    assert rows_of(page) == 7
    assert page.index("ENTRY e") < page.index("helper")
    assert "<td><b>z</b></td>" in page


def test_a_large_module_is_cut() -> None:
    lines = ["  x0 = f32[] parameter(0)"]
    lines += [f"  x{i} = f32[] negate(x{i - 1})" for i in range(1, 500)]
    text = "HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n  ROOT r = f32[] abs(x499)\n}\n"
    page = shown(hloc.parse(text))
    assert rows_of(page) == MOST_ROWS + 1
    assert "... 302 more instructions" in page


def test_names_cannot_become_markup() -> None:
    module = hloc.parse(MODULE)
    module.entry.rename(module.entry.root, "<script>")
    assert "<script>" not in shown(module)
    before = clone_module(module)
    Pipeline.parse("call-inliner").run(module)
    page = shown(diff_table(before, module, module.log.events))
    assert rows_of(page) >= 4
    assert "<script>" not in page
    assert "← call-inliner" in page
