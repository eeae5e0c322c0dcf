"""The passes of one compilation, with the observers that the command line asks for."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field, replace
from typing import TYPE_CHECKING

from hloc import driver
from hloc.analysis.measure import measure_of
from hloc.cli.emit import text_options
from hloc.cli.progress import PassProgress
from hloc.cli.talk import Talk
from hloc.cli.watching.dump_dir import RESUMED, DumpDir
from hloc.cli.watching.pass_report import PassReport
from hloc.cli.watching.pass_table import PassTimes
from hloc.cli.watching.reproducer import Recorder, write_reproducer
from hloc.cli.watching.rewrite_report import (
    RewriteTrace,
    limit_line,
    passed_remarks,
    remark_data,
    remark_lines,
)
from hloc.errors import HloError, InternalError
from hloc.ir.clone import clone_module
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import PipelineObserver, text_of
from hloc.options import CompileOptions
from hloc.report.no_gain import heaviest_text, is_gain, no_gain_text
from hloc.report.progress import Progress
from hloc.report.text import plural

if TYPE_CHECKING:
    from hloc.cli.watching.check_each import CheckEach


@dataclass(slots=True)
class WatchedPasses:
    """Runs the passes over one module and reports what they did.

    Attributes:
        times: the table of `--time-passes`, None without the option.
    """

    arguments: Namespace
    options: CompileOptions
    talk: Talk
    progress: Progress
    times: PassTimes | None = None
    _finishers: list[PassReport | DumpDir | CheckEach] = field(default_factory=list)

    def run(self, module: Module) -> None:
        """Optimise `module`.

        Raises:
            InternalError: a pass or a check after it failed; the message names the reproducer.
            HloError: a pass refused the module, or a file cannot be written.
        """
        a = self.arguments
        context = driver.context_of(self.options)
        context.rewrite_limit = a.opt_bisect_limit
        context.remarks = [] if a.remarks or a.print_changed else None
        passes = driver.pipeline_of(self.options).passes
        recorder = Recorder(clone_module(module) if passes else module, context)
        trace = self._trace(context)
        observers: list[PipelineObserver] = [recorder, PassProgress(self.progress, context, passes)]
        observers += [trace] if trace else []
        observers += self._reports(module, context)
        observers += self._checks(recorder.original)
        with self._explained(recorder):
            driver.optimise(module, self.options, observers, context)
        for finisher in self._finishers:
            finisher.finish()
        if a.print_changed and a.print_changed != "json":
            self._say_no_gain(recorder.original, module, context)
        if trace is not None and a.opt_bisect_limit is not None:
            self.talk.say(limit_line(context, trace.last))
        if a.remarks:
            remarks = [*passed_remarks(context), *(context.remarks or ())]
            lines = remark_lines(remarks, a.remarks, self.talk.paint)
            self.talk.report("remarks", lines, remark_data(remarks, a.remarks))
        for warning in context.warnings:
            self.talk.warn(warning)

    def _say_no_gain(self, before: Module, after: Module, context: PassContext) -> None:
        """Report why the passes made nothing faster."""
        figures = measure_of(before), measure_of(after)
        if not is_gain(*figures):
            reason = no_gain_text(*figures, context.remarks or ()) or heaviest_text(before, after)
            self.talk.say(reason)

    def _trace(self, context: PassContext) -> RewriteTrace | None:
        a = self.arguments
        if a.trace_rewrites is None and a.opt_bisect_limit is None:
            return None
        quiet = a.trace_rewrites is None
        return RewriteTrace(self.talk, context, a.trace_rewrites or (), quiet)

    def _reports(self, module: Module, context: PassContext) -> list[PipelineObserver]:
        """Return the observers for the options; some also have work to do at the end."""
        a = self.arguments
        found: list[PipelineObserver] = []
        if a.print_changed or a.print_after:
            changed = a.print_changed or ""
            report = PassReport(self.talk, context, changed, a.print_after, text_options(a))
            self._finishers.append(report)
            found.append(report)
        if a.dump_dir:
            pipeline = str(driver.pipeline_of(self.options))
            options = {name: getattr(a, name) for name in RESUMED}
            dump = DumpDir(self.talk, a.dump_dir, context, pipeline, options)
            dump.begin(module)
            self._finishers.append(dump)
            found.append(dump)
        if a.time_passes:
            self.times = PassTimes()
            found.append(self.times)
        return found

    def _checks(self, original: Module) -> list[PipelineObserver]:
        a = self.arguments
        if not (a.verify_each or a.check_each):
            return []
        from hloc.cli.watching.check_each import CheckEach, VerifyEach

        found: list[PipelineObserver] = [VerifyEach()]
        if a.check_each:
            check = CheckEach(self.talk, original, a.random or 0, not a.fast_math)
            self._finishers.append(check)
            found.append(check)
        return found

    @contextmanager
    def _explained(self, recorder: Recorder) -> Iterator[None]:
        """Write a reproducer if a pass fails, and report where Ctrl-C interrupted."""
        try:
            yield
        except KeyboardInterrupt:
            if recorder.what is not None:
                done = plural(recorder.context.rewrites, "rewrite")
                self.talk.say(f"interrupted in pass {text_of(recorder.what)} after {done}")
            raise
        except HloError as fault:
            if recorder.what is None:
                raise
            note = f"in pass {text_of(recorder.what)}; `hloc bisect` finds a small module for it"
            found = [replace(d, notes=(*d.notes, note)) for d in fault.diagnostics]
            raise type(fault)(found) from fault
        except InternalError as fault:
            if recorder.what is None:
                raise
            raise InternalError(f"{fault}\n{self._reproduced(recorder)}") from fault

    def _reproduced(self, recorder: Recorder) -> str:
        a = self.arguments
        checks = ["--verify-each"] * a.verify_each + ["--check-each"] * a.check_each
        try:
            path = write_reproducer(recorder, self.options, a.repro_dir, checks, a.plugin)
        except (HloError, InternalError, AssertionError) as fault:
            return f"no reproducer: {fault}"
        return f"reproducer: {path}\nrun it again with: {shlex.join(['hloc', path])}"
