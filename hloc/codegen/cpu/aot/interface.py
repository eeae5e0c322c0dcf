"""C interface of a module compiled ahead of time: its arguments, results and memory."""

from __future__ import annotations

from hloc.codegen.cpu.backend import CpuModule
from hloc.dtypes import DType
from hloc.errors import UnsupportedError
from hloc.ir.device_groups import module_devices
from hloc.lazy_dataclass import dataclass
from hloc.memory.assigned_buffers import parameter_leaves
from hloc.memory.heap import CACHE_LINE_BYTES
from hloc.shapes import ArrayShape

_INTEGERS = {True: "int{}_t", False: "uint{}_t"}


@dataclass(frozen=True, slots=True)
class CArray:
    """One argument or result.

    Attributes:
        name: in C, `arg0` or `out0`.
        note: the parameter and index it comes from, "" for a result.
        shares: number of the argument whose memory a result may take, None if none.
    """

    name: str
    shape: ArrayShape
    note: str = ""
    shares: int | None = None

    @property
    def c_type(self) -> str:
        return c_type_of(self.shape.dtype)


@dataclass(frozen=True, slots=True)
class Interface:
    """The contents of the header.

    Attributes:
        module_name: the name in the HLO text.
        static_temp: the object has its own working memory, so one thread at a time may call.
        variants: levels of x86-64 that the object has code for, lowest first; () for one target.
        worker_bytes: memory for each thread beside the caller's, None if no kernel can be shared.
    """

    prefix: str
    module_name: str
    arguments: tuple[CArray, ...]
    results: tuple[CArray, ...]
    temp_bytes: int
    constant_bytes: int
    alignment: int
    pointer_bits: int
    machine: str
    static_temp: bool
    variants: tuple[str, ...] = ()
    worker_bytes: int | None = None


def c_type_of(dtype: DType) -> str:
    """Return the C type of an element; complex numbers are two of them.

    Narrow floats are their bits in an unsigned integer, integers below a byte take a whole one.
    """
    if dtype.is_complex:
        return "float" if dtype.bits == 64 else "double"
    if dtype.is_float and dtype.bits in (32, 64):
        return "float" if dtype.bits == 32 else "double"
    return _INTEGERS[dtype.is_signed].format(8 * dtype.storage_bytes)


def interface_of(
    compiled: CpuModule, prefix: str, *, static_temp: bool, variants: tuple[str, ...] = ()
) -> Interface:
    """Return the interface of `compiled`, whose processor is the first of `variants`.

    Raises:
        UnsupportedError: the module needs something that an object alone cannot do.
    """
    _refuse(compiled)
    assignment = compiled.plan.assignment
    shares = {a.output: a.parameter for a in assignment.aliases if a.is_shared}
    return Interface(
        prefix=prefix,
        module_name=compiled.module.name,
        arguments=tuple(
            CArray(f"arg{i}", leaf.shape, leaf.name)
            for i, leaf in enumerate(parameter_leaves(compiled.module))
        ),
        results=tuple(
            CArray(f"out{i}", shape, shares=shares.get(i))
            for i, shape in enumerate(assignment.outputs)
        ),
        temp_bytes=assignment.arena_bytes,
        constant_bytes=assignment.report.constant_bytes,
        alignment=CACHE_LINE_BYTES,
        pointer_bits=compiled.machine.pointer_bits,
        machine=f"{compiled.machine.triple}, {' or '.join(variants) or compiled.machine.cpu}",
        static_temp=static_temp,
        variants=variants,
        worker_bytes=compiled.worker_bytes if compiled.is_split else None,
    )


def _refuse(compiled: CpuModule) -> None:
    """Raise `UnsupportedError` for modules that need the process they were compiled in."""
    if compiled.options.use_library:
        names = ", ".join(compiled.options.use_library)
        raise UnsupportedError(f"an object calls no libraries of this process, such as {names}")
    if compiled.plan.tells_devices:
        count = module_devices(compiled.module).total
        raise UnsupportedError(
            f"an object runs on one device, but this module exchanges data between "
            f"{count}; `hloc run` starts them all"
        )
    hosts = compiled.plan.host_functions
    if hosts:
        names = ", ".join(dict.fromkeys(h.inst.attributes.custom_call_target for h in hosts))
        raise UnsupportedError(
            f"an object cannot call Python, which runs the custom calls {names} of this module"
        )
    if compiled.boundary.parameters or compiled.boundary.results:
        raise UnsupportedError(
            "an object cannot take or return arrays of dynamic sizes, as this module does"
        )
