"""`hloc bisect FILE --against=xla`: the pass of XLA after which a module answers differently.

XLA compiles the module and dumps it after each of its passes. The evaluator runs the last of these
modules, then bisects them for two neighbours of which the first is right and the second is wrong,
by more than roundings explain: this names the pass. If the last module is right, but the results of
XLA are wrong, its code generation is at fault.
"""

from __future__ import annotations

import os
import tempfile
from argparse import Namespace
from collections.abc import Callable, Sequence

from hloc import driver
from hloc.analysis.diff.file_diff import DiffOptions, table_of_modules
from hloc.cli.compare_with_xla import full_text
from hloc.cli.input_options import inputs_of
from hloc.cli.progress import progress_of
from hloc.cli.reduce_command import shrink
from hloc.cli.talk import Talk
from hloc.dtypes import Array
from hloc.dumps.folder import DumpFile, read_folder
from hloc.errors import HloError, printable
from hloc.ir.module import Module
from hloc.jax.xla_child import XlaChild, XlaEnded
from hloc.jax.xla_program import need_xla
from hloc.lazy_dataclass import dataclass
from hloc.output_file import write_form
from hloc.report.answers import InputSet, differing, evaluated, input_sets, is_random
from hloc.report.diff.diff_lines import DiffView, plain, unified_lines
from hloc.report.exits import Exit, UsageError
from hloc.report.json_report import json_report
from hloc.report.progress import Progress
from hloc.report.repro_file import repro_path
from hloc.report.roundings import Roundings, roundings_of
from hloc.report.source_input import need_files, read_module, shown_name
from hloc.report.text import plural
from hloc.report.time_limit import TookTooLong

_DUMP = (("xla_dump_hlo_pass_re", ".*"), ("xla_dump_large_constants", "True"))
_CODE = "code generation"


@dataclass(frozen=True, slots=True)
class _Culprit:
    """The stage of XLA that makes the results wrong.

    Attributes:
        what: a pass with its pipeline, or code generation.
        fault: how the results differ.
        step, steps: number of the wrong module, and how many modules XLA wrote.
        before, after: the modules around the pass, as far as they were written.
    """

    what: str
    fault: str
    step: int
    steps: int
    before: Module | None = None
    after: Module | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """Neighbours among the modules: `right` is right, `wrong` is wrong as `fault` says."""

    right: int | None
    wrong: int
    fault: str


def bisect_xla(arguments: Namespace, talk: Talk) -> int:
    """Return 0 if XLA answers as the evaluator does, 1 if a pass is found.

    Raises:
        HloError: jax is not installed, or the evaluator cannot run the module.
    """
    a = arguments
    (file,) = need_files(a.files, exactly=1)
    if a.test or a.compiled:
        raise UsageError("--against=xla compares with the evaluator; drop --test and --compiled")
    need_xla("--against=xla")
    module = read_module(file)
    if is_random(module):
        raise HloError("rng draws other numbers in XLA; results cannot be compared")
    progress = progress_of(talk, "bisecting")
    with XlaChild() as child:
        found, how = None, ""
        with progress.running():
            for given in _inputs(arguments, module):
                found, how = _culprit(module, given, child, progress), given.name
                if found is not None:
                    break
        if found is None:
            if a.format == "json":
                nothing = {"file": shown_name(file), "inputs": how, "culprit": None}
                talk.product(json_report("bisect", nothing))
            else:
                talk.page(f"{shown_name(file)}: XLA answers as the evaluator does")
            return Exit.OK
        small = module if a.no_reduce else _shrunk(module, child, a, talk)
    path = a.output_file or repro_path(module.name, None).replace(".repro.hlo", ".hlo")
    write_form(path, small.to_text(large_constants=True))
    if a.format == "json":
        data: dict[str, object] = {
            "pass": found.what, "fault": found.fault, "step": found.step, "of": found.steps,
            "module": path,
        }  # fmt: skip
        report = {"file": shown_name(file), "inputs": how, "culprit": data}
        talk.product(json_report("bisect", report))
    else:
        talk.page("\n".join([*_report(found, how, talk), f"the module: {path}"]))
    return Exit.FAULT


def _inputs(arguments: Namespace, module: Module) -> list[InputSet]:
    if arguments.inputs or arguments.input:
        given = inputs_of(arguments, module)
        return [InputSet(given.describe(module), given.arrays(module))]
    # No special values: XLA flushes subnormal numbers.
    return input_sets(module, arguments.random or 0, special=False)


def _culprit(
    module: Module, given: InputSet, child: XlaChild, progress: Progress
) -> _Culprit | None:
    """Return the stage at which XLA's results change on these inputs, None if they are right."""
    want = evaluated(module, given.arrays)
    roundings = roundings_of(module, given.arrays, want)
    with tempfile.TemporaryDirectory(prefix="hloc-bisect-") as folder:
        progress.begin("XLA compiles")
        ended = ""
        try:
            got = child.run("", full_text(module), given.arrays, [("xla_dump_to", folder), *_DUMP])
            fault = differing(roundings.forgiven(got, want), want)
        except XlaEnded as error:
            fault = ended = error.message
        if not fault:
            return None
        stages = _stages(folder)
        progress.begin("modules of XLA", len(stages).bit_length() + 1)

        def fault_after(number: int) -> str | None:
            progress.done, progress.detail = progress.done + 1, stages[number].how
            return _difference(_load(stages[number]), given.arrays, want, roundings)

        step = wrong_step(len(stages), fault_after)
        if step is not None:
            before = None if step.right is None else _load(stages[step.right])
            wrong = stages[step.wrong]
            return _Culprit(
                wrong.how, step.fault, step.wrong + 1, len(stages), before, _load(wrong)
            )
        what = _CODE
        if ended:
            what = f"what follows {stages[-1].how}" if stages else "reading the module"
        return _Culprit(what, fault, len(stages), len(stages))


def _stages(folder: str) -> Sequence[DumpFile]:
    """Return XLA's dump of the module with most passes; the others are its own helpers."""
    if not os.listdir(folder):
        return ()
    modules = read_folder(folder).modules
    return max(modules, key=lambda found: len(found.history)).history if modules else ()


def wrong_step(count: int, fault_after: Callable[[int], str | None]) -> Step | None:
    """Return where modules become wrong, None if the last one is right.

    A bisection, so that `fault_after` is called for few of the modules.

    Args:
        count: number of modules.
        fault_after: what is wrong with a module, by its number: "" if nothing is; None if that is
            unknown, and the module is skipped.
    """
    numbers, fault = list(range(count)), None
    while numbers and fault is None:
        fault = fault_after(numbers[-1])
        if fault is None:
            numbers.pop()
    if not fault:
        return None
    low, high = -1, len(numbers) - 1
    while high - low > 1:
        middle = (low + high) // 2
        found = fault_after(numbers[middle])
        if found is None:
            del numbers[middle]
            high -= 1
        elif found:
            high, fault = middle, found
        else:
            low = middle
    return Step(numbers[low] if low >= 0 else None, numbers[high], fault)


def _load(stage: DumpFile) -> Module:
    return driver.load_module(stage.path)


def _difference(
    module: Module, arrays: Sequence[Array], want: Sequence[Array], roundings: Roundings
) -> str | None:
    """Return how the results of a module of XLA differ, None if the evaluator cannot run it."""
    try:
        return differing(roundings.forgiven(evaluated(module, arrays), want), want)
    except (HloError, TookTooLong):
        return None


def _shrunk(module: Module, child: XlaChild, arguments: Namespace, talk: Talk) -> Module:
    """Return a smaller module on which XLA is wrong too, if random inputs show the fault."""

    def is_wrong(candidate: Module) -> bool:
        if is_random(candidate):
            return False
        try:
            given = input_sets(candidate, arguments.random or 0, special=False)[0]
            want = evaluated(candidate, given.arrays)
            got = child.run("", full_text(candidate), given.arrays)
            roundings = roundings_of(candidate, given.arrays, want)
            return bool(differing(roundings.forgiven(got, want), want))
        except XlaEnded:
            return True
        except (HloError, TookTooLong):
            return False

    if not is_wrong(module):
        return module
    return shrink(module, is_wrong, arguments.time_limit, talk).module


def _report(found: _Culprit, how: str, talk: Talk) -> list[str]:
    what = talk.product_paint.strong(printable(found.what))
    is_pass = found.after is not None
    head = f"pass {what} of XLA is wrong" if is_pass else f"XLA is wrong in {what}"
    place = f": module {found.step} of {found.steps}" if is_pass else ""
    after = "" if is_pass else f": {plural(found.steps, 'module')} before it answer right"
    lines = [f"{head}{place}{after} ({how})", f"  {printable(found.fault)}"]
    if found.before is not None and found.after is not None:
        table = table_of_modules(found.before, found.after, DiffOptions(metadata=False))
        lines += [f"  {plain(line)}" for line in unified_lines(DiffView(table))]
    return lines
