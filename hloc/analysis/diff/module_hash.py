"""A canonical hash of a module: equal for modules that differ in names, ids and order only.

Each instruction is digested from its operands up, then from its users down, so that two equal
instructions with different users get different digests. Together they give the digest of a
computation. The cost is linear, and nothing recurses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from hashlib import blake2b

import numpy as np

from hloc.analysis.diff.file_diff import config_text
from hloc.ir.attribute_fields import KINDS
from hloc.ir.attributes import NO_COMMON
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.printer import backend_config_text, printed_values
from hloc.ir.traversal import live_computations, post_order, reachable_computations
from hloc.lazy_dataclass import dataclass
from hloc.literal import Literal
from hloc.shapes import BufferShape, Shape, TupleShape

VERSION = b"hloc-hash-1"
"""Part of every digest; to be increased when the digest of a module changes."""

_DIGEST_BYTES = 16
_METADATA_FIELDS = ("origin_recovery_table", "debug_attributes")
_SIZE_KINDS = ("slice", "padding", "window", "shape", "shape_list")
_SIZE_FIELDS = ("slice_sizes", "dynamic_slice_sizes", "fft_length")


@dataclass(frozen=True, slots=True)
class HashOptions:
    """What counts besides what the module computes.

    Attributes:
        layouts: layouts of results and of the entry computation.
        header: the attributes of the `HloModule` line.
        names: names of the module, its computations and instructions.
        metadata: names of operations in the user's program.
        shapes: sizes of dimensions, and attributes and array constants that depend on them;
            ranks and element types always count.
        constants: values of constants.
    """

    layouts: bool = True
    header: bool = True
    names: bool = False
    metadata: bool = False
    shapes: bool = True
    constants: bool = True


DEFAULT = HashOptions()


def module_hash(module: Module, options: HashOptions = DEFAULT) -> str:
    """Return the digest of `module`, 32 hexadecimal digits.

    The order of operands counts, even of commutative opcodes: `hloc diff` shows that difference.
    Whether two calls share a computation or have a copy each does not count, and
    constants that a dump left out, `constant({...})`, count as equal.
    """
    return _Hasher(options).module(module).hex()


@dataclass(frozen=True, slots=True)
class _Hasher:
    options: HashOptions

    def module(self, module: Module) -> bytes:
        known: dict[Computation, bytes] = {}
        for computation in reachable_computations(*module.computations):
            known[computation] = self._computation(computation, known)
        called = {known[computation] for computation in live_computations(module)}
        parts = [known[module.entry], *sorted(set(known.values()) - called)]
        if self.options.header:
            parts += (text.encode() for text in self._header(module))
        if self.options.names:
            parts.append(module.name.encode())
        return _digest(VERSION, *parts)

    def _header(self, module: Module) -> Iterator[str]:
        """Yield the fields of the header, each with its name."""
        for field in fields(module.config):
            if field.name in _METADATA_FIELDS:
                continue
            if field.name == "entry_layout" and not self.options.shapes:
                continue
            text = config_text(module, field.name, layouts=self.options.layouts)
            if field.name in ("aliases", "buffer_donors"):
                text = "".join(sorted(set(map(str, getattr(module.config, field.name)))))
            yield f"{field.name}={text}"

    def _computation(self, computation: Computation, known: dict[Computation, bytes]) -> bytes:
        """Return the digest of a computation: of all instructions, in whatever order they stand.

        Sorted digests replace the order of the text; `down` adds who uses an instruction, and as
        which operand, so that equal instructions in different roles differ.
        """
        order = post_order(computation)
        up: dict[Instruction, bytes] = {}
        for inst in order:
            up[inst] = _digest(
                self._content(inst),
                *(known[called] for called in inst.called),
                b"operands",
                *(up[operand] for operand in inst.operands),
                b"after",
                *sorted(up[before] for before in inst.control_predecessors),
            )
        down: dict[Instruction, bytes] = {}
        uses: dict[Instruction, list[bytes]] = {inst: [] for inst in order}
        for inst in reversed(order):
            root = b"root" if inst.is_root else b""
            down[inst] = _digest(up[inst], root, *sorted(uses.pop(inst)))
            for index, operand in enumerate(inst.operands):
                uses[operand].append(down[inst] + index.to_bytes(8, "little"))
        name = computation.name if self.options.names else ""
        thread = computation.execution_thread
        return _digest(thread.encode(), name.encode(), *sorted(down.values()))

    def _content(self, inst: Instruction) -> bytes:
        """Return the content of `inst` without its operands and called computations."""
        parts = [inst.opcode.name, self._shape(inst.shape)]
        for field, value in printed_values(inst):
            if self.options.shapes or not _states_sizes(field.kind, field.name):
                parts.append(f"{field.name}={KINDS[field.kind](value)}")
        parts += self._common(inst)
        content = _digest(*(part.encode() for part in parts))
        if inst.opcode.parenthesis == "literal":
            return _digest(content, *self._literal(inst.attributes.literal))
        if inst.opcode.parenthesis:
            number = getattr(inst.attributes, inst.opcode.parenthesis)
            return _digest(content, str(number).encode())
        return content

    def _common(self, inst: Instruction) -> Iterator[str]:
        """Yield what may stand at any instruction, as far as the options ask for it."""
        common = inst.common
        if self.options.names:
            yield f"name={inst.name}"
        if common is NO_COMMON:
            return
        if common.sharding is not None:
            yield f"sharding={common.sharding.text(False)}"
        if common.frontend_attributes:
            yield f"frontend_attributes={sorted(common.frontend_attributes)}"
        for name in ("statistics", "parameter_replication", "result_accuracy"):
            value = getattr(common, name)
            if value:
                yield f"{name}={value}"
        if common.backend_config and self.options.shapes:
            yield f"backend_config={backend_config_text(common)}"
        if common.metadata is not None and self.options.metadata:
            yield f"op_name={common.metadata.op_name}"

    def _shape(self, shape: Shape) -> str:
        if isinstance(shape, TupleShape):
            return f"({','.join(map(self._shape, shape.elements))})"
        if isinstance(shape, BufferShape):
            return f"b({self._shape(shape.array)})"
        if not self.options.shapes:
            return f"{shape.dtype}[{shape.rank}]"
        return str(shape) if self.options.layouts else shape.text_without_layout

    def _literal(self, literal: Literal) -> Iterable[bytes]:
        """Yield the bytes of a literal; those of an array depend on its shape."""
        if not self.options.constants:
            return
        value = literal.value
        if isinstance(value, tuple):
            for part in value:
                yield from self._literal(part)
        elif value is None:
            yield b"elided"
        elif self.options.shapes or literal.is_scalar:
            yield np.ascontiguousarray(value).tobytes()


def _states_sizes(kind: str, name: str) -> bool:
    return kind in _SIZE_KINDS or name in _SIZE_FIELDS


def _digest(*parts: bytes) -> bytes:
    """Return the digest of `parts`, whose boundaries count: (ab, c) differs from (a, bc)."""
    state = blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.digest()
