"""Forward convolutions by cuDNN, through its frontend for Python.

Source: documentation of the cuDNN frontend, "Convolutions" and "Pointwise and Reduction".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloc.codegen.gpu.library_call import ConvolutionCall, Tensor
from hloc.dtypes import BF16, F16, F32, DType
from hloc.runtime.gpu.library.prepared import DeviceMemory

_TYPES: dict[DType, str] = {F32: "FLOAT", F16: "HALF", BF16: "BFLOAT16"}


class Convolution:
    """One convolution as a graph of cuDNN, built."""

    def __init__(self, api: Any, handle: Any, call: ConvolutionCall, memory: DeviceMemory) -> None:
        """Build it.

        Raises:
            Exception: cuDNN's own, if it has no engine.
        """
        self._api, self._handle, self._memory = api, handle, memory
        kind = getattr(api.data_type, _TYPES[call.dtype])
        self._graph = graph = api.pygraph(
            io_data_type=kind,
            intermediate_data_type=api.data_type.FLOAT,
            compute_data_type=api.data_type.FLOAT,
            handle=handle,
        )

        def tensor(given: Tensor, name: str) -> Any:
            dims, steps = list(given.dims), list(given.steps)
            return graph.tensor(name=name, dim=dims, stride=steps, data_type=kind)

        image, kernel = tensor(call.image, "image"), tensor(call.kernel, "kernel")
        self._tensors = {image: call.image.argument, kernel: call.kernel.argument}
        last = graph.conv_fprop(
            image=image,
            weight=kernel,
            pre_padding=list(call.pad_low),
            post_padding=list(call.pad_high),
            stride=list(call.stride),
            dilation=list(call.dilation),
        )
        if call.bias is not None:
            channels = call.result.dims[1]
            ones = (1,) * (len(call.result.dims) - 2)
            shape = Tensor(call.bias, (1, channels, *ones), (channels, 1, *(1 for _ in ones)))
            bias = tensor(shape, "bias")
            self._tensors[bias] = call.bias
            last = graph.bias(input=last, bias=bias)
        if call.relu:
            last = graph.relu(input=last)
        last.set_output(True).set_data_type(kind)
        last.set_dim(list(call.result.dims)).set_stride(list(call.result.steps))
        self._tensors[last] = call.result.argument
        if call.dtype is F32:  # tensor cores would round the operands
            graph.deselect_numeric_notes([api.numerical_note.TENSOR_CORE])
        graph.build([api.heur_mode.A])
        self._workspace = memory.allocate(graph.get_workspace_size())

    def run(self, arguments: Sequence[int], stream: int) -> None:
        """Enqueue the convolution on a stream."""
        self._api.set_stream(handle=self._handle, stream=stream)
        pointers = {tensor: arguments[number] for tensor, number in self._tensors.items()}
        self._graph.execute(pointers, self._workspace, handle=self._handle)

    def close(self) -> None:
        self._memory.free(self._workspace)
