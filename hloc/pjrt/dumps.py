"""Dumps of compiled programs, for XLA's option `xla_dump_to` (in `XLA_FLAGS`, or of one program).

Files are named as by XLA:CPU: `module_0003.jit_f.before_optimizations.txt`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

from hloc import driver
from hloc.errors import HloError
from hloc.formats.proto_snapshot import hlo_proto_bytes
from hloc.output_file import write_form
from hloc.pjrt.native import PjrtError
from hloc.pjrt.programs import Program
from hloc.report.repro_file import file_stem

_BEFORE, _AFTER = "before_optimizations", "cpu_after_optimizations"
_STAGES = {
    "buffers": "cpu_after_optimizations-buffer-assignment.txt",
    "llvm-ir": "ir-no-opt.ll",
    "llvm-ir-opt": "ir-with-opt.ll",
    "object": "o",
}
"""The suffix of a file's name by stage of compilation."""


def dump(program: Program, debug_options: Any, overrides: Iterable[tuple[str, Any]]) -> None:
    """Write the files that the options of a program request.

    Raises:
        PjrtError: the folder cannot be written.
    """
    wishes = dict(overrides)

    def option(name: str) -> Any:
        found = wishes.get(name)
        return getattr(debug_options, name) if found is None else found

    folder, only = option("xla_dump_to"), option("xla_dump_hlo_module_re")
    name = program.boundary.name
    if not folder or (only and not re.search(only, name)):
        return
    as_proto = bool(option("xla_dump_hlo_as_proto"))
    as_text = bool(option("xla_dump_hlo_as_text")) or not as_proto
    try:
        os.makedirs(folder, exist_ok=True)
        start = os.path.join(folder, f"module_{program.number:04d}.{file_stem(name)}.")
        _write_module(f"{start}{_BEFORE}", _before(program), as_text=as_text, as_proto=as_proto)
        _write_module(f"{start}{_AFTER}", _after(program), as_text=as_text, as_proto=as_proto)
        for stage, end in _STAGES.items():
            write_form(f"{start}{end}", program.run.stage(stage))
    except (OSError, HloError) as fault:
        why = fault.message if isinstance(fault, HloError) else fault.strerror or fault
        raise PjrtError("INVALID_ARGUMENT", f"xla_dump_to={folder}: {why}") from None


def _before(program: Program) -> Any:
    return driver.read_snapshot(program.request.proto, name=program.boundary.name).module


def _after(program: Program) -> Any:
    text = program.run.stage("hlo")
    return driver.parse_text(text, name=program.boundary.name)


def _write_module(path: str, module: Any, *, as_text: bool, as_proto: bool) -> None:
    if as_text:
        write_form(f"{path}.txt", module.to_text())
    if as_proto:
        write_form(f"{path}.hlo.pb", hlo_proto_bytes(module))
