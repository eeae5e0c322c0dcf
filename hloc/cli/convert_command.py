"""`hloc convert FILE -o FILE`: converts a module to another format."""

from __future__ import annotations

from argparse import Namespace

from hloc.cli.emit import text_options
from hloc.cli.talk import Talk
from hloc.errors import HloError, printable
from hloc.formats.write import FORMAT_OF_ENDING, format_of_path, module_bytes
from hloc.output_file import write_form
from hloc.report.exits import Exit
from hloc.report.source_input import need_files, read_module


def convert_file(arguments: Namespace, talk: Talk) -> int:
    """`hloc convert FILE [-o FILE] [--to FORMAT]`: read any format, write one."""
    (name,) = need_files(arguments.files, exactly=1)
    path = arguments.output_file or "-"
    asked, compress = format_of_path(path)
    form = arguments.to or asked or ("hlo" if path == "-" else "")
    if not form:
        endings = " ".join(FORMAT_OF_ENDING)
        raise HloError(
            f"unknown file extension: {printable(path)}",
            notes=[f"endings are {endings}, each with .gz too; --to=FORMAT goes with any name"],
        )
    module = read_module(name, verify=not arguments.no_verify)
    data = module_bytes(module, form, **text_options(arguments), compress=compress)
    if path == "-":
        is_text = form in ("hlo", "stablehlo")
        talk.product(data.decode("utf-8", "surrogateescape") if is_text else data)
    else:
        write_form(path, data)
    return Exit.OK
