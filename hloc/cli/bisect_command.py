"""`hloc bisect FILE`: finds the pass and rewrite that break a module, on a small copy."""

from __future__ import annotations

import shlex
import time
from argparse import Namespace
from collections.abc import Sequence

from hloc import driver
from hloc.cli.bisect_xla import bisect_xla
from hloc.cli.input_options import inputs_of
from hloc.cli.outside_test import OutsideTest
from hloc.cli.pass_options import checked_pipeline, compile_options, load_plugins
from hloc.cli.progress import progress_of
from hloc.cli.reduce_command import shrink
from hloc.cli.talk import Talk
from hloc.cli.watching.rewrite_report import rewrite_lines
from hloc.errors import HloError, InternalError, printable
from hloc.ir.clone import clone_module
from hloc.ir.module import Module
from hloc.ir.verifier import check
from hloc.lazy_dataclass import dataclass
from hloc.opt.bisection import Culprit, FaultOf, find_culprit
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import run_pass, text_of
from hloc.options import CompileOptions
from hloc.report.answers import (
    ENDLESS,
    Answer,
    InputSet,
    Runner,
    answer_of,
    compiled,
    difference,
    evaluated,
    input_sets,
    is_random,
    patience_for,
    runner_for,
    within,
)
from hloc.report.exits import Exit, UsageError
from hloc.report.json_report import json_report
from hloc.report.repro_file import repro_path, write_with_header
from hloc.report.source_input import need_files, read_module, shown_name


def bisect_file(arguments: Namespace, talk: Talk) -> int:
    """`hloc bisect FILE [--against=xla]`: exit 0 if nothing is wrong, 1 if a pass is found."""
    if arguments.against == "xla":
        return bisect_xla(arguments, talk)
    (file,) = need_files(arguments.files, exactly=1)
    load_plugins(arguments)
    options = compile_options(arguments)
    pipeline = checked_pipeline(options)
    module = read_module(file)
    judge = _Judge(arguments, options)
    progress = progress_of(talk, "bisecting")

    def searching(what: str) -> None:
        progress.detail = what

    fault_of = judge.fault_of(module)
    with progress.running():
        culprit = find_culprit(
            module, pipeline, lambda: driver.context_of(options), fault_of, searching
        )
    if arguments.format == "json":
        path = "" if culprit is None else _write(culprit, judge, talk)
        data = None if culprit is None else {**_data(culprit), "module": path}
        file_name = shown_name(file)
        found = {"file": file_name, "inputs": judge.how, "culprit": data}
        talk.product(json_report("bisect", found))
        return Exit.OK if culprit is None else Exit.FAULT
    if culprit is None:
        talk.page(f"{shown_name(file)}: no pass changes the answer ({judge.how})")
        return Exit.OK
    talk.page("\n".join(_report(culprit, talk)))
    path = _write(culprit, judge, talk)
    option = [] if path.endswith(".repro.hlo") else ["--repro"]
    words = ["hloc", path, *option, *(f"--plugin={plugin}" for plugin in arguments.plugin)]
    talk.page(f"the module before the pass: {path}\nrun it with: {shlex.join(words)}")
    return Exit.FAULT


def _data(culprit: Culprit) -> dict[str, object]:
    """Return the culprit as JSON data."""
    return {
        "pass": text_of(culprit.what),
        "crashes": culprit.crashes,
        "step": culprit.step + 1,
        "rewrite": culprit.rewrite,
        "by": culprit.by,
        "at": culprit.text.at,
        "before": list(culprit.text.before),
        "after": list(culprit.text.after),
        "fault": culprit.fault,
    }


def _report(culprit: Culprit, talk: Talk) -> list[str]:
    paint = talk.product_paint
    verb = "fails" if culprit.crashes else "is wrong"
    where = f"step {culprit.step + 1} of the pipeline"
    if culprit.rewrite:
        of = "" if culprit.crashes else f" of {culprit.rewrites}"
        where += f", its rewrite {culprit.rewrite}{of}"
        where += f", rewrite {culprit.rewrite_of_pipeline} of the pipeline"
    lines = [f"pass {paint.strong(text_of(culprit.what))} {verb}: {where}"]
    at = f" at {printable(culprit.text.at)}" if culprit.text.at else ""
    lines.append(f"  rewrite {culprit.by}{at}")
    lines += rewrite_lines(culprit.text.before, culprit.text.after, paint)
    return lines + [f"  {printable(line)}" for line in culprit.fault.split("\n")]


def _write(culprit: Culprit, judge: _Judge, talk: Talk) -> str:
    """Reduce the module before the pass, and write it with the options that show the fault.

    Returns:
        The file.
    """
    a = judge.arguments
    module = culprit.before
    if not a.no_reduce:
        module = shrink(module, judge.interesting(culprit), a.time_limit, talk).module
    check_option = "--verify-each" if culprit.crashes or a.test else "--check-each"
    words = [f"--passes={text_of(culprit.what)}", check_option]
    words += ["--fast-math"] if a.fast_math else []
    words += [f"--disable-rule={','.join(a.disable_rule)}"] if a.disable_rule else []
    path = a.output_file or repro_path(module.name, None)
    write_with_header(module, words, a.plugin, path)
    return path


@dataclass(slots=True)
class _Judge:
    """Decides whether an optimised module is wrong, by the criterion of the options.

    Attributes:
        how: what was compared, as text.
    """

    arguments: Namespace
    options: CompileOptions
    how: str = ""

    def fault_of(self, module: Module) -> FaultOf:
        """Return the judge of states of `module`."""
        a = self.arguments
        if a.test:
            test = OutsideTest(a.test, a.test_timeout)
            self.how = "the test never exits with 0"
            return lambda state: "the test says so" if test.shows_fault(state) else ""
        if is_random(module):
            raise HloError("rng draws different numbers after a pass; results cannot be compared")
        inputs = self._inputs(module)
        wanted, runner = self._wanted(module, inputs)
        kept = [given.name for given, want in zip(inputs, wanted, strict=True) if want is not None]
        if not kept:
            raise HloError("the module does not run on any inputs, so there is no expected result")
        self.how = ", ".join(kept)
        return lambda state: difference(state, inputs, wanted, runner)

    def _inputs(self, module: Module) -> list[InputSet]:
        a = self.arguments
        if a.inputs and a.random is not None:
            raise UsageError("--random and --inputs exclude each other")
        if a.inputs or a.input:
            given = inputs_of(a, module)
            return [InputSet(given.describe(module), given.arrays(module))]
        return input_sets(module, a.random or 0, special=not a.fast_math)

    def _wanted(self, module: Module, inputs: Sequence[InputSet]) -> tuple[list[Answer], Runner]:
        """Return the expected results, none where compiled code is wrong before any pass.

        The runner gives up on a state that takes far longer than `module`.
        """
        reference = runner_for(module)
        started = time.perf_counter()
        wanted = [answer_of(module, given, reference) for given in inputs]
        patience = patience_for(time.perf_counter() - started)
        if not self.arguments.compiled:
            return wanted, within(reference, patience)
        return [
            want if not difference(module, [given], [want], compiled) else None
            for given, want in zip(inputs, wanted, strict=True)
        ], within(compiled, patience)

    def interesting(self, culprit: Culprit) -> _Interesting:
        """Return the predicate that must hold while the module before the pass is reduced."""
        a = self.arguments
        runner = compiled if a.compiled else evaluated
        if a.test or culprit.crashes or is_random(culprit.before):
            return _Interesting(self, culprit, runner, evaluated)
        inputs = input_sets(culprit.before, a.random or 0, special=not a.fast_math)
        seconds = 0.0
        for one in {evaluated, runner}:
            started = time.perf_counter()
            answer_of(culprit.before, inputs[0], one)
            seconds = max(seconds, time.perf_counter() - started)
        patience = patience_for(seconds)
        return _Interesting(self, culprit, within(runner, patience), within(evaluated, patience))


@dataclass(frozen=True, slots=True)
class _Interesting:
    """True for a module in which the culprit's rule, run alone in its pass, changes the results.

    Attributes:
        runner, reference: run candidates, and give up on those that take far longer than the
            module before the pass did.
    """

    judge: _Judge
    culprit: Culprit
    runner: Runner
    reference: Runner

    def __call__(self, candidate: Module) -> bool:
        context = driver.context_of(self.judge.options)
        after = clone_module(candidate)
        try:
            run_pass(self.culprit.what, after, context)
        except (InternalError, HloError) as fault:
            return self.culprit.crashes and _kind(str(fault)) == _kind(self.culprit.fault)
        if self.culprit.crashes or not self._fired(context):
            return False
        return bool(check(after)) or self._differs(candidate, after)

    def _fired(self, context: PassContext) -> bool:
        return self.culprit.by in context.fired

    def _differs(self, candidate: Module, after: Module) -> bool:
        a = self.judge.arguments
        if a.test:
            return OutsideTest(a.test, a.test_timeout).shows_fault(after)
        if is_random(candidate):
            return False
        for given in input_sets(candidate, a.random or 0, special=not a.fast_math):
            want = answer_of(candidate, given, self.reference)
            if want is None:
                return False  # an endless loop, most likely, on the other inputs as well
            found = difference(after, [given], [want], self.runner)
            if not found or found.startswith(ENDLESS) > self.culprit.fault.startswith(ENDLESS):
                continue
            if not a.compiled or not difference(candidate, [given], [want], self.runner):
                return True
        return False


def _kind(fault: str) -> str:
    """Return the text of a failure without shapes and names, equal for failures of one kind."""
    head = ":".join(fault.split("\n")[0].split(":")[:2])
    return " ".join(word for word in head.split() if "[" not in word)
