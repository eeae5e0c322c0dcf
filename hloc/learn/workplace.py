"""`hloc learn start N`: a folder for the student with the files of a lesson."""

from __future__ import annotations

from pathlib import Path

from hloc.errors import HloError, reason_of
from hloc.lazy_dataclass import dataclass
from hloc.learn.catalogue import Lesson

_SUFFIXES = (".hlo", ".md", ".py", ".txt")
_NOT_GIVEN = ("reference.py", "wrong.py")


@dataclass(frozen=True, slots=True)
class Workplace:
    """A folder to work on a lesson in.

    Attributes:
        copied: names of the files that were written.
        kept: names of the files that existed, which are never overwritten.
    """

    folder: Path
    copied: tuple[str, ...]
    kept: tuple[str, ...]


def make_workplace(lesson: Lesson, folder: Path) -> Workplace:
    """Copy the text, the modules and the skeleton of `lesson` into `folder`, which may exist.

    Raises:
        HloError: a file cannot be written.
    """
    copied, kept = [], []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in sorted(lesson.folder.iterdir()):
            if file.suffix not in _SUFFIXES or file.name in _NOT_GIVEN:
                continue
            own = folder / file.name
            if own.exists():
                kept.append(file.name)
            else:
                own.write_bytes(file.read_bytes())
                copied.append(file.name)
    except OSError as fault:
        raise HloError(f"cannot write {folder}: {reason_of(fault)}") from None
    return Workplace(folder, tuple(copied), tuple(kept))
