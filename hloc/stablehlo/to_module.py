"""Conversion of StableHLO text to a module: functions become computations, @main the entry."""

from __future__ import annotations

from hloc.errors import HloError
from hloc.ir.attributes import Alias, ModuleConfig
from hloc.ir.module import Module
from hloc.parser.reader import legal_name
from hloc.parser.values import ValueReader
from hloc.source import SourceFile, Span
from hloc.stablehlo.block_builder import BlockBuilder, Context
from hloc.stablehlo.locations import Locations
from hloc.stablehlo.names import identifier
from hloc.stablehlo.reader import read_tree
from hloc.stablehlo.special_operations import SPECIAL
from hloc.stablehlo.tree import Function, ModuleTree, Operation, Region, Symbol


def module_from_stablehlo(source: SourceFile) -> Module:
    """Return the module that StableHLO text describes, not yet verified.

    Raises:
        HloError: an error in the text, with its place.
        UnsupportedError: an operation without a counterpart in HLO.
    """
    return _ModuleBuilder(source).build()


class _ModuleBuilder:
    """Converts functions, callees before callers."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.tree: ModuleTree = read_tree(source)
        module = Module(identifier(self.tree.name) or "module", source=source)
        locations = Locations(self.tree.locations)
        self.context = Context(source, module, locations, SPECIAL, ValueReader(source))

    def build(self) -> Module:
        module = self.context.module
        functions = self.tree.functions
        main = functions.get("main") or next(iter(functions.values()))
        for function in self._order(main):
            name = identifier(function.name) or "function"
            computation = module.add_computation(legal_name(name))
            BlockBuilder(self.context, computation).function(function)
            self.context.computations[function.name] = computation
        module.set_entry(self.context.computations[main.name])
        module.set_config(self._config(main))
        return module

    def _order(self, main: Function) -> list[Function]:
        """Return `main` and what it calls, callees first."""
        done: dict[str, None] = {}
        open_: dict[str, None] = {}
        stack = [(main, False)]
        while stack:
            function, left = stack.pop()
            if left:
                del open_[function.name]
                done[function.name] = None
                continue
            if function.name in done:
                continue
            open_[function.name] = None
            stack.append((function, True))
            for operation, callee in _calls(function.body):
                span = Span(self.source, operation.start, operation.end)
                found = self.tree.functions.get(callee)
                if found is None:
                    raise HloError(f"there is no function @{callee}", span, (), "HLOC0402")
                if callee in open_:
                    raise HloError(f"function @{callee} calls itself", span, (), "HLOC0402")
                stack.append((found, False))
        return [self.tree.functions[name] for name in done]

    def _config(self, main: Function) -> ModuleConfig:
        attributes = self.tree.attributes
        single = len(main.result_types) == 1
        aliases = []
        donors = []
        for number, record in enumerate(main.parameter_attributes):
            output = record.get("tf.aliasing_output")
            if isinstance(output, int):
                aliases.append(Alias(() if single else (output,), number, ()))
            elif record.get("jax.buffer_donor") is True:
                donors.append((number, ()))
        return ModuleConfig(
            aliases=tuple(aliases),
            buffer_donors=tuple(donors),
            replica_count=int(attributes.get("mhlo.num_replicas", 1)),
            num_partitions=int(attributes.get("mhlo.num_partitions", 1)),
        )


def _calls(region: Region) -> list[tuple[Operation, str]]:
    """Return the functions that a region calls, nested regions included."""
    found = []
    for operation in region.operations:
        for name in ("callee", "decomposition"):
            symbol = operation.attributes.get(name)
            if isinstance(symbol, Symbol):
                found.append((operation, symbol.name))
        for symbol in operation.attributes.get("called_computations", ()):
            found.append((operation, symbol.name))
        for inner in operation.regions:
            found += _calls(inner)
    return found
