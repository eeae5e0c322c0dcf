"""The writer of LLVM IR text: one function, its blocks, names and entry allocations.

It knows syntax only; types and semantics are in `scalar_builder`. Writing text is ten times faster
than building objects of an IR library.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_INDEX_OPERATIONS = {
    "add": "add nsw",
    "sub": "sub nsw",
    "mul": "mul nsw",
    "div": "udiv",
    "rem": "urem",
}


class FunctionWriter:
    """Collects the text of one function; instructions go to the current block."""

    def __init__(self, name: str, parameters: list[str], attributes: str = "") -> None:
        self.name = name
        self.declarations: dict[str, None] = {}
        self.block = "entry"
        self._parameters = parameters
        self._attributes = attributes
        self._allocations: list[str] = []
        self._lines: list[str] = []
        self._values = 0
        self._blocks = 0
        self._globals = 0
        self._vectors: dict[tuple[str, str], str] = {}

    @property
    def size(self) -> int:
        """Number of lines written so far."""
        return len(self._lines)

    def value(self, text: str) -> str:
        """Write an instruction that defines a value; return the value's name."""
        self._values += 1
        name = f"%v{self._values}"
        self._lines.append(f"  {name} = {text}")
        return name

    def index_arithmetic(self, op: str, x: str, y: str) -> str:
        """Write `add`, `sub`, `mul`, `div` or `rem` of indices; return the value's name.

        Nothing overflows, and dividends are not negative.
        """
        return self.value(f"{_INDEX_OPERATIONS[op]} i64 {x}, {y}")

    def line(self, text: str) -> None:
        """Write an instruction without a value."""
        self._lines.append("  " + text)

    def call(self, result: str, function: str, *operands: tuple[str, str], flags: str = "") -> str:
        """Declare an external function and write a call of it; return the value's name.

        Args:
            result: its type; a call that returns `void` has no value.
            function: its name with `@`.
            operands: type and text of each.
            flags: before the type, each with a space after it.
        """
        types = ", ".join([kind for kind, _ in operands])
        self.declarations[f"declare {result} {function}({types})"] = None
        given = ", ".join([f"{kind} {text}" for kind, text in operands])
        text = f"call {flags}{result} {function}({given})"
        if result != "void":
            return self.value(text)
        self.line(text)
        return ""

    def allocate(self, type_text: str, count: int = 1, align: int = 64) -> str:
        """Reserve stack memory for the whole function; return the pointer's name."""
        self._values += 1
        name = f"%v{self._values}"
        size = f", i64 {count}" if count != 1 else ""
        self._allocations.append(f"  {name} = alloca {type_text}{size}, align {align}")
        return name

    def new_block(self) -> str:
        """Return an unused label."""
        self._blocks += 1
        return f"b{self._blocks}"

    def start_block(self, label: str) -> None:
        """Begin the block `label`; the one before must have a terminator."""
        self._lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        """End the block with a jump."""
        self._lines.append(f"  br label %{label}")

    def branch(self, condition: str, on_true: str, on_false: str, mark: str = "") -> None:
        """End the block with a conditional branch; `mark` is metadata of the loop it closes."""
        self._lines.append(f"  br i1 {condition}, label %{on_true}, label %{on_false}{mark}")

    def reserve_value(self) -> str:
        """Return a name whose definition is written later with `line` (for loop counters)."""
        self._values += 1
        return f"%v{self._values}"

    def declare(self, text: str) -> None:
        """Add a declaration such as `declare double @exp(double)`."""
        self.declarations[text] = None

    def global_constant(self, type_text: str, initial: str) -> str:
        """Add a private constant array; return its name."""
        self._globals += 1
        name = f"@{self.name}.constant{self._globals}"
        text = f"private unnamed_addr constant {type_text} {initial}, align 64"
        self.declarations[f"{name} = {text}"] = None
        return name

    def vector_constant(self, vector: str, splat: str) -> str:
        """Add a constant vector that LLVM reads from memory where it is used; return its name.

        LLVM must not know what it holds, or it would read one element and broadcast it.
        """
        name = self._vectors.get((vector, splat))
        if name is None:
            name = self._vectors[vector, splat] = f"@{self.name}.vector{len(self._vectors)}"
            initial = f"internal externally_initialized constant {vector} {splat}"
            self.declare(f"{name} = {initial}, align 64")
        return name

    def byte_constant(self, data: bytes) -> str:
        """Add private read-only memory that holds `data`; return its name."""
        text = "\\" + data.hex("\\") if data else ""
        return self.global_constant(f"[{len(data)} x i8]", f'c"{text}"')

    def reserve_line(self) -> int:
        """Leave room for an instruction that `fill_line` writes when its operands are known."""
        self._lines.append("")
        return len(self._lines) - 1

    def fill_line(self, slot: int, text: str) -> None:
        """Write the instruction for which `reserve_line` left room."""
        self._lines[slot] = "  " + text

    @contextmanager
    def discarded(self) -> Iterator[None]:
        """Drop the instructions that are written in the region."""
        kept, block = len(self._lines), self.block
        yield
        del self._lines[kept:]
        self.block = block

    def finish(self) -> str:
        """Return the text of the whole function; the last block must be open."""
        head = f"define void @{self.name}({', '.join(self._parameters)}) {self._attributes}{{"
        return f"{head}\n{self.body()}"

    def body(self) -> str:
        """Return the body of the function, for use with another signature."""
        return "\n".join(["entry:", *self._allocations, *self._lines, "  ret void", "}", ""])
