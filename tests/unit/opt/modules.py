"""Small modules for tests of the machinery."""

from hloc.ir.module import Module
from hloc.ops.builder import Builder
from hloc.shapes import array_shape


def negations(count: int) -> Module:
    """Return a module that negates `f32[4]` `count` times."""
    module = Module("negations")
    entry = module.add_computation("entry")
    b = Builder(entry)
    value = b.parameter(0, array_shape("f32", 4))
    for _ in range(count):
        value = b.negate(value)
    entry.set_root(value)
    module.set_entry(entry)
    module.log.recording = True
    return module
