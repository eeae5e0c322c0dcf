"""Fourier transforms by cuFFT.

Source: cuFFT documentation, "cuFFT API Reference". Each plan has its own work area.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hloc.codegen.gpu.library_call import FourierCall
from hloc.dtypes import C64

_FORWARD, _INVERSE = -1, 1
"""`CUFFT_FORWARD`, `CUFFT_INVERSE`."""

_NAMES = {
    ("FFT", True): ("C2C", "exec_c2c"),
    ("IFFT", True): ("C2C", "exec_c2c"),
    ("RFFT", True): ("R2C", "exec_r2c"),
    ("IRFFT", True): ("C2R", "exec_c2r"),
    ("FFT", False): ("Z2Z", "exec_z2z"),
    ("IFFT", False): ("Z2Z", "exec_z2z"),
    ("RFFT", False): ("D2Z", "exec_d2z"),
    ("IRFFT", False): ("Z2D", "exec_z2d"),
}
"""Type of the plan and function by kind of the transform, and whether components are f32."""


class Fourier:
    """One transform, planned."""

    def __init__(self, api: Any, call: FourierCall) -> None:
        self._api, self._call = api, call
        kind, execute = _NAMES[call.kind, call.dtype is C64]
        self._execute = getattr(api, execute)
        self._plan = api.create()
        lengths = np.array(call.lengths, np.int64)
        # Without embedding, arrays are contiguous and strides are ignored.
        try:
            api.make_plan_many64(
                self._plan, len(lengths), lengths.ctypes.data, 0, 1, 0, 0, 1, 0,
                int(getattr(api.Type, kind)), call.batch,
            )  # fmt: skip
        except BaseException:
            self.close()
            raise

    def run(self, arguments: Sequence[int], stream: int) -> None:
        """Enqueue the transform on a stream."""
        call = self._call
        self._api.set_stream(self._plan, stream)
        source, target = arguments[call.source], arguments[call.target]
        if call.kind in ("FFT", "IFFT"):
            self._execute(self._plan, source, target, _FORWARD if call.kind == "FFT" else _INVERSE)
        else:
            self._execute(self._plan, source, target)

    def close(self) -> None:
        self._api.destroy(self._plan)
