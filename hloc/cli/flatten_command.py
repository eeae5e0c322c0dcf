"""`hloc flatten FILE`: a module whose control flow does not depend on data, for benchmarks."""

from __future__ import annotations

from argparse import Namespace

from hloc.cli.emit import deliver_module
from hloc.cli.talk import Talk
from hloc.ir.verifier import verify
from hloc.opt.control_flow.flattening import Flattening, flatten
from hloc.report.exits import Exit
from hloc.report.source_input import need_files, read_module, shown_name
from hloc.report.text import plural


def flatten_module(arguments: Namespace, talk: Talk) -> int:
    """`hloc flatten FILE [--trips=N] [--most-trips=N] [--branch=N] [-o OUT]`."""
    (file,) = need_files(arguments.files, exactly=1)
    module = read_module(file)
    how = Flattening(arguments.trips, arguments.most_trips, arguments.branch)
    done = flatten(module, how)
    verify(module)
    deliver_module(module, arguments, talk)
    talk.say(
        f"{shown_name(file)}: {plural(done.loops, 'loop')}, "
        f"{plural(done.conditionals, 'conditional')} and "
        f"{plural(done.transfers, 'transfer')} flattened"
    )
    return Exit.OK
