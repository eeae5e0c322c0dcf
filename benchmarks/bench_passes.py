"""Time of all passes against the number of instructions; see `make bench-passes`.

    python benchmarks/bench_passes.py [-O LEVEL] [--most N]

The entry of one example stands in a module once, twice, 4 times and so on, on parameters of its
own, so that no instruction equals another. `layer-outliner` is left out: it would find the copies,
and the other passes would see one. Good passes take the same time for each instruction: the ratio
per doubling is 2.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hloc import driver
from hloc.collection import collection_paused
from hloc.ir.clone import clone_module
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import opcode_row
from hloc.ir.traversal import post_order
from hloc.opt.pass_base import PassRun
from hloc.opt.pipeline import PipelineObserver
from hloc.options import CompileOptions
from hloc.shapes import TupleShape

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "gpt_block.hlo"


@dataclass(frozen=True, slots=True)
class Measured:
    """Processor time of all passes over `instructions`, and seconds by name of a pass."""

    instructions: int
    seconds: float
    by_pass: dict[str, float]

    @property
    def microseconds(self) -> float:
        """Return the time per instruction."""
        return self.seconds / self.instructions * 1e6


def repeated(module: Module, times: int) -> Module:
    """Return a module whose entry does the work of the entry of `module` `times` times.

    Each copy has parameters of its own; the result is a tuple of all results.
    """
    copy = clone_module(module)
    entry = copy.entry
    copy.set_config(replace(copy.config, entry_layout=None))
    order, parameters, root = post_order(entry), entry.parameters, entry.root
    roots = [root]
    for number in range(1, times):
        made: dict[Instruction, Instruction] = {}
        for inst in order:
            attributes = inst.attributes
            if inst.is_a("parameter"):
                position = number * len(parameters) + attributes.number
                attributes = replace(attributes, number=position)
            made[inst] = entry.add(
                inst.opcode,
                inst.shape,
                [made[operand] for operand in inst.operands],
                attributes,
                inst.called,
                common=inst.common,
            )
        roots.append(made[root])
    entry.set_root(entry.add(opcode_row("tuple"), TupleShape(tuple(r.shape for r in roots)), roots))
    return copy


class _Clock(PipelineObserver):
    """Adds up the time of each pass."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def on_step_end(self, module: Module, run: PassRun) -> None:
        name = run.what.name
        self.seconds[name] = self.seconds.get(name, 0.0) + run.wall_ms / 1e3


def measure(
    module: Module, opt_level: int = 2, disabled: tuple[str, ...] = ("layer-outliner",)
) -> Measured:
    """Run all passes but `disabled` over a copy of `module`; the time is that of the processor.

    Python's collector is paused and changes are not recorded, as where a text is compiled.
    """
    copy, watch = clone_module(module), _Clock()
    copy.log.recording = False
    options = CompileOptions(opt_level=opt_level, disabled_passes=disabled)
    with collection_paused():
        started = time.process_time()
        driver.optimise(copy, options, [watch])
        seconds = time.process_time() - started
    return Measured(module.instruction_count, seconds, watch.seconds)


def measurements(module: Module, most: int, opt_level: int) -> Iterator[Measured]:
    """Yield the figures of ever larger modules, up to `most` instructions."""
    times = 1
    while True:
        larger = repeated(module, times)
        if larger.instruction_count > most:
            return
        yield min((measure(larger, opt_level) for _ in range(2)), key=lambda m: m.seconds)
        times *= 2


def main() -> None:
    """Print a line per size, then the passes that took longest at the last and how they grew."""
    parser = argparse.ArgumentParser(description="time of all passes by number of instructions")
    parser.add_argument("file", nargs="?", type=Path, default=EXAMPLE)
    parser.add_argument("-O", dest="opt_level", type=int, default=2)
    parser.add_argument("--most", type=int, default=26_000, help="instructions of the largest")
    options = parser.parse_args()
    module = driver.load_module(str(options.file))
    measure(module, options.opt_level)  # passes and rules are imported when they are first needed
    before: Measured | None = None
    print(f"{'instructions':>12s} {'ms':>9s} {'us each':>8s} {'ratio':>6s}")
    last: tuple[Measured, Measured | None] | None = None
    for found in measurements(module, options.most, options.opt_level):
        ratio = f"{found.seconds / before.seconds:6.2f}" if before else f"{'-':>6s}"
        print(
            f"{found.instructions:12,d} {found.seconds * 1e3:9.0f} {found.microseconds:8.0f} "
            f"{ratio}",
            flush=True,
        )
        last, before = (found, before), found
    if last is not None:
        print("\n".join(_slowest(*last)))


def _slowest(found: Measured, before: Measured | None) -> Iterator[str]:
    yield f"{'pass':36s} {'ms':>7s} {'ratio':>6s}"
    for name in sorted(found.by_pass, key=lambda n: -found.by_pass[n])[:12]:
        earlier = before.by_pass.get(name, 0.0) if before else 0.0
        ratio = f"{found.by_pass[name] / earlier:6.2f}" if earlier else f"{'-':>6s}"
        yield f"{name:36s} {found.by_pass[name] * 1e3:7.0f} {ratio}"


if __name__ == "__main__":
    main()
