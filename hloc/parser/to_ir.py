"""Syntax tree to module: the header, computations in text order, the entry.

One pass: everything is defined before its use, so nothing is patched later.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hloc.errors import HloError
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.names import KEYWORDS, is_other_token
from hloc.parser.ast import (
    BrokenAst,
    BrokenComputationAst,
    ComputationAst,
    InstructionAst,
    ModuleAst,
    Piece,
)
from hloc.parser.header import module_config, stack_frames
from hloc.parser.instruction_to_ir import InstructionReader
from hloc.parser.reader import Scope, legal_name
from hloc.shapes import Shape, TupleShape, compatible


class ModuleReader(InstructionReader):
    """Builds the module of one source."""

    # ---- module

    def read(self, tree: ModuleAst) -> Module:
        """Build and return the module of `tree`."""
        if tree.single is not None:
            return self._single(tree.single)
        faults: list[HloError] = []
        self.module.config = module_config(tree, self.attributes, faults)
        try:
            self.module.stack_frames = stack_frames(self.source, tree.tables)
        except HloError as error:
            faults.append(error)
        for found in faults:
            self.diagnostics.extend(found.diagnostics)
        self._check_bare_name(tree.name or "", tree.at)
        entry, entry_at = self._all_computations(tree)
        if entry is not None:
            self.module.set_entry(entry)
            self.module.name = tree.name.lstrip("%") if tree.name else f"module_{entry.name}"
            self._check_aliases(entry_at)
        return self.module

    def sound_instructions(self) -> Iterator[Instruction]:
        """Yield all instructions that could be read, those of broken computations included."""
        for computation in self.module.computations:
            yield from computation.instructions
        yield from self._of_broken

    def _all_computations(self, tree: ModuleAst) -> tuple[Computation | None, int]:
        """Read all computations; return the entry, None if it has faults, and its position.

        The last computation is the entry if none is marked.
        """
        entry: Computation | None = None
        last: Computation | None = None
        entry_at = -1
        for computation_ast in tree.computations:
            if isinstance(computation_ast, BrokenComputationAst):
                self._define_computation(computation_ast.name.lstrip("%"), computation_ast.at, None)
                continue
            last = self._computation(computation_ast)
            if computation_ast.is_entry:
                if entry_at >= 0:
                    self._report(
                        computation_ast.at, len(computation_ast.name),
                        "a module has only one ENTRY", "HLOC0110",
                        f"the first is at {self._place(entry_at)}",
                    )  # fmt: skip
                    continue
                entry, entry_at = last, computation_ast.at
        if not tree.computations and not self.diagnostics:
            self._report(
                len(self.source.text.rstrip()) - 1, 1, "the module has no computation", "HLOC0111"
            )
        if entry_at < 0 and tree.computations:
            entry, entry_at = last, tree.computations[-1].at
        return entry, entry_at

    def _check_aliases(self, at: int) -> None:
        shape = self.module.entry.root.shape
        for alias in self.module.config.aliases:
            inner: Shape | None = shape
            for i in alias.output_index:
                inner = (
                    inner.elements[i]
                    if isinstance(inner, TupleShape) and 0 <= i < len(inner.elements)
                    else None
                )
            if inner is None:
                index = "{" + ",".join(map(str, alias.output_index)) + "}"
                self._report(
                    at, 1, f"input_output_alias: the entry's result {shape} has no index {index}",
                    "HLOC0213",
                )  # fmt: skip

    def _single(self, inst: InstructionAst) -> Module:
        self.module.name = "_"
        scope = Scope(self._new_computation("_"), makes_parameters=True)
        self._instruction(inst, scope)
        if scope.order:
            scope.roots = [scope.order[-1]]
            if self._finish(scope, None) is not None:
                self.module.set_entry(scope.computation)
        self.module.config = replace(self.module.config, is_scheduled=True)
        return self.module

    # ---- computations

    def _check_bare_name(self, name: str, at: int) -> None:
        """Report a name without `%` that is another token."""
        if is_other_token(name):
            kind = "a keyword" if name in KEYWORDS else "an element type"
            message = f"{name} is {kind}, not a name; write %{name}"
            self._report(at, len(name), message, "HLOC0109")

    def _define_computation(self, name: str, at: int, computation: Computation | None) -> None:
        if not name:
            return
        if name in self._computations:
            if computation is not None:
                self._report(
                    at, len(name), f"computation already exists: {name}", "HLOC0108",
                    f"computation previously defined at {self._place(self._places[name])}",
                )  # fmt: skip
            return
        self._computations[name] = computation
        self._places[name] = at

    def _computation(self, tree: ComputationAst) -> Computation | None:
        """Read one computation, and define its name; None if it has faults."""
        name = tree.name.removeprefix("%")
        thread = "main"
        for attribute in tree.attributes:
            at = tree.attributes_at + attribute.value_at
            if attribute.key != "execution_thread":
                self._report(
                    tree.attributes_at + attribute.at, len(attribute.key),
                    f"unexpected attribute {attribute.key} of a computation", "HLOC0202",
                )  # fmt: skip
                continue
            thread = attribute.value[1:-1]
            if attribute.value[0] not in "\"'":
                self._report(at, 1, "execution_thread takes a string", "HLOC0205")
        self._check_bare_name(tree.name, tree.at)
        scope = Scope(self._new_computation(legal_name(name), thread))
        self._check_parameters(tree.parameters)
        found = self._body(tree.instructions, tree.at, len(tree.name), scope, tree.result)
        self._define_computation(name, tree.at, found)
        return found

    def _body(
        self,
        instructions: tuple[InstructionAst | BrokenAst, ...],
        at: int,
        width: int,
        scope: Scope,
        result: Piece | None = None,
    ) -> Computation | None:
        """Read the instructions of a computation; `at` and `width` are those of its name."""
        if not instructions:
            self._report(at, max(width, 1), "a computation may not be empty", "HLOC0111")
            return None
        for inst in instructions:
            if isinstance(inst, BrokenAst):
                scope.complete = False
                if inst.name:
                    scope.define(inst.name.removeprefix("%"), inst.at, None)
                continue
            self._instruction(inst, scope)
        return self._finish(scope, result)

    def _finish(self, scope: Scope, result: Piece | None) -> Computation | None:
        """Name the instructions, set the root, check the computation as a whole."""
        computation = scope.computation
        if not scope.complete:
            self._of_broken += scope.order
            return None
        root = scope.roots[0] if scope.roots else scope.order[-1]
        if root is None or not self._parameters_in_order(scope):
            return None
        unique = self.module.instruction_names.unique
        for inst in scope.order:
            inst.name = unique(inst.name)
        computation.name = self.module.computation_names.unique(computation.name)
        computation.set_root(root)
        self.module.adopt_computation(computation)
        if result is not None:
            self._check_result(computation, result)
        return computation

    def _check_parameters(self, parameters: Piece | None) -> None:
        """Report a malformed parameter list; like XLA, do not compare it with the parameters."""
        try:
            if parameters is not None:
                self.values.read("parameters", parameters.text, parameters.at, "HLOC0201")
        except HloError as error:
            self.diagnostics.extend(error.diagnostics)

    def _check_result(self, computation: Computation, result: Piece) -> None:
        try:
            shape = self.values.shape(result.text, result.at)
        except HloError as error:
            self.diagnostics.extend(error.diagnostics)
            return
        root = computation.root
        if not compatible(shape, root.shape):
            self._report(
                result.at, len(result.text),
                f"computation {computation.name} is written with result "
                f"{shape.text_without_layout}, but its root {root.name} has shape "
                f"{root.shape.text_without_layout}", "HLOC0208",
            )  # fmt: skip

    def _parameters_in_order(self, scope: Scope) -> bool:
        """Report duplicate and missing parameter numbers; True if there are none."""
        parameters: dict[int, Instruction] = {}
        sound = True
        for inst in scope.order:
            if inst.opcode.name != "parameter":
                continue
            number = inst.attributes.number
            at = inst.span.start if inst.span else 0
            if number in parameters:
                first = parameters[number].span
                note = f"the first is at {first.place()}" if first else ""
                self._report(
                    at, len(inst.name), f"duplicate parameter number {number}", "HLOC0212", note
                )
                sound = False
            parameters.setdefault(number, inst)
        for number in range(len(parameters)):
            if number not in parameters and sound:
                inst = max(parameters.values(), key=lambda inst: int(inst.attributes.number))
                self._report(
                    inst.span.start if inst.span else 0, len(inst.name),
                    f"computation {scope.computation.name} has {len(parameters)} parameters, but "
                    f"none with number {number}", "HLOC0212",
                )  # fmt: skip
                sound = False
        return sound
