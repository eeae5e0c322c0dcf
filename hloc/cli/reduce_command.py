"""`hloc reduce FILE --test 'COMMAND {}'`: shrink a module as long as a command exits with 0."""

from __future__ import annotations

import time
from argparse import Namespace

from hloc.analysis.reduction import Interesting, Reduced, reduce_module
from hloc.cli.emit import deliver
from hloc.cli.outside_test import OutsideTest
from hloc.cli.progress import progress_of
from hloc.cli.talk import Talk
from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.report.exits import Exit, UsageError
from hloc.report.source_input import need_files, read_module, shown_name
from hloc.report.text import plural


def reduce_file(arguments: Namespace, talk: Talk) -> int:
    """`hloc reduce FILE --test 'COMMAND {}' [-o OUT]`."""
    (file,) = need_files(arguments.files, exactly=1)
    if not arguments.test:
        raise UsageError("expected --test 'COMMAND {}'")
    test = OutsideTest(arguments.test, arguments.test_timeout)
    module = read_module(file)
    if not test.shows_fault(module):
        raise HloError(f"the test does not exit with 0 for {shown_name(file)} itself")
    reduced = shrink(module, test.shows_fault, arguments.time_limit, talk)
    text = reduced.module.to_text(large_constants=True)
    deliver(text, arguments.output_file, talk)
    return Exit.OK


def shrink(module: Module, interesting: Interesting, seconds: float, talk: Talk) -> Reduced:
    """Reduce `module`, with a progress line, and report the result."""
    progress = progress_of(talk, "reducing")

    def tested(best: Module, tests: int) -> None:
        left = plural(best.instruction_count, "instruction")
        progress.detail = f"{left} left, {plural(tests, 'test')}, at most {seconds:g} s"

    started = time.perf_counter()
    with progress.running():
        reduced = reduce_module(module, interesting, seconds=seconds, on_progress=tested)
    ending = "" if reduced.complete else "; the time limit ended it"
    talk.say(
        f"reduced from {module.instruction_count:,} to "
        f"{plural(reduced.module.instruction_count, 'instruction')} "
        f"in {time.perf_counter() - started:.1f} s ({plural(reduced.tests, 'test')}{ending})"
    )
    return reduced
