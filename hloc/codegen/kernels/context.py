"""The context of an emitter: the instruction, its arrays, and the builders of code."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from hloc.codegen.builder.index import Index, IndexMath, loop_order
from hloc.codegen.builder.ir_array import IrArray, array_in_memory
from hloc.codegen.builder.lane_builder import LaneBuilder
from hloc.codegen.builder.loops import Body, IndexValue
from hloc.codegen.builder.scalar_builder import LlvmBuilder, pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.elements.elemental import ElementGenerator, Frame, Source
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.codegen.llvm.writer import FunctionWriter
from hloc.dtypes import S32, S64, DType
from hloc.ir.instruction import Instruction
from hloc.shapes import ArrayShape, array_leaves

SMALL_ELEMENTS = 256
"""Arrays of at most this size get the compact code, which compiles in half the time."""


LIBRARY_FUNCTION = "%function"
"""The parameter with the address of the LAPACK routine that a kernel calls."""


def root_of(inst: Instruction) -> Instruction:
    """Return the instruction whose value a kernel for `inst` computes."""
    return inst.called[0].root if inst.opcode.name == "fusion" else inst


def has_functions(inst: Instruction) -> bool:
    """True if `inst` computes functions such as exp, which take long."""
    return any(member.opcode.transcendental for member in _members(inst))


def _members(inst: Instruction) -> Sequence[Instruction]:
    return inst.called[0].instructions if inst.is_a("fusion") else (inst,)


def _position_type(inst: Instruction) -> DType:
    """Return the shortest type that holds the position of any element."""
    values = [value for member in _members(inst) for value in (member, *member.operands)]
    arrays = [shape for value in values for shape in array_leaves(value.shape)]
    return S32 if all(shape.elements < 1 << 31 for shape in arrays) else S64


class KernelContext:
    """One kernel that is being emitted.

    Attributes:
        root: the instruction to compute, in `frame`.
        outputs: the arrays of the result's leaves.
        aliased: per output, the number of the operand leaf that shares its memory, or None.
        begin, end: the part of the outermost loop to run.
        lanes: elements per iteration of a loop (`kernels/lanes.py`), 0 for one.
        routines: functions of other units that it calls.
        level: LLVM's level for the kernel, None for that of the module.
        choice: one of the plan's alternative ways to emit it, None for the usual one.
        is_repeated: the program may run it many times.
        is_inlined: it is part of the function of a loop.
        is_final: the code so far has nothing that LLVM should vectorise.
    """

    def __init__(
        self,
        inst: Instruction,
        aliased: tuple[int | None, ...],
        name: str,
        target: Target,
        has_scratch: bool,
        lanes: int = 0,
        library_function: str = "",
    ) -> None:
        """Start the kernel's function and its builders, and name its arrays.

        Args:
            inst: the instruction or fusion.
            aliased: per output, the number of the operand leaf that shares its memory, or None.
            name: of the function.
            target: the processor to write for.
            has_scratch: the function takes a pointer to scratch memory after those of the arrays.
            lanes: elements per iteration of a loop, 0 for one.
            library_function: what the kernel calls through a pointer, "" for nothing.
        """
        self.inst = inst
        self.root = root_of(inst)
        self.aliased = aliased
        self.target = target
        self.lanes = lanes
        inputs = inst.operand_arrays
        results = array_leaves(inst.shape)
        largest = max((shape.elements for shape in [*inputs, *results]), default=0)
        size = "optsize " if largest <= SMALL_ELEMENTS else ""
        pointers = _pointers(len(inputs), len(results), aliased, has_scratch)
        if library_function:
            pointers.insert(len(inputs) + len(results), f"ptr {LIBRARY_FUNCTION}")
        self.fn = self._function(name, pointers, size)
        self.body = self._body()
        self.b = self.body.b
        self.math = IndexMath(self.body)
        self.g = ElementGenerator(self.body, self.math)
        arrays = [self._argument(i) for i in range(len(inputs) + len(results))]
        self.inputs = [array_in_memory(p, s) for p, s in zip(arrays, inputs, strict=False)]
        # A result in place uses the operand's pointer, so that LLVM sees that they alias.
        places = [
            arrays[len(inputs) + number if shared is None else shared]
            for number, shared in enumerate(aliased)
        ]
        self.outputs = [array_in_memory(p, s) for p, s in zip(places, results, strict=True)]
        self.scratch = self._argument(len(inputs) + len(results))
        self.begin: IndexValue = Value(S64, "%begin")
        self.end: IndexValue = Value(S64, "%end")
        self.frame = Frame(self._sources())
        self.routines: dict[str, Routines] = {}
        self.level: int | None = None
        self.choice: Hashable = None
        self.is_repeated = self.is_inlined = False
        self.is_final = lanes > 0

    @property
    def unrolls(self) -> bool:
        """True if loops over few vectors are unrolled: the kernel runs many times, in lanes.

        K-means then takes 0.56 of the time (AVX2), a Viterbi step 0.79, heat equations 0.88.
        """
        return self.is_repeated and self.lanes > 0

    def _function(self, name: str, pointers: Sequence[str], size: str) -> FunctionWriter:
        """Begin the function; `pointers` are its parameters for arrays."""
        return FunctionWriter(
            name,
            [*pointers, "i64 %begin", "i64 %end"],
            f'{size}nounwind "prefer-vector-width"="{self.target.vector_bits}" ',
        )

    def _body(self) -> Body:
        """Return the body of the function; subclasses for other languages override this."""
        if self.lanes:
            lanes = LaneBuilder(self.fn, self.target, self.lanes)
            if has_functions(self.inst):
                lanes.positions = _position_type(self.inst)
            return Body(self.fn, lanes)
        return Body(self.fn, LlvmBuilder(self.fn, self.target))

    def _argument(self, number: int) -> Value:
        """Return pointer number `number` of the function's parameters."""
        return pointer_value(f"%arg{number}")

    def _sources(self) -> dict[Instruction, Source]:
        sources: dict[Instruction, Source] = {}
        seen: dict[Instruction, list[IrArray]] = {}
        inst, first = self.inst, 0
        names = inst.called[0].parameters if inst.opcode.name == "fusion" else inst.operands
        for name, operand in zip(names, inst.operands, strict=True):
            count = len(array_leaves(operand.shape))
            # An operand that occurs twice is read through its first pointer only.
            sources[name] = seen.setdefault(operand, self.inputs[first : first + count])
            first += count
        return sources

    @property
    def output(self) -> IrArray:
        """The only output."""
        (output,) = self.outputs
        return output

    def read(self, operand: Instruction, index: Index) -> Value:
        """Return element `index` of an operand of the root, with its producers fused in."""
        return self.g.element(self.frame, operand, index)

    def plain_array(self, operand: Instruction) -> IrArray | None:
        """Return the array of `operand`, None if it is computed by a fused producer."""
        source = self.frame.sources.get(operand)
        if source is None or isinstance(source, (Value, tuple)):
            return None
        return source[0] if len(source) == 1 else None

    def scratch_array(self, offset_bytes: int, dtype: DType, dims: tuple[int, ...]) -> IrArray:
        """Return a row-major array at a place in the scratch memory."""
        pointer = self.b.offset_pointer(self.scratch, offset_bytes)
        return array_in_memory(pointer, ArrayShape(dtype, dims))

    def materialise(self, operand: Instruction, offset_bytes: int) -> IrArray:
        """Compute `operand` into row-major scratch memory and return it."""
        shape = operand.array
        array = self.scratch_array(offset_bytes, shape.dtype, shape.dims)
        with self.body.nest(shape.dims, [d for d in range(shape.rank) if shape.dims[d] != 1]) as at:
            index = tuple(at)
            array.store(self.math, index, self.read(operand, index))
        return array

    def use(self, routines: Routines) -> None:
        """Declare routines, so that the kernel can call them."""
        self.routines[routines.name] = routines
        for declaration in routines.declarations:
            self.fn.declare(declaration)

    def copy_array(
        self,
        operand: Instruction,
        output: IrArray,
        order: Sequence[int] = (),
        first_range: tuple[IndexValue, IndexValue] | None = None,
    ) -> None:
        """Write the elements of `operand` to `output`, which has the same sizes.

        Args:
            operand: of the kernel.
            output: in memory.
            order: of the loops, outermost first; empty for that of the operand in memory.
            first_range: what of the outermost dimension is written, None for all.
        """
        order = order or loop_order(operand.array)
        with self.body.nest(output.dims, order, first_range) as at:
            index = tuple(at)
            output.store(self.math, index, self.read(operand, index))


def _pointers(
    inputs: int, outputs: int, aliased: tuple[int | None, ...], has_scratch: bool
) -> list[str]:
    shared = {number for number in aliased if number is not None}
    texts = []
    for number in range(inputs):
        texts.append(f"ptr noalias{'' if number in shared else ' readonly'} %arg{number}")
    for number in range(outputs):
        in_place = aliased[number] is not None
        texts.append(f"ptr{'' if in_place else ' noalias'} %arg{inputs + number}")
    if has_scratch:
        texts.append(f"ptr noalias %arg{inputs + outputs}")
    return texts
