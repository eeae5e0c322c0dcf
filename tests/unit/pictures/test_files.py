"""HTML, SVG and dot: well-formed whatever the names are, the same every time, no network."""

import html
import json
import re
import xml.etree.ElementTree as ElementTree
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.ops import OPCODES
from hloc.pictures import graph
from hloc.pictures.colours import KINDS, PALETTES, TITLES, kind_of
from hloc.pictures.graph import FORMS, drawing
from hloc.pictures.labels import shown
from hloc.pictures.roofline import Kernel, Roofs, roofline
from hloc.pictures.style import ticks
from tests.unit.pictures.modules import HOSTILE, hostile, layered_model, small

SVG = "{http://www.w3.org/2000/svg}"
ROOFS = Roofs(1e11, (("L1", 2e11), ("memory", 2e10)))


def data_of(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found is not None
    return json.loads(found[1])


def text_of(name: str, module: Module) -> str:
    return drawing(module.entry, name)


class Elements(HTMLParser):
    """Counts the elements of a page and keeps the attributes of each."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def elements(page: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = Elements()
    parser.feed(page)
    return parser.found


@pytest.mark.parametrize("form", ["html", "svg", "dot"])
def test_the_same_module_gives_the_same_bytes(form: str) -> None:
    assert text_of(form, layered_model(30)) == text_of(form, layered_model(30))


def test_hostile_names_stay_texts_in_the_page() -> None:
    page = text_of("html", hostile())
    plain = text_of("html", small())
    assert [tag for tag, _ in elements(page)] == [tag for tag, _ in elements(plain)]
    data = data_of(page)
    assert any(shown(HOSTILE)[:8] in text for text in data["strings"])
    assert all(text.isprintable() for text in data["strings"])
    page.encode("utf-8")


def test_hostile_names_stay_texts_in_the_drawing() -> None:
    tree = ElementTree.fromstring(text_of("svg", hostile()))
    assert {element.tag.removeprefix(SVG) for element in tree.iter()} <= {
        "svg", "style", "defs", "marker", "path", "text", "g", "title", "rect",
    }  # fmt: skip
    assert not any(key.startswith("on") for e in tree.iter() for key in e.attrib)
    assert any("</script>" in (e.text or "") for e in tree.iter(f"{SVG}text"))


def test_hostile_names_stay_inside_their_quotes_in_dot() -> None:
    text = text_of("dot", hostile())
    assert "\x07" not in text
    for line in text.splitlines():
        assert len(re.findall(r'(?<!\\)(?:\\\\)*"', line)) % 2 == 0, line


def test_the_page_admits_its_own_script_and_nothing_else() -> None:
    page = text_of("html", small())
    (policy,) = [a["content"] for tag, a in elements(page) if tag == "meta" and "content" in a
                 and a.get("http-equiv")]  # fmt: skip
    assert policy is not None
    script = page[page.rindex("<script>") + len("<script>") : page.rindex("</script>")]
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_nothing_is_fetched() -> None:
    for form in FORMS:
        text = text_of(form[1:], small())
        links = set(re.findall(r"https?://[^\s\"'<>)]+", text))
        assert links <= {"http://www.w3.org/2000/svg"}
    tags = elements(text_of("html", small()))
    assert not any({"src", "href"} & attributes.keys() for _, attributes in tags)


def test_the_page_holds_every_box_and_edge() -> None:
    data = data_of(text_of("html", small()))
    names = {data["strings"][row[2]] for row in data["boxes"] if row[0] == 0}
    assert names == {"x", "f", "s", "top", "t", "n", "p", "m"}
    edges = dict(data["edges"])[data["root"]]
    assert len(edges) % 3 == 0
    assert max(edges) < len(data["boxes"])
    assert html.unescape(data["title"]) == "small: e"


def test_a_drawing_has_a_rectangle_per_box() -> None:
    tree = ElementTree.fromstring(text_of("svg", small()))
    texts = [e.text for e in tree.iter(f"{SVG}text")]
    assert "multiply(·, 2)" in texts
    assert "f32[8,4]  s" in texts


def test_write_draws_what_is_near(tmp_path: Path) -> None:
    path = tmp_path / "near.svg"
    scene = graph.write(small(), str(path), around="s", radius=1)
    assert {leaf.name for leaf in scene.root.leaves()} == {"f", "s", "t", "top"}
    assert "not drawn" in path.read_text(encoding="utf-8")


def test_write_marks_changes(tmp_path: Path) -> None:
    before, after = small(), layered_model(2)
    path = tmp_path / "diff.svg"
    graph.write(after, str(path), before=before)
    text = path.read_text(encoding="utf-8")
    assert "removed" in text
    assert "added" in text


def test_an_unknown_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HloError, match=r"ends in one of \.html, \.svg, \.dot, found .*x\.png"):
        graph.write(small(), str(tmp_path / "x.png"))
    with pytest.raises(HloError, match=r"cannot write .*no such file or directory"):
        graph.write(small(), str(tmp_path / "none" / "x.svg"))


def test_every_opcode_has_a_kind_and_every_kind_its_colours() -> None:
    assert {kind_of(name) for name in OPCODES} <= set(KINDS)
    for palette in PALETTES.values():
        assert list(palette) == list(KINDS)
    assert set(TITLES) == set(KINDS)


@pytest.mark.parametrize("palette", PALETTES)
def test_texts_can_be_read_on_their_boxes(palette: str) -> None:
    """A contrast of 4.5 to 1, as WCAG asks for."""
    for colour in PALETTES[palette].values():
        light, dark = sorted((luminance(colour.fill), luminance(colour.text)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, colour


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


# ---------------------------------------------------------------- rooflines


def test_a_roofline_has_a_dot_per_kernel_and_says_what_is_guessed() -> None:
    kernels = [
        Kernel("dot.1", "dot", 10**9, 10**6, 0.02, True),
        Kernel(HOSTILE, "add", 10**6, 10**7, 0.001, False),
        Kernel("copy.2", "copy", 0, 10**6, 0.001, True),
    ]
    tree = ElementTree.fromstring(roofline(HOSTILE + "\x00", ROOFS, kernels))
    circles = list(tree.iter(f"{SVG}circle"))
    assert [c.get("class") for c in circles] == ["contraction", "plain model"]
    texts = " ".join(e.text or "" for e in tree.iter(f"{SVG}text"))
    assert "1 pale with modelled times; 1 without arithmetic not drawn" in texts
    assert "memory 20 GB/s" in texts


def test_a_roofline_says_why_it_is_empty() -> None:
    assert "the module has no kernels" in roofline("empty", ROOFS, [])
    assert "no kernel does arithmetic" in roofline("m", ROOFS, [Kernel("c", "copy", 0, 8, 1, True)])


def test_titles_of_a_roofline_stand_one_under_the_other() -> None:
    tree = ElementTree.fromstring(roofline("m" * 90, ROOFS, []))
    title, note, *_ = tree.iter(f"{SVG}text")
    assert float(note.get("y", "0")) - float(title.get("y", "0")) >= 15
    assert note.get("text-anchor") == "start"


def test_alike_kernels_are_one_dot_and_kinds_have_a_legend() -> None:
    """Pale dots of 2,000 equal layers on one place looked as dark as a measured one."""
    kernels = [Kernel(f"dot.{i}", "dot", 10**9, 10**6, 0.02, False) for i in range(2000)]
    drawn = roofline("m", ROOFS, [*kernels, Kernel("add", "add", 8, 8, 1, True)])
    tree = ElementTree.fromstring(drawn)
    assert len(list(tree.iter(f"{SVG}circle"))) == 2
    assert "and 1,999 more like it" in drawn
    swatches = [e.get("class") for e in tree.iter(f"{SVG}rect")]
    assert swatches == ["plain", "contraction"]
    assert TITLES["contraction"] in [e.text for e in tree.iter(f"{SVG}text")]


@pytest.mark.parametrize(
    ("most", "base", "expected"),
    [
        (1, 10, [0, 1]),
        (45, 10, [0, 10, 20, 30, 40]),
        (4005, 10, [0, 1000, 2000, 3000, 4000]),
        (809 << 10, 1024, [0, 200 << 10, 400 << 10, 600 << 10, 800 << 10]),
        (3 << 30, 1024, [0, 1 << 30, 2 << 30, 3 << 30]),
        (8 << 40, 1024, [0, 2 << 40, 4 << 40, 6 << 40, 8 << 40]),
    ],
)
def test_numbers_of_an_axis_are_round(most: int, base: int, expected: list[int]) -> None:
    assert ticks(most, base=base) == expected


def test_a_kernel_on_the_roof_stands_on_the_line() -> None:
    assert ROOFS.seconds(10**9, 10**6) == pytest.approx(0.01)
    assert ROOFS.seconds(10**3, 2 * 10**9) == pytest.approx(0.1)
