"""Write a module as bytes of any format."""

from __future__ import annotations

import gzip

from hloc.errors import UnsupportedError
from hloc.formats import jaxlib_converter
from hloc.formats.proto_snapshot import hlo_proto_bytes
from hloc.formats.sniff import FORMATS
from hloc.formats.to_proto import module_to_bytes
from hloc.ir.module import Module

FORMAT_OF_ENDING = {
    ".hlo": "hlo", ".txt": "hlo", ".pb": "pb", ".mlir": "stablehlo", ".stablehlo": "stablehlo",
}  # fmt: skip
_COMPRESSED = ".gz"


def format_of_path(path: str) -> tuple[str, bool]:
    """Return the format for a file name, "" if none, and whether it ends in .gz."""
    compressed = path.endswith(_COMPRESSED)
    stem = path.removesuffix(_COMPRESSED)
    found = next((form for end, form in FORMAT_OF_ENDING.items() if stem.endswith(end)), "")
    return found, compressed


def module_bytes(
    module: Module,
    form: str,
    *,
    style: str = "default",
    tuple_style: str = "full",
    compress: bool = False,
) -> bytes:
    """Return `module` in `form`, one of `FORMATS`; the styles are those of `Module.to_text`.

    Raises:
        HloError: the format cannot represent a value; a package to write it is missing.
    """
    if form == "pb":
        data = hlo_proto_bytes(module)
    elif form == "module-pb":
        data = module_to_bytes(module)
    elif form == "stablehlo":
        data = _stablehlo_bytes(module)
    else:
        assert form in FORMATS, form
        text = module.to_text(style, large_constants=True, tuple_style=tuple_style)
        data = text.encode("utf-8", "surrogateescape")
    return gzip.compress(data, mtime=0) if compress else data


def _stablehlo_bytes(module: Module) -> bytes:
    """Return `module` as StableHLO text; jaxlib is used if hloc cannot write an instruction."""
    from hloc.stablehlo.from_module import stablehlo_text

    try:
        return stablehlo_text(module).encode("utf-8", "surrogateescape")
    except UnsupportedError:
        if not jaxlib_converter.is_installed():
            raise
    return jaxlib_converter.from_hlo(module.to_text(large_constants=True), module.name)
