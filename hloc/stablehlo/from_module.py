"""A module as StableHLO text.

There are no tuples: an instruction with a tuple shape has several results.
Called computations become functions; those of reductions, loops and branches become regions;
fusions are written as their instructions.
"""

from __future__ import annotations

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.shapes import TupleShape, leaves
from hloc.stablehlo.attribute_text import string_text
from hloc.stablehlo.block_writer import BlockWriter, Functions, Names, listed, symbol, types_of
from hloc.stablehlo.special_instructions import SPECIAL


def stablehlo_text(module: Module) -> str:
    """Return `module` as StableHLO text.

    Raises:
        UnsupportedError: it has an instruction that StableHLO cannot express.
    """
    return _ModuleWriter(module).write()


class _ModuleWriter:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.functions = Functions()

    def write(self) -> str:
        module = self.module
        config = module.config
        header = (
            f"module @{symbol(module.name)} attributes {{mhlo.num_partitions = "
            f"{config.num_partitions} : i32, mhlo.num_replicas = {config.replica_count} : i32}} {{"
        )
        lines = [header, *self._function(module.entry, "main", "public")]
        pending = self.functions.pending
        while pending:
            computation = pending.pop(0)
            lines += self._function(computation, self.functions.called(computation), "private")
        return "\n".join([*lines, "}"]) + "\n"

    def _function(self, computation: Computation, name: str, visibility: str) -> list[str]:
        body = BlockWriter(self.functions, SPECIAL, Names(), indent=2)
        parameters: list[str] = []
        for parameter in computation.parameters:
            names = []
            for index, text in enumerate(types_of(parameter.shape)):
                names.append(f"%arg{len(parameters)}")
                extra = self._parameter_attributes(parameter, index) if name == "main" else ""
                parameters.append(f"{names[-1]}: {text}{extra}")
            body.values[parameter] = names
        results = body.computation(computation)
        types = types_of(computation.root.shape)
        body.line(f"return {', '.join(results)} : {', '.join(types)}" if results else "return")
        arrow = f" -> {listed(types)}" if types else ""
        head = f"  func.func {visibility} @{name}({', '.join(parameters)}){arrow} {{"
        return [head, *body.lines, "  }"]

    def _parameter_attributes(self, parameter: Instruction, index: int) -> str:
        """Return the dictionary after a parameter: its alias, donation and sharding."""
        config = self.module.config
        number = parameter.attributes.number
        position = (index,) if isinstance(parameter.shape, TupleShape) else ()
        outputs = {path: at for at, (path, _) in enumerate(leaves(self.module.entry.root.shape))}
        parts = [
            f"tf.aliasing_output = {outputs[alias.output_index]} : i32"
            for alias in config.aliases
            if alias.parameter == number and alias.parameter_index == position
        ]
        if (number, position) in config.buffer_donors:
            parts.append("jax.buffer_donor = true")
        if parameter.common.sharding is not None and not isinstance(parameter.shape, TupleShape):
            parts.append(f"mhlo.sharding = {string_text(str(parameter.common.sharding))}")
        return f" {{{', '.join(sorted(parts))}}}" if parts else ""
