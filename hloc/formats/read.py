"""Read modules from bytes of any format."""

from __future__ import annotations

from codecs import BOM_UTF8

from hloc.errors import HloError, UnsupportedError
from hloc.formats.compressed import decompress
from hloc.formats.snapshot import Snapshot
from hloc.formats.sniff import BYTECODE, GZIP, PROTOS, STABLEHLO, TEXT, kind_of
from hloc.ir.module import Module
from hloc.parser import parse
from hloc.source import SourceFile

_READABLE = (
    "hloc reads HLO text, HloModuleProto, HloProto and HloSnapshot, StableHLO, and gzip of these"
)


def uncompressed(data: bytes, name: str) -> bytes:
    """Return `data` without a byte-order mark, or its contents if it is a gzip file.

    Raises:
        HloError: a gzip file is damaged, too large, or nested in another.
    """
    if kind_of(data) != GZIP:
        return data.removeprefix(BOM_UTF8)
    data = decompress(data, name).removeprefix(BOM_UTF8)
    if kind_of(data) == GZIP:
        raise HloError(f"{name} is a gzip file inside a gzip file")
    return data


def read_snapshot(data: bytes, name: str, *, verify: bool = True) -> Snapshot:
    """Return the module in `data`, and the arguments and result of a snapshot.

    Args:
        data: contents of a file in any format.
        name: its name in messages.
        verify: check every shape and attribute.

    Raises:
        HloError: the data are not a valid module; a package to read them is missing.
    """
    data = uncompressed(data, name)
    kind = kind_of(data)
    if kind in PROTOS:
        return _read_proto(data, kind, name, verify)
    if kind in (STABLEHLO, BYTECODE):
        return Snapshot(_read_stablehlo(data, kind, name, verify))
    if kind != TEXT:
        raise HloError(f"{name} is no HLO: it looks like {kind}", notes=(_READABLE,))
    text = data.decode("utf-8", "surrogateescape")
    return Snapshot(parse(SourceFile(text, name), verify=verify))


def read_xla_proto(data: bytes, name: str) -> Module:
    """Return the verified module of an `HloModuleProto` that XLA or hloc has just written.

    Raises:
        HloError: the module has errors; protobuf is not installed.
    """
    from hloc.formats.from_proto import module_from_bytes

    return _checked(module_from_bytes(data, name, from_xla=True), verify=True)


def _read_stablehlo(data: bytes, kind: str, name: str, verify: bool) -> Module:
    """Return a module from StableHLO; jaxlib converts bytecode and what hloc cannot convert."""
    from hloc.formats import jaxlib_converter

    if kind == STABLEHLO:
        from hloc.stablehlo.to_module import module_from_stablehlo

        source = SourceFile(data.decode("utf-8", "surrogateescape"), name)
        try:
            return _checked(module_from_stablehlo(source), verify)
        except UnsupportedError:
            if not jaxlib_converter.is_installed():
                raise
    text = jaxlib_converter.to_hlo(data, kind, name).decode("utf-8", "surrogateescape")
    return parse(SourceFile(text, name), verify=verify)


def _checked(module: Module, verify: bool) -> Module:
    """Return `module`, verified if requested, ready for changes."""
    if verify:
        from hloc.ir.verifier import verify as verify_module

        verify_module(module)
    module.log.recording = True
    return module


def _read_proto(data: bytes, kind: str, name: str, verify: bool) -> Snapshot:
    from hloc.formats.proto_snapshot import snapshot_from_bytes

    found = snapshot_from_bytes(data, kind, name)
    _checked(found.module, verify)
    return found
