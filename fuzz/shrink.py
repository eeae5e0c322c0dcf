"""From a fault to a file: the module shrinks while the fault stays, and becomes a golden case.

Candidates get the values that the original module had: a parameter its argument, an instruction
that was cut away its result. The file says which values matter: none (the inputs of golden tests
show the fault), or those that stand in it as constants behind an `opt-barrier`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fuzz.agreement import TABLE
from fuzz.draft import Array, any_values
from fuzz.isolation import Limits, Send, isolated
from fuzz.program import Program
from fuzz.ways import Fault, fault_of, wanted, way_named
from hloc.analysis.extract import without_signature
from hloc.analysis.reduction import reduce_module
from hloc.evaluator.run import evaluate_module
from hloc.ir.clone import clone_module
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ops.builder import Builder
from hloc.shapes import ArrayShape, Shape, TupleShape, leaves
from tests.inputs import inputs_for

Values = dict[str, Array]


@dataclass(frozen=True)
class Shrunk:
    """A small module with the fault.

    Attributes:
        arguments: that show the fault; None if the inputs of golden tests do.
    """

    module: Module
    arguments: list[Array] | None


def shrink(program: Program, fault: Fault, limits: Limits, seconds: float) -> Shrunk:
    """Return the smallest module that shows a fault with the signature of `fault`."""
    values = known_values(program)
    exact = dict(zip(program.module.entry.root.operands, program.hows, strict=False))
    hows = {inst.name: how for inst, how in exact.items()}
    laxest = next((how for how in program.hows if how.startswith(TABLE)), TABLE)

    def interesting(module: Module) -> bool:
        return shows(module, arguments_of(module, values), hows, fault, limits, laxest)

    found = reduce_module(program.module, interesting, seconds=seconds).module
    if shows(found, inputs_for(found), hows, fault, limits, laxest):
        return Shrunk(found, None)
    return Shrunk(found, arguments_of(found, values))


def shows(
    module: Module,
    arrays: Sequence[Array],
    hows: dict[str, str],
    fault: Fault,
    limits: Limits,
    laxest: str = TABLE,
) -> bool:
    """Tell, in a process of its own, whether a module shows a fault with the same signature.

    A result of the middle has no rule of comparison of its own: `laxest` counts.
    """

    def work(send: Send) -> None:
        root = module.entry.root
        parts = root.operands if root.is_a("tuple") else (root,)
        want = wanted(module, arrays)
        if want.fault is not None:
            send(want.fault.signature)
            return
        rules = [hows.get(part.name, laxest) for part in parts]
        if len(rules) != len(want.results):
            rules = [laxest] * len(want.results)
        found = fault_of(way_named(fault.way), module, arrays, want.results, rules)
        send(found.signature if found is not None else "")

    outcome = isolated(work, limits)
    if outcome.ending:
        return outcome.ending == fault.kind
    return outcome.sent == [fault.signature]


def known_values(program: Program) -> Values:
    """Return the values of the parameters and of each array of the entry."""
    module = clone_module(program.module)
    module.set_config(without_signature(module.config))
    plain = [i for i in module.entry.instructions if _is_plain(i)]
    module.entry.set_root(Builder(module.entry).tuple(plain))
    try:
        arrays = evaluate_module(module, program.arguments)
    except Exception:  # the fault may be the evaluator's: arguments only
        plain, arrays = list(module.entry.parameters), list(program.arguments)
    return dict(zip((inst.name for inst in plain), arrays, strict=True))


def _is_plain(inst: Instruction) -> bool:
    shape = inst.shape
    return isinstance(shape, ArrayShape) and not shape.dtype.is_special and not shape.dynamic


def arguments_of(module: Module, values: Values) -> list[Array]:
    """Return the known value of each parameter, or values of all kinds from a fixed seed."""
    found = []
    random = np.random.default_rng(0)
    for parameter in module.entry.parameters:
        known = values.get(parameter.name.partition(".cut")[0])
        for _, shape in leaves(parameter.shape):
            if not isinstance(shape, ArrayShape) or shape.dtype.is_special:
                continue
            fits = known is not None and known.shape == shape.dims
            if known is None or not fits or known.dtype != shape.dtype.numpy:
                found.append(any_values(random, shape.dtype, shape.dims))
            else:
                found.append(known)
    return found


def with_constants(module: Module, arguments: Sequence[Array]) -> Module:
    """Return a copy with its arguments in it, where constant folding does not see them."""
    module = clone_module(module)
    module.set_config(without_signature(module.config))
    b, arrays = Builder(module.entry), iter(arguments)
    for parameter in module.entry.parameters:
        value = _constant(b, parameter.shape, arrays)
        hidden = b.instruction("opt-barrier", [value], shape=parameter.shape)
        module.entry.replace(parameter, hidden)
        module.entry.remove(parameter)
    return module


def _constant(b: Builder, shape: Shape, arrays: Iterator[Array]) -> Instruction:
    if isinstance(shape, TupleShape):
        return b.tuple([_constant(b, element, arrays) for element in shape.elements])
    assert isinstance(shape, ArrayShape)
    if shape.dtype.is_special:
        return b.instruction("after-all")
    constant = b.constant(next(arrays), shape.dtype)
    b.computation.set_shape(constant, shape)
    return constant


def golden_text(shrunk: Shrunk, seed: int, fault: Fault) -> str:
    """Return a case for tests/golden/bugs; its name is for a person to improve."""
    module = shrunk.module
    if shrunk.arguments is not None:
        module = with_constants(module, shrunk.arguments)
    text = module.to_text("default", large_constants=True)
    head = f"// CASE: seed {seed}, {fault.way}: {fault.kind}: {fault.message}"
    return f"{head[:160]}\n// RUNS\n{text.strip()}\n"


def file_finding(folder: Path, shrunk: Shrunk, seed: int, fault: Fault) -> Path:
    """Write the case and return its file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"seed-{seed}-{fault.kind.replace(' ', '-')}.hlo"
    path.write_text(golden_text(shrunk, seed, fault))
    return path
