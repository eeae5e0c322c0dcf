"""The ways of running a module that must agree with the evaluator, and what a fault is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import hloc
from fuzz.agreement import disagreement
from fuzz.choices import Seeded
from fuzz.draft import Array
from hloc.cli.compare_with_xla import results_of_xla
from hloc.driver import optimise
from hloc.errors import HloError, UnsupportedError
from hloc.ir.clone import clone_module
from hloc.ir.module import Module
from hloc.opt.registry import PASSES
from hloc.options import CompileOptions
from tests.guard_pages import compile_guarded, run_guarded

Run = Callable[[Module, Sequence[Array]], Sequence[Any]]


@dataclass(frozen=True)
class Way:
    """One way of running.

    Attributes:
        run: gives the results of a module.
        may_refuse: an `UnsupportedError` is an answer.
    """

    name: str
    run: Run
    may_refuse: bool = False


@dataclass(frozen=True)
class Fault:
    """What went wrong: `kind` is answer, error, refusal, or how a process ended.

    Attributes:
        message: the first line that says what.
        place: file and line of an exception's origin.
    """

    way: str
    kind: str
    message: str
    place: str = ""

    @classmethod
    def of(cls, way: str, error: Exception) -> Fault:
        """Return the fault that an exception is."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        code = trace.tb_frame.f_code if trace is not None else None
        place = f"{code.co_filename.rpartition('/hloc/')[2]} {code.co_name}" if code else ""
        lines = str(error).splitlines() or [""]
        if isinstance(error, HloError):
            return cls(way, "refusal", lines[0], place)
        return cls(way, "error", f"{type(error).__name__}: {lines[0]}", place)

    @property
    def signature(self) -> str:
        """Words that stay while a module shrinks: faults with one signature count as one."""
        if self.kind == "answer":
            return f"{self.way}: answer"
        words = re.sub(r"'[^']*'|[\w.-]*\d[\w.-]*|%\S+", "#", self.message)[:80]
        return f"{self.way}: {self.kind}: {self.place}: {words}"

    def __str__(self) -> str:
        return f"{self.way}: {self.kind}: {self.message}" + (f" ({self.place})" * bool(self.place))


def compiled(module: Module, arrays: Sequence[Array], options: dict[str, Any]) -> Sequence[Any]:
    """Compile and run with options of `hloc.compile`."""
    found: Sequence[Any] = hloc.compile(module, **options)(*arrays)
    return found


def _way(name: str, may_refuse: bool = False, **options: Any) -> Way:
    return Way(name, partial(compiled, options=options), may_refuse)


LEVELS = tuple(_way(f"-O{level}", opt_level=level, threads=1) for level in range(4))
THREADS = (_way("-O2 --threads=2", opt_level=2, threads=2),)
PTX = tuple(
    _way(f"-O{level} --target=nvptx64 --simulate=ptx", True,
         opt_level=level, target="nvptx64", simulate="ptx") for level in (0, 2)
)  # fmt: skip
HOST = (_way("-O2 --target=nvptx64 --simulate=host", True, opt_level=2, target="nvptx64",
             simulate="host"),)  # fmt: skip

NOT_ALONE = frozenset({"spmd-partitioner", "sharding-propagation"})
"""Passes that are for modules of several devices."""


def random_passes(seed: int) -> Way:
    """Return a way with some passes in any order, each of which must leave the answer as it is."""
    choices = Seeded(seed)
    names = choices.random.choices(sorted(set(PASSES) - NOT_ALONE), k=choices.integer(1, 10))
    return passes_way(",".join(names))


def passes_way(passes: str) -> Way:
    """Return the way that runs `passes` in place of a level's pipeline, verified after each."""
    return _way(f"--passes={passes}", passes=passes, threads=1, verify_each=True)


def by_xla(module: Module, arrays: Sequence[Array]) -> Sequence[Any]:
    """Run XLA on this machine's CPU; what it refuses is nothing that hloc must match."""
    try:
        return results_of_xla(module, arrays)
    except Exception as error:
        raise UnsupportedError(f"XLA: {error}") from None


XLA = (Way("xla", by_xla, may_refuse=True),)


def between_guard_pages(
    module: Module, arrays: Sequence[Array], *, level: int, at_end: bool
) -> Sequence[Any]:
    """Run with every array beside memory that no code may touch; a fault ends the process."""
    options = CompileOptions(opt_level=level)
    module = clone_module(module)
    optimise(module, options)
    compiled = compile_guarded(module, options, at_end=at_end)
    if compiled.boundary.parameters or compiled.boundary.results:
        raise UnsupportedError("guarded arrays have no dynamic sizes")
    return run_guarded(compiled, arrays, at_end=at_end)


GUARDED = tuple(
    Way(
        f"-O{level} guarded {'after' if at_end else 'before'} arrays",
        partial(between_guard_pages, level=level, at_end=at_end),
        may_refuse=True,
    )
    for level in (0, 2)
    for at_end in (True, False)
)


def ways_of() -> dict[str, Callable[[int], tuple[Way, ...]]]:
    """Return, by kind, the ways in which the program of a seed runs."""
    return {
        "levels": lambda seed: LEVELS + THREADS,
        "passes": lambda seed: (random_passes(seed),),
        "host": lambda seed: HOST,
        "ptx": lambda seed: PTX,
        "guarded": lambda seed: GUARDED,
        "xla": lambda seed: XLA,
    }


def way_named(name: str) -> Way:
    """Return the way of a fault again."""
    if name.startswith("--passes="):
        return passes_way(name.removeprefix("--passes="))
    return next(way for way in (*LEVELS, *THREADS, *PTX, *HOST, *GUARDED, *XLA) if way.name == name)


@dataclass(frozen=True)
class Wanted:
    """The evaluator's answer, or its fault."""

    results: list[Array] = field(default_factory=list)
    fault: Fault | None = None


def wanted(module: Module, arrays: Sequence[Array]) -> Wanted:
    """Run the evaluator."""
    try:
        return Wanted(hloc.evaluate(module, *arrays))
    except Exception as error:
        return Wanted(fault=Fault.of("evaluator", error))


def fault_of(
    way: Way, module: Module, arrays: Sequence[Array], want: Sequence[Array], hows: Sequence[str]
) -> Fault | None:
    """Run one way and compare; None if all is well."""
    try:
        found = [np.asarray(array) for array in way.run(module, arrays)]
    except UnsupportedError as error:
        return None if way.may_refuse else Fault.of(way.name, error)
    except Exception as error:
        return Fault.of(way.name, error)
    if len(found) != len(want):
        return Fault(way.name, "answer", f"{len(found)} results, not {len(want)}")
    for number, (got, w, how) in enumerate(zip(found, want, hows, strict=True)):
        difference = disagreement(got, w, how)
        if difference is not None:
            return Fault(way.name, "answer", f"output {number}: {difference}")
    return None
