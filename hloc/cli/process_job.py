"""One command in several processes: `mpiexec -n 8 hloc run FILE`.

All processes read the same file and inputs; each runs its own devices. Process 0 writes the output.
"""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hloc.cli.talk import Talk
from hloc.dtypes import Array
from hloc.errors import HloError, UnsupportedError
from hloc.ir.device_groups import module_devices
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.options import CompileOptions
from hloc.report.device_task import DeviceTask
from hloc.report.exits import Exit
from hloc.report.run_report import Timing, run_executable
from hloc.runtime.communicator.mpi.launch import launched_processes

if TYPE_CHECKING:
    from hloc.runtime.communicator.mpi.communicator import MpiEngine


_TURN_SECONDS = 0.3
"""Seconds that the other processes wait for process 0 to report its error first."""


@dataclass(frozen=True, slots=True)
class ProcessJob:
    """The part of this process in the job."""

    engine: MpiEngine

    @property
    def speaks(self) -> bool:
        """True in the process that writes the results."""
        return self.engine.is_first

    def devices(self, module: Module, given: int) -> int:
        """Return the number of devices that run `module`: `given`, or the number it declares.

        Raises:
            HloError: it runs on one.
        """
        count = given or module_devices(module).total
        if count == 1:
            raise HloError(
                f"module {module.name} runs on one device",
                notes=("start it without mpiexec, or say --devices=N if it has parts",),
            )
        return count

    def options(self, options: CompileOptions) -> CompileOptions:
        """Return options by which the processes on one machine share its cores."""
        from hloc.codegen.llvm.target import available_cores  # loads LLVM: only when a module runs

        if options.threads or available_cores() < (os.cpu_count() or 1):
            return options  # the user or the launcher has assigned the cores
        return replace(options, threads=max(1, available_cores() // self.engine.neighbours))

    def agree(self, module: Module, options: CompileOptions, arguments: Namespace) -> None:
        """Check that all processes run the same module and options.

        Raises:
            HloError: they do not.
        """
        words = (arguments.repeat, arguments.random, arguments.inputs, arguments.per_device)
        self.engine.agree(repr((str(module), options, words, arguments.compare_with)))

    def run(
        self, task: DeviceTask, executable: Any, inputs: Sequence[Array], repeat: int | None
    ) -> tuple[list[Array], Timing]:
        """Run the devices of this process; return all results in the process that shows them.

        Raises:
            UnsupportedError: the program is not partitioned, or its target has no collectives.
            RunFailed: the program failed.
        """
        if not task.signature.is_per_device or not hasattr(executable, "run_devices"):
            raise UnsupportedError("over MPI run programs that are partitioned, on the CPU")
        executable.use_engine(self.engine)
        own = self.engine.devices(task.devices)
        parts = [[array[device] for device in own] for array in task.parts(inputs)]
        results, timing = run_executable(lambda: executable.run_devices(parts), (), repeat or 1)
        found = self.engine.gathered(results)
        if found is None:
            return [], timing
        leaves = [[part for own in found for part in own[j]] for j in range(len(results))]
        return task.outputs(leaves), timing


def process_job(arguments: Namespace) -> ProcessJob | None:
    """Return this process's part in the job, None if it runs alone.

    Raises:
        HloError: mpi4py is missing.
    """
    launched = launched_processes(os.environ) > 1
    is_alone = arguments.engine in ("local", "nccl") or not (launched or arguments.engine)
    if not arguments.run or is_alone:
        return None
    from hloc.runtime.communicator.mpi.call_lists import ExchangeOptions
    from hloc.runtime.communicator.mpi.communicator import MpiEngine

    options = ExchangeOptions(fast=arguments.fast_collectives)
    return ProcessJob(MpiEngine(options, arguments.collective_timeout))


def together(job: ProcessJob, talk: Talk, action: Callable[[Talk], int]) -> int:
    """Run `action` in every process; if it fails in one, end the job."""
    code: int = Exit.INTERNAL
    try:
        code = action(talk if job.speaks else _reserved(talk))
    except KeyboardInterrupt:
        sys.stderr.write("hloc: interrupted\n")
        code = Exit.INTERRUPTED
    finally:
        if code != Exit.OK:
            job.engine.end_job("", code)
    return code


def _reserved(talk: Talk) -> Talk:
    """Return a talk that reports errors only, after those of process 0."""

    @contextmanager
    def later() -> Iterator[None]:
        time.sleep(_TURN_SECONDS)
        yield

    nowhere = open(os.devnull, "w")  # noqa: SIM115 - open until the end
    return Talk(True, talk.color, nowhere, talk.err, later)
