"""Read modules from a file, or from stdin for `-`."""

from __future__ import annotations

import sys
from codecs import BOM_UTF8

from hloc import driver
from hloc.errors import Diagnostic, HloError, printable, reason_of
from hloc.formats.read import uncompressed
from hloc.formats.snapshot import Snapshot
from hloc.formats.sniff import TEXT, kind_of
from hloc.input_files import read_bounded, read_file
from hloc.ir.module import Module
from hloc.ir.sharded_signature import is_partitioned
from hloc.parser import SEPARATOR, parse, split_modules
from hloc.report.exits import UsageError
from hloc.source import SourceFile


def read_module(name: str, *, verify: bool = True) -> Module:
    """Read the one module in file `name`, `-` for stdin.

    Raises:
        HloError: the file cannot be read, its text has errors, or it holds several modules.
    """
    modules = read_modules(name, verify=verify)
    if len(modules) > 1:
        raise HloError(f"{shown_name(name)} holds {len(modules)} modules, expected one")
    return modules[0]


def need_one_device(module: Module, what: str) -> None:
    """Refuse a module that a partitioner made, which runs on several devices; raises HloError."""
    if is_partitioned(module):
        raise HloError(f"{what} runs a module on one device; see hloc run --devices")


def read_modules(name: str, *, verify: bool = True) -> list[Module]:
    """Read the modules in file `name`, `-` for stdin; lines `// -----` divide them.

    Raises:
        HloError: the file cannot be read, or its text has errors; the errors of all modules.
    """
    return [found.module for found in read_snapshots(name, verify=verify)]


def read_snapshots(name: str, *, verify: bool = True) -> list[Snapshot]:
    """Read the modules in file `name`, and the arguments and results stored with them.

    Raises:
        HloError: as for `read_modules`.
    """
    data = uncompressed(_read_bytes(name), shown_name(name))
    if _SEPARATOR not in data or kind_of(data) != TEXT:
        return [driver.read_snapshot(data, name=shown_name(name), verify=verify)]
    modules: list[Snapshot] = []
    faults: list[Diagnostic] = []
    for source in split_modules(_source(name, data)):
        try:
            modules.append(Snapshot(parse(source, verify=verify)))
        except HloError as fault:
            faults += fault.diagnostics
    if faults:
        raise HloError(faults)
    return modules


def read_source(name: str) -> SourceFile:
    """Read the text of file `name`, `-` for stdin.

    Raises:
        HloError: the file cannot be read.
    """
    return _source(name, _read_bytes(name))


_SEPARATOR = SEPARATOR.encode()


def _source(name: str, data: bytes) -> SourceFile:
    text = data.removeprefix(BOM_UTF8).decode("utf-8", "surrogateescape")
    return SourceFile(text, shown_name(name))


def _read_bytes(name: str) -> bytes:
    if name != "-":
        return read_file(name)
    if sys.stdin is None:
        raise HloError("cannot read <stdin>: it is closed")
    try:
        return read_bounded(sys.stdin.buffer)
    except OSError as fault:
        raise HloError(f"cannot read <stdin>: {reason_of(fault)}") from None


def shown_name(name: str) -> str:
    """Return the name to show for file `name`."""
    return "<stdin>" if name == "-" else printable(name)


def need_files(files: list[str], *, exactly: int = 0) -> list[str]:
    """Return `files`; raises UsageError if there are none, or not `exactly` that many."""
    if not files:
        raise UsageError("no input file")
    if exactly and len(files) != exactly:
        raise UsageError(f"expected {exactly} file{'s' * (exactly > 1)}, found {len(files)}")
    if files.count("-") > 1:
        raise UsageError("stdin can be read only once")
    return files
