"""Runs pieces of PTX and kernels written as LLVM IR on the interpreter: helpers of these tests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from numpy.typing import NDArray

from hloc.ptx import LaunchReport, Memory, PtxModule, launch, parse_ptx

Array = NDArray[Any]
Triple = tuple[int, int, int]

HEADER = ".version 8.6\n.target sm_90\n.address_size 64\n"


def evaluate(body: str, inputs: Sequence[Array], output: str, block: int = 128) -> Array:
    """Run `body` once per element and return what it leaves in %out.

    Inputs stand in %in0, %in1, ...: registers of the width of their dtype, predicates for bool.
    Scratch registers: %p0-7, %h0-7 (16 bits), %r0-15, %d0-15 (64 bits).
    """
    result = np.dtype(output)
    count = len(inputs[0])
    lines = ["mov.u32 %tid, %tid.x;", "mov.u32 %cta, %ctaid.x;", "mov.u32 %nt, %ntid.x;"]
    lines += ["mad.lo.u32 %tid, %cta, %nt, %tid;", f"setp.ge.u32 %pe, %tid, {count};", "@%pe ret;"]
    registers = []
    parameters = [".param .u64 k_out"]
    for i, array in enumerate(inputs):
        parameters.append(f".param .u64 k_in{i}")
        size = array.dtype.itemsize
        width = max(size, 2)
        registers.append(f".reg .b{8 * width} %in{i};")
        lines += [f"ld.param.u64 %a, [k_in{i}];", f"mad.wide.u32 %a, %tid, {size}, %a;"]
        lines.append(f"ld.global.b{8 * size} %in{i}, [%a];")
    size = result.itemsize
    registers.append(f".reg .b{8 * max(size, 2)} %out;")
    lines.append(body)
    lines += ["ld.param.u64 %a, [k_out];", f"mad.wide.u32 %a, %tid, {size}, %a;"]
    lines.append(f"st.global.b{8 * size} [%a], %out;")
    lines.append("ret;")
    text = (
        f"{HEADER}.visible .entry k({', '.join(parameters)})\n{{\n"
        ".reg .pred %p<8>, %pe; .reg .b16 %h<8>; .reg .b32 %r<16>, %tid, %cta, %nt;\n"
        ".reg .b64 %d<16>, %a;\n" + "\n".join([*registers, *lines]) + "\n}\n"
    )
    (got,) = run(text, "k", [np.empty(count, result), *inputs], block=(block, 1, 1))[0][:1]
    return got


def run(
    text: str | PtxModule,
    kernel: str,
    buffers: Sequence[Array],
    grid: Triple | None = None,
    block: Triple = (128, 1, 1),
    initialised: bool = False,
    scalars: Sequence[int | float] = (),
    **options: Any,
) -> tuple[list[Array], LaunchReport]:
    """Run a kernel on buffers, of which the first is the output, then scalars.

    The output is uninitialised unless asked otherwise. Returns all buffers afterwards; of the
    output what was written.
    """
    module = parse_ptx(text) if isinstance(text, str) else text
    memory = Memory()
    addresses = [memory.allocate(buffer.nbytes) for buffer in buffers]
    for i, (address, buffer) in enumerate(zip(addresses, buffers, strict=True)):
        if i or initialised:
            memory.write(address, buffer)
    if grid is None:
        grid = (-(-len(buffers[0]) // block[0]), 1, 1)
    report = launch(
        module,
        kernel,
        grid=grid,
        block=block,
        arguments=[*addresses, *scalars],
        memory=memory,
        **options,
    )
    found = [
        memory.read(address, buffer.nbytes).view(buffer.dtype).reshape(buffer.shape)
        for address, buffer in zip(addresses, buffers, strict=True)
    ]
    return found, report


def kernel_text(parameters: str, body: str, declarations: str = "", before: str = "") -> str:
    """Return a module with kernel k; registers %p %r %f %d of all sizes are declared."""
    return (
        f"{HEADER}{before}\n.visible .entry k({parameters})\n{{\n"
        ".reg .pred %p<16>; .reg .b16 %h<16>; .reg .b32 %r<64>; .reg .b64 %d<32>;\n"
        f"{declarations}\n{body}\nret;\n}}\n"
    )


def ptx_of(ir: str, cpu: str = "sm_80", features: str = "", optimise: bool = True) -> str:
    """Compile LLVM IR text with LLVM's NVPTX backend."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
    machine = target.create_target_machine(cpu=cpu, features=features, opt=3)
    names = sorted(
        set(re.findall(r"@(llvm\.[\w.]+)\(", ir)) - set(re.findall(r"declare[^\n]*@([\w.]+)", ir))
    )
    assert not names, f"declare {names}"
    module = llvm.parse_assembly(ir)
    module.triple = "nvptx64-nvidia-cuda"
    module.data_layout = str(machine.target_data)
    module.verify()
    if optimise:
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
    return str(machine.emit_assembly(module))
