"""Library calls as data: planning or reading one needs no library.

Arguments are numbered as those of a kernel: leaves of the operands, of the result, scratch. Sizes
and strides are in elements unless a name says bytes.
"""

from __future__ import annotations

from typing import TypeAlias

from hloc.dtypes import DType
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Matrix:
    """Matrices in memory, column-major as in BLAS.

    Attributes:
        argument: number of the pointer.
        rows: the contiguous dimension.
        leading: stride of columns (the leading dimension).
        batch_step: stride of matrices, 0 if all are the same.
    """

    argument: int
    dtype: DType
    rows: int
    columns: int
    leading: int
    batch_step: int


@dataclass(frozen=True, slots=True)
class MatmulCall:
    """cuBLASLt: result = epilogue(op(left) * op(right)), `batch` times.

    Attributes:
        algorithm: of the dot: `dot_tf32_tf32_f32` allows rounding of f32 factors.
        bias: number of the argument that is added to every column of the result, None for none.
        relu: negative sums and NaN become 0.
        workspace: number of the scratch argument.
    """

    left: Matrix
    right: Matrix
    result: Matrix
    left_transposed: bool
    right_transposed: bool
    batch: int
    algorithm: str
    bias: int | None
    relu: bool
    workspace: int
    workspace_bytes: int
    library: str = "cublaslt"


@dataclass(frozen=True, slots=True)
class FourierCall:
    """cuFFT: `batch` transforms of contiguous arrays of `lengths`, unscaled.

    Attributes:
        kind: HLO's name: `FFT`, `IFFT`, `RFFT`, `IRFFT`.
        dtype: of the complex side.
    """

    kind: str
    lengths: tuple[int, ...]
    batch: int
    dtype: DType
    source: int
    target: int
    workspace_bytes: int = 0
    library: str = "cufft"


@dataclass(frozen=True, slots=True)
class CholeskyCall:
    """cuSOLVER: Cholesky factors of `batch` row-major square matrices, in place in a copy.

    Attributes:
        lower: the lower triangle is read and written, else the upper one.
        faults: number of the scratch argument, an s32 per matrix: 0 if there is a factor.
    """

    size: int
    batch: int
    dtype: DType
    lower: bool
    source: int
    target: int
    faults: int
    workspace_bytes: int
    library: str = "cusolver"


@dataclass(frozen=True, slots=True)
class Tensor:
    """An array in cuDNN's terms: batch, channels, then spatial dimensions, with any strides."""

    argument: int
    dims: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConvolutionCall:
    """cuDNN: a forward convolution, with numbers per spatial dimension.

    Attributes:
        dtype: of all arrays.
        bias: number of the argument with an element per channel of the result, None for none.
        relu: negative results and NaN become 0.
    """

    dtype: DType
    image: Tensor
    kernel: Tensor
    result: Tensor
    pad_low: tuple[int, ...]
    pad_high: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    bias: int | None
    relu: bool
    workspace_bytes: int = 0
    library: str = "cudnn"


LibraryCall: TypeAlias = MatmulCall | FourierCall | CholeskyCall | ConvolutionCall
