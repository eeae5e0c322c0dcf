"""Runs checks of many seeds in child processes, and gathers findings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from fuzz.damage import CHECKS
from fuzz.isolation import Limits, Send, isolated
from fuzz.program import Program, random_program
from fuzz.ways import XLA, Fault, Way, fault_of, wanted, ways_of
from hloc.ir.verifier import verify


@dataclass(frozen=True)
class Finding:
    """A seed that showed a fault."""

    kind: str
    seed: int
    fault: Fault


@dataclass(frozen=True)
class Imported:
    """Python modules that a child imported late; the parent imports them for the next children."""

    names: tuple[str, ...]


LATE = ("hloc.analysis.", "hloc.codegen.", "hloc.opt.", "hloc.ptx.", "hloc.runtime.")
"""What a parent may import: nothing of it starts a thread, which a fork would lose."""


Check = Callable[[int, Send], None]
"""`check(seed, send)` sends (seed, way) before each step, and findings."""


@dataclass(frozen=True)
class Kind:
    """A kind of input: what checks a seed, how many seeds share a process, and with which limits.

    Attributes:
        batch: about a second of work or more, since a process costs some 20 ms.
    """

    check: Check
    batch: int
    limits: Limits


def module_kind(name: str, ways: Callable[[int], tuple[Way, ...]]) -> Kind:
    """Return the kind of input that runs random modules in `ways(seed)`."""

    def check(seed: int, send: Send) -> None:
        send((seed, "generator"))
        try:
            program = random_program(seed)
            verify(program.module)
        except Exception as error:
            send(Finding(name, seed, Fault.of("generator", error)))
            return
        for fault in faults_of(program, ways(seed), send):
            send(Finding(name, seed, fault))

    return Kind(check, 40, Limits())


def damage_kind(name: str) -> Kind:
    """Return the kind of input that reads damaged texts or protos."""

    def check(seed: int, send: Send) -> None:
        send((seed, name))
        try:
            CHECKS[name](seed)
        except Exception as error:
            send(Finding(name, seed, Fault.of(name, error)))

    return Kind(check, 2000, Limits(seconds=20, memory_bytes=3 << 30))


KINDS: dict[str, Kind] = {
    **{name: module_kind(name, ways) for name, ways in ways_of().items()},
    **{name: damage_kind(name) for name in CHECKS},
}


def faults_of(program: Program, ways: tuple[Way, ...], send: Send) -> Iterator[Fault]:
    """Yield what goes wrong with a program."""
    want = wanted(program.module, program.arguments)
    if want.fault is not None:
        yield want.fault
        return
    for way in ways:
        send((program.seed, way.name))
        hows = ("table",) * len(program.hows) if way in XLA else program.hows
        fault = fault_of(way, program.module, program.arguments, want.results, hows)
        if fault is not None:
            yield fault


def findings(name: str, seeds: range) -> Iterator[Finding | int]:
    """Yield findings in inputs of the kind `name`, and after each batch the next seed."""
    kind, at = KINDS[name], seeds.start
    while at < seeds.stop:
        batch = range(at, min(at + kind.batch, seeds.stop))

        def work(send: Send, batch: range = batch) -> None:
            known = set(sys.modules)
            for seed in batch:
                kind.check(seed, send)
            send(Imported(tuple(name for name in sys.modules if name not in known)))

        outcome = isolated(work, kind.limits)
        place: Any = (batch.start, "start")
        for value in outcome.sent:
            if isinstance(value, Finding):
                yield value
            elif isinstance(value, Imported):
                _import_late(value.names)
            else:
                place = value
        at = batch.stop
        if outcome.ending:
            seed, way = place
            if way != XLA[0].name:  # XLA checks itself, and ends the process: not ours to answer
                yield Finding(name, seed, Fault(way, outcome.ending, "the process ended"))
            at = seed + 1
        yield at


def _import_late(names: tuple[str, ...]) -> None:
    """Import what the next child would import again: up to a second of processor time."""
    for name in names:
        if name.startswith(LATE):
            import_module(name)
