"""The options of `%hlo` and `%%hlo`."""

from __future__ import annotations

import keyword
import shlex
from argparse import ArgumentParser
from typing import NoReturn

from hloc.errors import HloError
from hloc.lazy_dataclass import dataclass

USAGE = """%%hlo [OPTIONS] above HLO text; %hlo MODULE [OPTIONS] of a variable or a file

  -O0 ... -O3     run the passes of a level
  --passes=LIST   run passes: cse,fix(algsimp,dce)
  --name=NAME     let the Python variable NAME be the module after the passes
  --diff          show what the passes changed
  --slider        walk through the passes with a slider, and the diff of each
  --graph         draw the module after the passes, with what they changed
  --run           run it, compiled, on random inputs, and compare with the evaluator
  --memory        draw where its arrays lie
  --roofline      compare its kernels with the peaks of this machine; with --run, measured"""


@dataclass(frozen=True, slots=True)
class MagicOptions:
    """The request to a magic.

    Attributes:
        source: variable or file of the module, "" for the text of the cell.
        passes: passes or a level, "" for none.
        name: variable that is set to the module, "" for none.
        views: what to show, in the order of `VIEWS`; () for the module itself.
    """

    source: str = ""
    passes: str = ""
    name: str = ""
    views: tuple[str, ...] = ()


VIEWS = ("diff", "slider", "graph", "run", "memory", "roofline")


def read_options(line: str, *, is_cell: bool) -> MagicOptions:
    """Return the options in the words after the magic.

    Raises:
        HloError: an unknown option, an extra word, or no module.
    """
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("source", nargs="?", default="")
    passes = parser.add_mutually_exclusive_group()
    passes.add_argument("--passes", default="")
    passes.add_argument("-O", dest="level", choices="0123")
    parser.add_argument("--name", default="")
    for view in VIEWS:
        parser.add_argument(f"--{view}", dest="views", action="append_const", const=view)
    try:
        words = shlex.split(line)
    except ValueError as fault:
        raise HloError(f"{line.strip()}: {fault}".lower()) from None
    found = parser.parse_args(words)
    if is_cell and found.source:
        raise HloError(f"unexpected word {found.source!r}: the module is the text of the cell")
    if not is_cell and not found.source:
        raise HloError("no module", notes=("expected %hlo MODULE, or %%hlo above HLO text",))
    if found.name and (not found.name.isidentifier() or keyword.iskeyword(found.name)):
        raise HloError(f"--name: expected the name of a variable, found {found.name!r}")
    level = f"-O{found.level}" if found.level else ""
    asked = found.views or ()
    views = tuple(view for view in VIEWS if view in asked)
    return MagicOptions(found.source, found.passes or level, found.name, views)


class _Parser(ArgumentParser):
    """Raises HloError instead of ending the kernel."""

    def error(self, message: str) -> NoReturn:
        raise HloError(message, notes=("%hlo? lists the options",))
