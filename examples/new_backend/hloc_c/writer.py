"""C text of one function: values, loops, jumps. It knows syntax only; operations: `builder`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count

from hloc.codegen.builder.loops import Body, IndexValue
from hloc.codegen.builder.values import Value
from hloc.dtypes import S64, DType, component_of

_INDEX_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "rem": "%"}


def c_type(dtype: DType) -> str:
    """Return the C type of a value, or of one part of a complex number.

    Floats below f32 are their bits, integers below a byte take a byte: as in memory.
    """
    part = component_of(dtype)
    if part.is_pred:
        return "bool"
    if part.is_float and part.bits >= 32:
        return "float" if part.bits == 32 else "double"
    return f"{'' if part.is_signed else 'u'}int{8 * part.storage_bytes}_t"


class CWriter:
    """Collects a function; the methods are those of `hloc.codegen.llvm.writer.FunctionWriter`.

    Attributes:
        block: label of what is being written; blocks are places that `goto` can reach.
        declarations: constants outside the function.
    """

    def __init__(self, name: str, parameters: Sequence[str]) -> None:
        self.name = name
        self.block = "entry"
        self.declarations: list[str] = []
        self._head = f"static void {name}({', '.join(parameters) or 'void'}) {{"
        self._variables: list[str] = []
        self._lines: list[str] = []
        self._jumps: dict[str, int] = {}
        self._depth = 1
        self._numbers = count()

    @property
    def size(self) -> int:
        return len(self._lines)

    def line(self, text: str) -> None:
        self._lines.append("  " * self._depth + text)

    def define(self, kind: str, text: str) -> str:
        """Write a constant of C type `kind`; return its name."""
        name = f"v{next(self._numbers)}"
        self.line(f"const {kind} {name} = {text};")
        return name

    def variable(self, kind: str, elements: int = 0) -> str:
        """Declare a variable, or an array, for the whole function; return its name."""
        name = f"m{next(self._numbers)}"
        self._variables.append(f"  {kind} {name}{f'[{elements}]' if elements else ''};")
        return name

    def index_arithmetic(self, op: str, x: str, y: str) -> str:
        return self.define("int64_t", f"{x} {_INDEX_OPERATORS[op]} {y}")

    def byte_constant(self, data: bytes) -> str:
        """Add constant memory, aligned for every type; return its name."""
        name = f"{self.name}_constant{len(self.declarations)}"
        words = (data[i : i + 8].ljust(8, b"\0") for i in range(0, len(data), 8))
        text = ", ".join(f"0x{int.from_bytes(word, 'little'):x}" for word in words)
        self.declarations.append(f"static const uint64_t {name}[] = {{{text}}};")
        return name

    # ---- jumps and loops

    def new_block(self) -> str:
        return f"b{next(self._numbers)}"

    def start_block(self, label: str) -> None:
        self.line(f"{label}:;")
        self.block = label

    def jump(self, label: str) -> None:
        self._jumps[self.block] = len(self._lines)
        self.line(f"goto {label};")

    def branch(self, condition: str, on_true: str, on_false: str) -> None:
        self.line(f"if ({condition}) goto {on_true}; else goto {on_false};")

    def assign_at_end(self, block: str, name: str, text: str) -> None:
        """Assign to a variable just before the jump that ends `block`."""
        at = self._jumps[block]
        self._lines[at] = self._lines[at].replace("goto ", f"{name} = {text}; goto ")

    @contextmanager
    def loop(self, start: str, stop: str, step: str) -> Iterator[str]:
        name = f"i{next(self._numbers)}"
        self.line(f"for (int64_t {name} = {start}; {name} < {stop}; {name} += {step}) {{")
        self._depth += 1
        yield name
        self._depth -= 1
        self.line("}")

    def finish(self) -> str:
        lines = [*self.declarations, self._head, *self._variables, *self._lines, "}", ""]
        return "\n".join(lines)


class CBody(Body):
    """Structured control flow in C: counted loops are loops, all else are jumps, as in LLVM IR."""

    @contextmanager
    def loop(
        self, start: IndexValue, stop: IndexValue, step: IndexValue = 1, *, vectors: bool = False
    ) -> Iterator[IndexValue]:
        texts = [str(x) if isinstance(x, int) else x.text for x in (start, stop, step)]
        with self.fn.loop(*texts) as counter, self.scope():
            yield Value(S64, counter)

    def merge(self, incoming: Sequence[tuple[Value, str]]) -> Value:
        """Return the value that came from the block that was left: C has variables, no phi."""
        dtype = incoming[0][0].dtype
        parts = ("text", "imag") if dtype.is_complex else ("text",)
        names = [self.fn.variable(c_type(dtype)) for _ in parts]
        for value, block in incoming:
            for name, part in zip(names, parts, strict=True):
                self.fn.assign_at_end(block, name, getattr(value, part))
        return Value(dtype, *names)
