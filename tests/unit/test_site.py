"""The documentation site: every page has its place, every link of its source leads somewhere.

The site itself is built where MkDocs is installed: `pip install 'hloc[docs]'`.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.generators import site
from tests.unit.test_links import anchors, links

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "mkdocs.yml"
_FROM_ELSEWHERE = re.compile(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(?:https?:)?//[^"]*"')


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "build" / "site-source"
    site.write(folder)
    return folder


def test_every_page_and_lesson_has_one_place_in_the_navigation() -> None:
    named = re.findall(r"([\w/-]+\.md)$", CONFIG.read_text(), re.MULTILINE)
    assert sorted(named) == sorted([*site.pages(), *site.lesson_places()])


def test_the_navigation_has_the_titles_of_lessons_and_decisions(source: Path) -> None:
    config = CONFIG.read_text()
    for place in [*site.lesson_places(), *(p for p in site.pages() if p.startswith("adr/0"))]:
        title = (source / place).read_text().splitlines()[0].removeprefix("# ")
        assert re.search(rf'- "?{re.escape(title)}"?: {re.escape(place)}$', config, re.MULTILINE)


def test_links_of_the_source_lead_somewhere(source: Path) -> None:
    seen = 0
    for page in source.rglob("*.md"):
        for target in links(page.read_text()):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            there = (page.parent / name).resolve() if name else page
            assert there.is_file(), f"{page.name}: {target}"
            assert not anchor or anchor in anchors(there.read_text()), f"{page.name}: {target}"
            seen += 1
    assert seen > 250


def test_blocks_of_hlo_and_of_commands_have_colours(source: Path) -> None:
    lesson = (source / "lessons" / "06-algebra.md").read_text()
    assert "```hlo\n> load input.hlo" in lesson
    assert "```console\n$ hloc" in lesson


def test_mkdocs_builds_the_site_and_loads_nothing_from_elsewhere(source: Path) -> None:
    pytest.importorskip("material", reason="the extra hloc[docs]")
    top = source.parents[1]
    (top / "mkdocs.yml").write_text(CONFIG.read_text())
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    done = subprocess.run(words, cwd=top, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    built = {path: path.read_text() for path in (top / "build" / "site").rglob("*.html")}
    assert len(built) > 80
    assert not [path for path, text in built.items() if _FROM_ELSEWHERE.search(text)]
    page = built[top / "build" / "site" / "first-pass.html"]
    assert re.search(r'<span class="nb">divide</span>', page)
