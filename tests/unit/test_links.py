"""Every link of the pages, from README to the lessons, leads to a file and a heading that exist."""

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path
    for pattern in (
        "*.md", "docs/**/*.md", "editors/*/README.md", "examples/*.md", "grammar/*.md",
        "hloc/lessons/*/lesson.md",
    )
    for path in ROOT.glob(pattern)
)  # fmt: skip
_BLOCK = re.compile(r"^(```|~~~).*?^\1[ \t]*$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(rf"{_BLOCK.pattern}|(?<!`)(`+)(?!`).+?(?<!`)\2(?!`)", _BLOCK.flags)
_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)


def links(text: str) -> list[str]:
    """Return the targets of the links of a page, those in code left out."""
    found = _LINK.findall(_CODE.sub("", text))
    return [inline or reference for inline, reference in found]


def anchors(text: str) -> set[str]:
    """Return the anchors that the headings of a page have on GitHub and on our site."""
    found: set[str] = set(re.findall(r'<a (?:id|name)="([^"]+)"', text))
    for heading in _HEADING.findall(_BLOCK.sub("", text)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = base = re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")
        count = 0
        while slug in found:
            count += 1
            slug = f"{base}-{count}"
        found.add(slug)
    return found


@cache
def _anchors_of(path: Path) -> set[str]:
    return anchors(path.read_text())


def broken(path: Path, text: str) -> list[str]:
    """Return the relative links of a page that lead nowhere."""
    wrong = []
    for target in links(text):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        name, _, anchor = unquote(target).partition("#")
        there = (path.parent / name).resolve() if name else path
        inside = there.is_relative_to(ROOT) and there.exists()
        known = (
            anchors(text) if there == path else _anchors_of(there) if anchor and inside else set()
        )
        if not inside or (anchor and anchor not in known):
            wrong.append(target)
    return wrong


def test_there_are_links_to_check() -> None:
    assert len(PAGES) > 80
    assert sum(len(links(page.read_text())) for page in PAGES) > 250


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page, page.read_text()) == []


def test_a_broken_link_is_found() -> None:
    text = """# A `b`: c
[here](#a-b-c) [there](docs/repl.md) [host](https://openxla.org/nothing)
[no file](docs/nothing.md) [no heading](docs/repl.md#nothing) ![no picture](docs/screens/x.svg)
[outside](../../../etc/passwd) [no heading here](#b)
`[code](docs/code.md)`
```
[block](docs/block.md)
```
"""
    page = ROOT / "README.md"
    wanted = ["docs/nothing.md", "docs/repl.md#nothing", "docs/screens/x.svg"]
    outside = "../../../etc/passwd"
    assert broken(page, text) == [*wanted, outside, "#b"]
    assert anchors(text) == {"a-b-c"}
