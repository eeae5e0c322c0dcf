"""Folders that XLA writes with `--xla_dump_to=DIR`: the kinds of their files.

File names tell: `module_0052.jit_f.before_optimizations.txt`, `...cpu_after_optimizations.txt` (or
`sm_9.0_gpu_after_optimizations`), and with `--xla_dump_hlo_pass_re=.*` one after each pass that
changed something, `...jit_f.0007.simplification.after_algsimp.before_dce.txt`. By XLA's options
names begin with a time, and files are text or protocol buffers, compressed or not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from hloc.errors import HloError, printable, reason_of
from hloc.formats.read import uncompressed
from hloc.input_files import read_file
from hloc.lazy_dataclass import dataclass
from hloc.near_names import near_name_notes

HOW_TO_DUMP = "XLA writes one with XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_pass_re=.*'"
BEFORE = "before_optimizations"

_FORMS = (".txt", ".txt.gz", ".hlo", ".hlo.pb", ".hlo.pb.gz", ".pb")
"""Suffixes of module files; of several forms of one stage the first is read."""

_HEAD = re.compile(r"(?:\d+\.)?module_(?P<number>\d+)\.(?P<rest>.+)")
_PASS = re.compile(
    r"(?P<name>.+?)\.(?P<number>\d{4,})\.(?P<pipeline>.+?)\.after_(?P<after>.+?)(?:\.before_.+)?"
)
_STAGE = re.compile(
    r"(?P<name>.+?)\.(?P<stage>before_optimizations|"
    r"(?:[a-z][a-z0-9_]*(?:\.\d+)?_(?:gpu_)?)?after_(?:optimizations|codegen)\w*)"
)
_REPORT = re.compile(r"(?P<stage>.+)-(?P<kind>buffer-assignment|memory-usage-report|live-range)")
_FLAGS = re.compile(r"(?P<name>.+)\.debug_options")
_START = len("HloModule") + 200


@dataclass(frozen=True, slots=True)
class DumpFile:
    """A module at one stage.

    Attributes:
        number: number of the pass that wrote it, -1 before the first pass.
        pipeline, after: pipeline and pass; for other stages `after` is the name of the stage.
    """

    path: str
    number: int
    pipeline: str
    after: str

    @property
    def how(self) -> str:
        """What wrote it: `simplification/algsimp`, `simplification starts`, a stage."""
        if self.after.startswith("pipeline-start"):
            return f"{self.pipeline} starts"
        return f"{self.pipeline}/{self.after}" if self.pipeline else self.after


@dataclass(frozen=True, slots=True)
class DumpModule:
    """The files of one compilation.

    Attributes:
        name: XLA's number and name: `module_0052.jit_f`.
        passes: the module after each pass that changed it, in order.
        before, after: the module before the first and after the last pass, None if not written.
        texts: paths of other files by kind: `buffer-assignment`, `live-range`,
            `memory-usage-report`, `flags`, `metadata`.
    """

    name: str
    passes: tuple[DumpFile, ...]
    before: DumpFile | None
    after: DumpFile | None
    texts: dict[str, str]

    @property
    def title(self) -> str:
        """The name without XLA's number: `jit_f`."""
        return self.name.partition(".")[2] or self.name

    @property
    def stages(self) -> tuple[DumpFile, ...]:
        """All files in order."""
        first = (self.before,) if self.before else ()
        last = (self.after,) if self.after else ()
        return (*first, *self.passes, *last)

    @property
    def history(self) -> tuple[DumpFile, ...]:
        """The files of the passes, or those before and after optimisation if there are none."""
        return self.passes or self.stages


@dataclass(frozen=True, slots=True)
class DumpFolder:
    """A dump; `others` are the names of files that belong to no module."""

    path: str
    modules: tuple[DumpModule, ...]
    others: tuple[str, ...]


class _Files:
    """The files of one module while the folder is read."""

    def __init__(self) -> None:
        self.passes: dict[int, DumpFile] = {}
        self.before: DumpFile | None = None
        self.after: list[DumpFile] = []
        self.texts: dict[str, str] = {}

    def module(self, name: str) -> DumpModule:
        # TPU compilers write one file before and one after buffers are assigned.
        ranked = sorted(self.after, key=lambda f: ("before_buffer" not in f.after, f.after))
        passes = tuple(self.passes[number] for number in sorted(self.passes))
        last = ranked[-1] if ranked else None
        return DumpModule(name, passes, self.before, last, self.texts)


def read_folder(folder: str) -> DumpFolder:
    """Return the modules in a dump, in the order of their numbers.

    A folder of files with other names is read too: each file that begins like HLO is a module.

    Raises:
        HloError: the folder cannot be read, or holds no modules.
    """
    try:
        names = sorted(os.listdir(folder))
    except OSError as fault:
        raise HloError(f"cannot read {printable(folder)}: {reason_of(fault)}") from None
    found: dict[str, _Files] = {}
    others: list[str] = []
    for name in sorted(names, key=_preference):
        path = os.path.join(folder, name)
        if not os.path.isdir(path) and not _place(path, name, found):
            others.append(name)
    modules = [files.module(name) for name, files in found.items()]
    modules = [module for module in modules if module.stages]
    if not modules:
        modules = list(_plain_modules(folder, others))
        taken = {os.path.basename(m.stages[0].path) for m in modules}
        others = [name for name in others if name not in taken]
    if not modules:
        what = "is empty" if not names else "contains no HLO module"
        raise HloError(f"{printable(folder)} {what}", notes=(HOW_TO_DUMP,))
    modules.sort(key=lambda module: module.name)
    return DumpFolder(folder, tuple(modules), tuple(sorted(others)))


def module_of_file(path: str) -> DumpModule:
    """Return the only module in the file `path`, as a module of a dump."""
    name = os.path.basename(path)
    return DumpModule(name, (), None, DumpFile(path, 0, "", name), {})


def folder_of_file(path: str) -> DumpFolder:
    """Return a dump that consists of the module in the file `path`.

    Raises:
        HloError: there is no such file.
    """
    if not os.path.exists(path):
        read_file(path)
    return DumpFolder(path, (module_of_file(path),), ())


def chosen_module(folder: DumpFolder, wanted: str) -> DumpModule:
    """Return the module whose name contains `wanted`; by default the one with most passes.

    Raises:
        HloError: none has that name.
    """
    if wanted:
        return modules_named(folder, wanted)[0]
    return max(folder.modules, key=lambda module: len(module.stages))


def modules_named(folder: DumpFolder, wanted: str) -> tuple[DumpModule, ...]:
    """Return the modules whose name contains `wanted`.

    Raises:
        HloError: there are none.
    """
    found = tuple(module for module in folder.modules if wanted in module.name)
    if not found:
        names = [module.name for module in folder.modules]
        raise HloError(
            f"the dump has no module {wanted!r}; it has {', '.join(names[:8])}",
            notes=near_name_notes(wanted, names),
        )
    return found


def read_text(path: str) -> str:
    """Return the text of a file of a dump, which may be compressed.

    Raises:
        HloError: the file cannot be read.
    """
    return uncompressed(read_file(path), printable(path)).decode("utf-8", "replace")


# ---------------------------------------------------------------- names


def _preference(name: str) -> tuple[int, str]:
    """Sort key of names: the preferred form of a module comes first."""
    return next((i for i, form in enumerate(_FORMS) if name.endswith(form)), len(_FORMS)), name


def _place(path: str, name: str, found: dict[str, _Files]) -> bool:
    """Add a file to its module; True if its name is one of XLA's."""
    head = _HEAD.fullmatch(name)
    if head is None:
        return False
    number, rest = head["number"], head["rest"]
    if rest == "metadata.textproto":
        return _place_metadata(path, number, found)

    def files(module: str) -> _Files:
        return found.setdefault(f"module_{number}.{module}", _Files())

    flags = _FLAGS.fullmatch(rest)
    if flags is not None:
        files(flags["name"]).texts.setdefault("flags", path)
        return True
    form = next((form for form in _FORMS if rest.endswith(form)), None)
    if form is None:
        return True  # LLVM IR, objects, pictures: XLA's files that are not read
    rest = rest.removesuffix(form)
    report = _REPORT.fullmatch(rest)
    stage = _STAGE.fullmatch(rest if report is None else report["stage"])
    if report is not None:
        if stage is not None and form.startswith(".txt"):
            files(stage["name"]).texts.setdefault(report["kind"], path)
        return True
    by_pass = _PASS.fullmatch(rest)
    if by_pass is not None:
        order = int(by_pass["number"])
        file = DumpFile(path, order, by_pass["pipeline"], by_pass["after"])
        files(by_pass["name"]).passes.setdefault(order, file)
    elif stage is not None:
        own = files(stage["name"])
        if stage["stage"] == BEFORE:
            own.before = own.before or DumpFile(path, -1, "", BEFORE)
        elif all(file.after != stage["stage"] for file in own.after):
            own.after.append(DumpFile(path, 1 << 30, "", stage["stage"]))
    return True


def _place_metadata(path: str, number: str, found: dict[str, _Files]) -> bool:
    """Add the pass times of a compilation to the modules of its number."""
    for name, files in found.items():
        if name.startswith(f"module_{number}."):
            files.texts["metadata"] = path
    return True


def _plain_modules(folder: str, names: list[str]) -> Iterator[DumpModule]:
    """Yield a module for each file that begins like HLO text."""
    for name in names:
        path = os.path.join(folder, name)
        try:
            with open(path, "rb") as file:
                start = file.read(_START)
        except OSError:
            continue
        if re.match(rb"(?:\s|//[^\n]*\n)*HloModule\b", start):
            yield module_of_file(path)
