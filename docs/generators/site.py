"""The source of the documentation site: the pages as they are, in one folder, with the lessons.

    python -m docs.generators.site build/site-source && mkdocs build --strict

README becomes the first page, lessons come from `hloc learn export`, and recorded sessions of
`hloc web` are played in `recordings/` (docs/generators/recordings.py). Links to files of the
repository that are no pages lead to copies of them in `files/`. Blocks without a language that
hold HLO or commands are given one, so that they have colours.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from docs.generators import recordings
from hloc.learn.catalogue import all_lessons
from hloc.learn.document import read_cells
from hloc.learn.export import write_document

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_EXTRA = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
_HLO = re.compile(r"\s*(?:HloModule\s|ENTRY\s|(?:ROOT )?%?[\w.-]+ = \(?[a-z]\w*\[[\d,<=]*\])")


def pages() -> dict[str, Path]:
    """Return the pages by their place on the site; lessons are not among them."""
    found = {path.relative_to(DOCS).as_posix(): path for path in DOCS.rglob("*.md")}
    found |= {place: ROOT / name for name, place in _EXTRA.items()}
    return dict(sorted(found.items()))


def lesson_places() -> list[str]:
    """Return where the lessons are on the site."""
    return [f"lessons/{lesson.folder.name}.md" for lesson in all_lessons()]


def write(folder: Path) -> None:
    """Write all pages, pictures and lessons into `folder`, which is emptied before."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS / "screens", folder / "screens")
    shutil.copy(DOCS / "site" / "site.css", folder)
    places = {path: place for place, path in pages().items()}
    for path, place in places.items():
        text = _coloured(_relinked(path, place, places, folder))
        text = text.replace(recordings.LINKS, recordings.links())
        if place == "index.md":
            text = f"---\nhide: [navigation]\n---\n\n{text}"
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(text)
    recordings.write(folder / "recordings")
    (folder / "lessons").mkdir()
    for lesson, place in zip(all_lessons(), lesson_places(), strict=True):
        write_document(read_cells(lesson.read("lesson.md")), str(folder / place))
        (folder / place).write_text(_coloured((folder / place).read_text()))


def _relinked(path: Path, place: str, places: dict[Path, str], folder: Path) -> str:
    """Return the text of a page with its links as they are on the site."""

    def target(found: re.Match[str]) -> str:
        before, name, anchor, after = found.groups()
        if re.match(r"[a-z][a-z0-9+.-]*:", name):
            return found[0]
        there = (path.parent / name).resolve()
        if there.is_dir():
            there /= "README.md"
        up = "../" * place.count("/")
        if there in places:
            return f"{before}{up}{places[there]}{anchor or ''}{after}"
        if there.is_relative_to(DOCS / "screens"):
            return f"{before}{up}screens/{there.name}{after}"
        copy = folder / "files" / there.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(there, copy)
        return f"{before}{up}{copy.relative_to(folder).as_posix()}{after}"

    return "".join(
        piece if piece.startswith("```") else _LINK.sub(target, piece)
        for piece in _blocks_and_prose(path.read_text())
    )


def _blocks_and_prose(text: str) -> Iterator[str]:
    """Yield blocks of code and what stands between them."""
    at = 0
    for found in _BLOCK.finditer(text):
        yield text[at : found.start()]
        yield found[0]
        at = found.end()
    yield text[at:]


def _coloured(text: str) -> str:
    """Return a page whose blocks of HLO and of commands say so."""

    def block(found: re.Match[str]) -> str:
        language, code = found.groups()
        if language in ("", "sh") and code.startswith("$ "):
            language = "console"
        elif language == "hlo-repl" or (not language and _HLO.match(code)):
            language = "hlo"
        return f"```{language}\n{code}```"

    return _BLOCK.sub(block, text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
