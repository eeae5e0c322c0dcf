"""The lessons that come with hloc, and what a student has passed."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

from hloc.cache_directory import state_folder
from hloc.errors import HloError, reason_of
from hloc.lazy_dataclass import dataclass
from hloc.near_names import near_name_notes

_FOLDER = re.compile(r"(\d\d)-([a-z0-9-]+)")

WORDS = ("list", "start", "check", "new", "export")
"""Words that may follow `hloc learn` instead of a lesson."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """One lesson: a folder with lesson.md, input.hlo, script.hlor, exercise.py and check.toml."""

    number: int
    name: str
    folder: Path

    @property
    def title(self) -> str:
        """The first heading of the text."""
        return self.read("lesson.md").partition("\n")[0].lstrip("# ").strip()

    def read(self, file: str) -> str:
        """Return the text of one of its files.

        Raises:
            HloError: there is no such file.
        """
        return read_text(self.folder / file)

    def has(self, file: str) -> bool:
        """True if the lesson has this file."""
        return (self.folder / file).is_file()


def read_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        HloError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as fault:
        raise HloError(f"cannot read {path}: {reason_of(fault)}") from None
    except UnicodeDecodeError:
        raise HloError(f"cannot read {path}: not a text file") from None


def lessons_folder() -> Path:
    """Return the folder of the lessons that come with hloc."""
    return Path(str(files("hloc").joinpath("lessons")))


def all_lessons() -> list[Lesson]:
    """Return the lessons in order."""
    found = []
    for folder in sorted(lessons_folder().iterdir()):
        if match := _FOLDER.fullmatch(folder.name):
            found.append(Lesson(int(match[1]), match[2], folder))
    return found


def find_lesson(word: str) -> Lesson:
    """Return the lesson for `word`: `6`, `06`, its name, or a folder.

    Raises:
        HloError: there is no such lesson.
    """
    for lesson in all_lessons():
        if word in (lesson.name, lesson.folder.name) or _is_number(word, lesson.number):
            return lesson
    folder = Path(word)
    if (folder / "check.toml").is_file():
        return Lesson(0, folder.resolve().name, folder)
    lessons = all_lessons()
    names = (*WORDS, *(lesson.name for lesson in lessons))
    last = f"lessons are 1 to {lessons[-1].number}, or a folder that holds a check.toml"
    raise HloError(
        f"there is no lesson {word!r}",
        notes=(*near_name_notes(word, names), f"{last}; `hloc learn list` names them"),
    )


def _is_number(word: str, number: int) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 4 and int(word) == number


# ---------------------------------------------------------------- progress


def progress_file() -> Path:
    """Return the file with the passed exercises."""
    return state_folder() / "learn.json"


def read_progress() -> dict[str, int]:
    """Return the best score by name of lesson; empty if there is none."""
    try:
        found = json.loads(progress_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(k): v for k, v in found.items() if isinstance(v, int)}


def remember(lesson: Lesson, score: int) -> None:
    """Record that the exercise of `lesson` was passed with `score`; a full disk is ignored."""
    known = read_progress()
    known[lesson.name] = max(score, known.get(lesson.name, 0))
    path = progress_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    except OSError:
        return
