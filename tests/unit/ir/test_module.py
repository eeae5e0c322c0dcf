"""Facts about a module are found again after every change of it, and only then."""

from collections.abc import Callable
from dataclasses import replace

import pytest

import hloc
from hloc.ir.computation import Computation
from hloc.ir.module import Module
from hloc.ir.traversal import live_computations
from hloc.ops import OPCODES
from hloc.shapes import array_shape

TEXT = """HloModule m

f {
  x = f32[2] parameter(0)
  ROOT y = f32[2] negate(x)
}

g {
  v = f32[2] parameter(0)
  ROOT w = f32[2] abs(v)
}

ENTRY e {
  p = f32[2] parameter(0)
  a = f32[2] call(p), to_apply=f
  b = f32[2] sine(a)
  ROOT r = f32[2] cosine(a)
}
"""


def _remove_dead(module: Module) -> None:
    module.entry.remove(module.entry.instructions[2])


def _remove_computation(module: Module) -> None:
    module.remove_computation(module.computations[1])


def _other_callee(module: Module) -> None:
    module.entry.set_called(module.entry.instructions[1], [module.computations[1]])


CHANGES: dict[str, Callable[[Module], object]] = {
    "add": lambda m: m.entry.add(OPCODES["tanh"], array_shape("f32", 2), [m.entry.root]),
    "remove": _remove_dead,
    "replace": lambda m: m.entry.replace(m.entry.instructions[2], m.entry.instructions[0]),
    "set_root": lambda m: m.entry.set_root(m.entry.instructions[2]),
    "set_operands": lambda m: m.entry.set_operands(m.entry.root, [m.entry.instructions[0]]),
    "set_called": _other_callee,
    "rename": lambda m: m.entry.rename(m.entry.root, "other"),
    "reorder": lambda m: m.entry.reorder(m.entry.instructions[::-1]),
    "in another computation": lambda m: m.computations[0].rename(m.computations[0].root, "other"),
    "add_computation": lambda m: m.add_computation("h"),
    "remove_computation": _remove_computation,
    "set_entry": lambda m: m.set_entry(m.computations[0]),
    "set_config": lambda m: m.set_config(replace(m.config, is_scheduled=True)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_a_new_version(change: str) -> None:
    module = hloc.parse(TEXT)
    before = module.version
    CHANGES[change](module)
    assert module.version > before


def test_facts_are_found_once_per_version() -> None:
    module, asked = hloc.parse(TEXT), []

    def count(of: Module) -> int:
        asked.append(of)
        return of.instruction_count

    assert module.derived(count) == module.derived(count) == 8
    assert asked == [module]
    _remove_dead(module)
    assert module.derived(count) == 7
    assert len(asked) == 2


def test_facts_follow_the_module() -> None:
    module = hloc.parse(TEXT)
    f, g, entry = module.computations
    assert live_computations(module) == (f, entry)
    assert module.opcodes.keys() == {"parameter", "negate", "abs", "call", "sine", "cosine"}
    _other_callee(module)
    assert live_computations(module) == (g, entry)
    _remove_dead(module)
    assert module.opcodes.keys() == {"parameter", "negate", "abs", "call", "cosine"}
    module.remove_computation(f)
    assert module.opcodes.keys() == {"parameter", "abs", "call", "cosine"}
    assert module.instruction_count == 5


def test_facts_of_a_computation_are_found_once_per_version() -> None:
    module, asked = hloc.parse(TEXT), []

    def count(of: Computation) -> int:
        asked.append(of)
        return len(of)

    entry = module.entry
    size = len(entry)
    assert entry.derived(count) == entry.derived(count) == size
    assert asked == [entry]
    _remove_dead(module)
    assert entry.derived(count) == size - 1
    assert len(asked) == 2
