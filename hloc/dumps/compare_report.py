"""The report of `hloc doctor A B`: pairs of modules, and the differences of each pair."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from hloc.dumps.compare import Comparison, compare
from hloc.dumps.dump_report import section_lines
from hloc.dumps.folder import DumpFolder, DumpModule
from hloc.dumps.sections import Section
from hloc.errors import HloError, printable
from hloc.lazy_dataclass import dataclass
from hloc.report.text import plural

_MOST_NAMES = 6


@dataclass(frozen=True, slots=True)
class DumpsCompared:
    """The comparison of two dumps; `only_old` and `only_new` are modules without a counterpart."""

    old: str
    new: str
    pairs: tuple[Comparison, ...]
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]

    @property
    def same(self) -> bool:
        """True if all modules have a counterpart, and nothing differs."""
        alone = self.only_old or self.only_new
        return not alone and all(pair.same and not pair.differences for pair in self.pairs)


def compare_dumps(
    old: DumpFolder,
    new: DumpFolder,
    wanted: str = "",
    on_file: Callable[[str], None] = lambda name: None,
) -> DumpsCompared:
    """Compare modules of equal names, in order.

    Raises:
        HloError: no pair has `wanted` in its names.
    """
    pairs, only_old, only_new = paired(old, new)
    chosen = [pair for pair in pairs if any(wanted in module.name for module in pair)]
    if wanted and not chosen:
        raise HloError(f"no module in both dumps has {wanted!r} in its name")
    compared = tuple(compare(*pair, on_file) for pair in chosen)
    return DumpsCompared(old.path, new.path, compared, tuple(only_old), tuple(only_new))


def paired(
    old: DumpFolder, new: DumpFolder
) -> tuple[list[tuple[DumpModule, DumpModule]], list[str], list[str]]:
    """Return pairs of modules of equal names, in order, and the names of the others.

    Two dumps of one module each are a pair whatever the names are.
    """
    if len(old.modules) == len(new.modules) == 1:
        return [(old.modules[0], new.modules[0])], [], []
    waiting: dict[str, list[DumpModule]] = {}
    for module in new.modules:
        waiting.setdefault(module.title, []).append(module)
    pairs: list[tuple[DumpModule, DumpModule]] = []
    alone: list[str] = []
    for module in old.modules:
        partners = waiting.get(module.title)
        if partners:
            pairs.append((module, partners.pop(0)))
        else:
            alone.append(module.name)
    return pairs, alone, [module.name for rest in waiting.values() for module in rest]


def comparison_lines(found: DumpsCompared) -> list[str]:
    """Return the report as text."""
    lines = [f"- {printable(found.old)}", f"+ {printable(found.new)}"]
    for path, names in ((found.old, found.only_old), (found.new, found.only_new)):
        if names:
            more = ", ..." if len(names) > _MOST_NAMES else ""
            text = f"{plural(len(names), 'module')}: {', '.join(names[:_MOST_NAMES])}{more}"
            lines.append(printable(f"only in {path}: {text}"))
    for pair in found.pairs:
        head = pair.old if pair.old == pair.new else f"{pair.old} -> {pair.new}"
        lines += ["", f"== {printable(head)}"]
        for section in comparison_sections(pair):
            lines += section_lines(section)
        if not pair.same and all(pair.files):
            old, new = map(printable, pair.files)
            lines.append(f"each instruction: hloc diff {old} {new}")
    return lines


def comparison_sections(found: Comparison) -> Iterator[Section]:
    """Yield the sections of a comparison."""
    if found.program:
        yield Section("program", found.program)
    if found.same:
        yield Section("result", "the last modules are the same")
    for row in found.differences:
        text = f"{row.text}; {row.why}" if row.why else row.text
        yield Section(row.what, text, row.rows)


def comparison_data(found: DumpsCompared) -> dict[str, Any]:
    """Return the report as JSON."""
    return {**asdict(found), "same": found.same}
