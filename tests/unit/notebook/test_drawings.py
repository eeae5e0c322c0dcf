"""What notebooks draw: pictures in sandboxed frames, texts beside them, names that are HTML."""

from html.parser import HTMLParser

import pytest

import hloc
from hloc.ir.module import Module
from hloc.ir.notebook import PrintedView
from hloc.pictures.roofline import Kernel, Roofs
from hloc.report.module_tools import Roofline
from tests.unit.notebook.test_magics import TEXT, shown

HOSTILE = '"><img src=x onerror=alert(1)></script></svg>'
ROOFS = Roofs(1e11, (("L1", 2e11), ("memory", 2e10)))


class Elements(HTMLParser):
    """Keeps the elements and the attributes of frames; fails where one is closed twice."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.frames: list[dict[str, str | None]] = []
        self.text = ""
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "iframe":
            self.frames.append(dict(attrs))

    def handle_data(self, data: str) -> None:
        self.text += data


def drawn(view: object) -> Elements:
    assert isinstance(view, PrintedView)
    html = view._repr_html_()
    assert html is not None
    return Elements(html)


def hostile() -> Module:
    module = hloc.parse(TEXT)
    module.name = HOSTILE
    for inst in module.entry.instructions:
        module.entry.rename(inst, f"{inst.name}{HOSTILE}")
    return module


def hostile_views() -> dict[str, object]:
    module = hostile()
    kernel = Kernel(HOSTILE, "dot", 10**9, 10**6, 0.02, True)
    return {
        "graph": module.graph(hloc.parse(TEXT)),
        "memory": module.memory(0),
        "roofline": Roofline(HOSTILE, ROOFS, (kernel,)),
    }


@pytest.mark.parametrize("name", ["graph", "memory", "roofline"])
def test_names_cannot_become_markup(name: str) -> None:
    view = hostile_views()[name]
    found = drawn(view)
    assert "img" not in found.tags
    assert "script" not in found.tags
    (frame,) = found.frames
    assert frame["sandbox"] == ("allow-scripts" if name == "graph" else "")
    inner = Elements(frame["srcdoc"] or "")
    assert "img" not in inner.tags
    assert inner.tags.count("script") == (2 if name == "graph" else 0), "data and the page's own"


def test_a_chart_stands_in_its_frame_and_its_text_below() -> None:
    kernel = Kernel("dot.1", "dot", 10**9, 10**6, 0.02, True)
    found = drawn(Roofline("m", ROOFS, (kernel,)))
    assert found.tags == ["iframe", "details", "summary", "pre"]
    assert "dot.1" in found.text
    (frame,) = found.frames
    assert "aspect-ratio:1000/600" in (frame["style"] or "")
    inner = Elements(frame["srcdoc"] or "")
    assert inner.tags[-1] != "script"
    assert inner.tags[5:9] == ["style", "body", "main", "svg"]
    assert "prefers-color-scheme: dark" in inner.text


def test_memory_is_a_text_and_a_chart() -> None:
    (report,) = shown("--memory")
    assert isinstance(report, str)
    assert report.splitlines()[0].split() == ["memory", "bytes"]
    (frame,) = drawn(report).frames
    assert "arena" in (frame["srcdoc"] or "")


def test_a_roofline_of_the_cell() -> None:
    (found,) = shown("-O2 --roofline")
    assert [kernel.opcode for kernel in found.kernels] == ["exponential"]
    assert not found.kernels[0].measured
    assert str(found).splitlines()[0].startswith("kernel")


def test_terminals_show_the_text() -> None:
    class Printer:
        def text(self, words: str) -> None:
            self.words = words

    printer = Printer()
    report = hloc.parse(TEXT).memory()
    assert isinstance(report, PrintedView)
    report._repr_pretty_(printer, False)
    assert printer.words == str(report)
