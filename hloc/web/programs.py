"""The programs that the page can open: files and dumps from the command line, and lessons."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from hloc.dumps.folder import read_folder
from hloc.errors import HloError, printable
from hloc.formats.read import uncompressed
from hloc.formats.sniff import TEXT, kind_of
from hloc.input_files import read_file
from hloc.lazy_dataclass import dataclass
from hloc.learn.catalogue import Lesson, all_lessons
from hloc.web.limits import TEXT_BYTES


@dataclass(frozen=True, slots=True)
class Replayed:
    """The states of a module after XLA's passes: the folder of a dump, and the module's name."""

    folder: str
    module: str


@dataclass(frozen=True, slots=True)
class Program:
    """A module that can be opened; the page does not know its path.

    Attributes:
        group: the heading under which the page lists it.
        lesson: whose module it is, None for a file or a dump.
        replayed: its states after XLA's passes, None without a dump of them.
    """

    title: str
    group: str
    path: str
    lesson: Lesson | None = None
    replayed: Replayed | None = None

    def text(self) -> str | None:
        """Return the text of its file, None if that has another format.

        Raises:
            HloError: the file cannot be read, or is too large for the page.
        """
        shown = printable(self.path)
        data = uncompressed(read_file(self.path), shown)
        if len(data) > TEXT_BYTES:
            raise HloError(f"{shown} has more than {TEXT_BYTES >> 20} MiB, which the page edits")
        if kind_of(data) != TEXT:
            return None
        return data.decode("utf-8", "replace").removeprefix("\ufeff")


def programs_of(paths: Sequence[str]) -> tuple[Program, ...]:
    """Return the programs that can be opened: files and dumps first, then the lessons.

    Raises:
        HloError: a file or folder cannot be read.
    """
    return (*_given(paths), *_lessons())


def _given(paths: Iterable[str]) -> Iterator[Program]:
    for path in paths:
        if not os.path.isdir(path):
            read_file(path)  # raises if it cannot be read
            yield Program(printable(os.path.basename(path)), "Files", os.path.abspath(path))
            continue
        for module in read_folder(path).modules:
            group, first = printable(module.name), os.path.abspath(module.history[0].path)
            if len(module.history) > 1:
                replayed = Replayed(os.path.abspath(path), module.name)
                yield Program("XLA's passes", group, first, replayed=replayed)
            for stage in module.stages:
                yield Program(printable(stage.how), group, os.path.abspath(stage.path))


def _lessons() -> Iterator[Program]:
    for lesson in all_lessons():
        yield Program(lesson.title, "Lessons", str(lesson.folder / "input.hlo"), lesson)
