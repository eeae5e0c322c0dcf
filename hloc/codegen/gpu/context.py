"""The context of a GPU emitter: a writer of launches, and per launch the builders of its code.

A kernel accesses memory through generic pointers; LLVM infers their address spaces. Emitters write
the code of a single thread; `thread`, `block` and the collective functions distinguish it from the
others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from math import prod

from hloc.codegen.builder.ir_array import IrArray, dense_array
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import REPRESENTATIONS, Value
from hloc.codegen.gpu.helpers import HELPERS
from hloc.codegen.gpu.kernel import BLOCK_THREADS, Extent, GpuFunction
from hloc.codegen.gpu.tensor_map import TensorMapArgument
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.llvm.target import Target
from hloc.codegen.llvm.writer import FunctionWriter
from hloc.dtypes import S32, S64, U8, DType
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import CACHE_LINE_BYTES, alignment_of
from hloc.shapes import array_leaves


class GpuContext(KernelContext):
    """One function that is being emitted.

    Attributes:
        grid, block: launch dimensions.
        dynamic_shared_bytes, min_blocks, takes_turns: as in `GpuFunction`.
    """

    def __init__(self, writer: LaunchWriter, name: str, grid: Extent, block: Extent) -> None:
        """Start the function, and read the numbers of thread and block."""
        super().__init__(
            writer.inst, writer.aliased, name, writer.target, has_scratch=writer.has_scratch
        )
        self.math.joins = False
        self.grid = grid
        self.block = block
        self.dynamic_shared_bytes = 0
        self.min_blocks = 0
        self.takes_turns = False
        self._helpers: dict[str, None] = {}
        self._shared: list[str] = []
        self._tiled: list[TensorMapArgument] = []
        self._positions: dict[str, IndexValue] = {}
        # Read at the start, which dominates every later region.
        axes = [("thread", block), ("block", grid)]
        for unit, extent in axes:
            for axis, size in zip("xyz", extent, strict=True):
                self._positions[f"{unit}.{axis}"] = self._position(f"{unit}.{axis}", size)

    def _function(self, name: str, pointers: Sequence[str], size: str) -> FunctionWriter:
        leaves = [*self.inst.operand_arrays, *array_leaves(self.inst.shape)]
        alignments = [alignment_of(leaf.size_bytes) for leaf in leaves]
        alignments += [CACHE_LINE_BYTES] * (len(pointers) - len(leaves))  # scratch
        self._parameters = tuple(
            text.replace(" %", f" align {alignment} %")
            for text, alignment in zip(pointers, alignments, strict=True)
        )
        return FunctionWriter(name, list(self._parameters))

    def _position(self, helper: str, size: int) -> IndexValue:
        if size == 1:
            return 0
        value = self.call(helper)
        assert value is not None
        return Value(S64, self.fn.value(f"zext i32 {value.text} to i64"))

    # ---- thread and block indices

    def thread(self, axis: str = "x") -> IndexValue:
        """Return the index of this thread in its block along `axis`."""
        return self._positions[f"thread.{axis}"]

    def block_index(self, axis: str = "x") -> IndexValue:
        """Return the index of this block along `axis`."""
        return self._positions[f"block.{axis}"]

    def blocks_launched(self) -> Value:
        """Return the number of blocks along x, if the device chooses it."""
        count = self.call("grid.x")
        assert count is not None
        return Value(S64, self.fn.value(f"zext i32 {count.text} to i64"))

    def global_thread(self) -> IndexValue:
        """Return the index of this thread among all along x."""
        return self.math.add(self.math.mul(self.block_index("x"), self.block[0]), self.thread("x"))

    # ---- the prelude, and shared memory

    def call(self, helper: str, *arguments: Value) -> Value:
        """Call `@gpu.<helper>`; return its result, a value without text if it is void.

        For an aggregate result, the text of the value is the name of the aggregate.
        """
        row = HELPERS[helper]
        self._helpers[helper] = None
        texts = zip(row.arguments, arguments, strict=True)
        operands = ", ".join(f"{kind} {argument.text}" for kind, argument in texts)
        text = f"call {row.result} @gpu.{helper}({operands})"
        if row.result == "void":
            self.fn.line(text)
            return Value(S32, "")
        dtype = arguments[0].dtype if row.result == "float" else S32
        return Value(dtype, self.fn.value(text))

    def barrier(self) -> None:
        """Wait for all threads of the block and make their writes visible."""
        self.call("barrier")

    def shared_array(self, dtype: DType, dims: Sequence[int]) -> IrArray:
        """Return a new row-major array in the shared memory of a block."""
        name = self._shared_symbol(dtype, dims)
        pointer = pointer_value(f"addrspacecast (ptr addrspace(3) {name} to ptr)")
        return dense_array(pointer, dtype, tuple(dims))

    def shared_bytes(self, size: int) -> Value:
        """Return a pointer, of the address space of shared memory, to `size` new bytes in it."""
        return pointer_value(self._shared_symbol(U8, (size,)))

    def dynamic_shared(self, size: int, align: int) -> Value:
        """Return a pointer, as `shared_bytes` does, to memory that may be more than 48 KiB.

        A function calls this at most once, and then has no other shared memory.
        """
        name = f"@{self.fn.name}_dynamic"
        self._shared.append(f"{name} = external addrspace(3) global [0 x i8], align {align}")
        self.dynamic_shared_bytes = size
        return pointer_value(name)

    def tiles_of(
        self,
        array: IrArray,
        dims: Sequence[int],
        strides: Sequence[int],
        box: Sequence[int],
        *,
        to_tf32: bool = False,
    ) -> TensorMapArgument:
        """Return the tensor map for copies of tiles of an operand in memory, 128 bytes a row.

        Args:
            array: of an operand of the root, as `plain_array` returns it.
            dims: sizes of its dimensions, as in `TensorMapArgument`.
            strides: in bytes.
            box: sizes of a tile.
            to_tf32: round elements of f32 to TF32.
        """
        pointers = [self._argument(i).text for i in range(len(self.inputs))]
        argument = pointers.index(array.pointer.text)
        tiled = TensorMapArgument(
            argument, array.dtype, tuple(dims), tuple(strides), tuple(box), 128, to_tf32
        )
        self._tiled.append(tiled)
        return tiled

    def tile_map(self, tiled: TensorMapArgument) -> Value:
        """Return a pointer to the tensor map that the host encodes for this launch."""
        return pointer_value(f"%tiled{self._tiled.index(tiled)}")

    def _shared_symbol(self, dtype: DType, dims: Sequence[int]) -> str:
        name = f"@{self.fn.name}.shared{len(self._shared)}"
        size = prod(dims) * (2 if dtype.is_complex else 1)
        kind = f"[{size} x {REPRESENTATIONS[dtype].memory}]"
        self._shared.append(f"{name} = internal addrspace(3) global {kind} undef, align 128")
        return name

    def finish(self) -> GpuFunction:
        """Return the function."""
        return GpuFunction(
            self.fn.name,
            self._parameters,
            self.fn.body(),
            self.grid,
            self.block,
            tuple(self._shared),
            tuple(self._helpers),
            tuple(self.fn.declarations),
            self.dynamic_shared_bytes,
            self.min_blocks,
            tuple(self._tiled),
            self.takes_turns,
        )


@dataclass(slots=True)
class LaunchWriter:
    """The launches of one kernel, written one after another.

    Attributes:
        choice: index of the kernel among those that its emitter has for this chip.
    """

    inst: Instruction
    aliased: tuple[int | None, ...]
    name: str
    target: Target
    has_scratch: bool
    choice: int = 0
    functions: list[GpuFunction] = field(default_factory=list)

    def is_in_place(self, operand: Instruction, output: int) -> bool:
        """True if `operand` of the root shares the memory of result `output`."""
        inst, leaf = self.inst, 0
        first: dict[Instruction, int] = {}
        names = inst.called[0].parameters if inst.opcode.name == "fusion" else inst.operands
        for name, given in zip(names, inst.operands, strict=True):
            first.setdefault(given, leaf)
            if name is operand:
                return self.aliased[output] == first[given]
            leaf += len(array_leaves(given.shape))
        return False

    @contextmanager
    def launch(self, grid: Extent, block: Extent = (BLOCK_THREADS, 1, 1)) -> Iterator[GpuContext]:
        """Emit one function, which runs after those before it."""
        number = len(self.functions)
        k = GpuContext(self, f"{self.name}_{number}" if number else self.name, grid, block)
        yield k
        self.functions.append(k.finish())

    @contextmanager
    def each(
        self, count: int, threads: int = BLOCK_THREADS
    ) -> Iterator[tuple[GpuContext, IndexValue]]:
        """Emit a function whose region runs once for every index below `count`."""
        threads = min(threads, _whole_warps(count))
        with self.launch((-(-count // threads), 1, 1), (threads, 1, 1)) as k:
            index = k.global_thread()
            with k.body.when(k.math.compare("LT", index, count)):
                yield k, index


def _whole_warps(count: int) -> int:
    return -(-count // 32) * 32 if count > 1 else 1
