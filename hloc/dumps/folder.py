"""Folders that XLA writes with `--xla_dump_to=DIR --xla_dump_hlo_pass_re=.*`: which file is what.

There is a file after every pass that changed something, such as
`module_0052.jit_f.0007.simplification.after_algsimp.before_dce.txt`.
"""

from __future__ import annotations

import os
import re

from hloc.errors import HloError, reason_of
from hloc.lazy_dataclass import dataclass
from hloc.near_names import near_name_notes

_NAME = re.compile(
    r"module_(?P<module>\d+)\.(?P<name>.+)\.(?P<number>\d{4,})\.(?P<pipeline>.+?)"
    r"\.after_(?P<after>.+?)(?:\.before_.+)?\.txt(?:\.gz)?"
)


@dataclass(frozen=True, slots=True)
class DumpFile:
    """One file of a dump; `module` is XLA's number and name of the module."""

    path: str
    module: str
    number: int
    pipeline: str
    after: str

    @property
    def how(self) -> str:
        """What made it: `simplification/algsimp`, or `load` before the first pass."""
        if self.after.startswith("pipeline-start"):
            return f"{self.pipeline} starts"
        return f"{self.pipeline}/{self.after}"


def read_folder(folder: str) -> dict[str, list[DumpFile]]:
    """Return the files of each module in a dump, in the order of the passes.

    Raises:
        HloError: the folder cannot be read, or holds no such files.
    """
    try:
        names = sorted(os.listdir(folder))
    except OSError as fault:
        raise HloError(f"cannot read {folder}: {reason_of(fault)}") from None
    found: dict[str, list[DumpFile]] = {}
    for name in names:
        parts = _NAME.fullmatch(name)
        if parts is None:
            continue
        module = f"module_{parts['module']}.{parts['name']}"
        path = os.path.join(folder, name)
        file = DumpFile(path, module, int(parts["number"]), parts["pipeline"], parts["after"])
        found.setdefault(module, []).append(file)
    if not found:
        raise HloError(
            f"{folder} contains no pass dump",
            notes=("XLA writes one with XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_pass_re=.*'",),
        )
    for files in found.values():
        files.sort(key=lambda file: file.number)
    return found


def chosen_module(modules: dict[str, list[DumpFile]], wanted: str) -> list[DumpFile]:
    """Return the files of the module that `wanted` names in part; by default the most passes.

    Raises:
        HloError: none has that name.
    """
    if wanted:
        fitting = [name for name in modules if wanted in name]
        if not fitting:
            raise HloError(
                f"the dump has no module {wanted!r}; it has {', '.join(list(modules)[:8])}",
                notes=near_name_notes(wanted, list(modules)),
            )
        return modules[fitting[0]]
    return max(modules.values(), key=len)
