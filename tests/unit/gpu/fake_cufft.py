"""cuFFT on the fake driver."""

from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import Any

import numpy as np

from tests.unit.gpu.fake_library import FakeLibrary


class FakeFft(FakeLibrary):
    """cuFFT."""

    class Type(IntEnum):
        R2C = 42
        C2R = 44
        C2C = 41
        D2Z = 106
        Z2D = 108
        Z2Z = 105

    def _make_plan_many64(self, plan: int, rank: int, n: int, *rest: int) -> int:
        *embedding, kind, batch = rest
        assert embedding == [0, 1, 0, 0, 1, 0]
        lengths = tuple(int(size) for size in (ctypes.c_int64 * rank).from_address(n))
        self.things[plan] = (lengths, self.Type(kind), batch)
        return 0

    def _transform(self, plan: int, source: int, target: int, direction: int = 0) -> None:
        lengths, kind, batch = self.things[plan]
        half = (*lengths[:-1], lengths[-1] // 2 + 1)
        narrow = kind.name in ("C2C", "R2C", "C2R")
        dims = {"R": lengths, "D": lengths, "C": half, "Z": half}
        if kind.name in ("C2C", "Z2Z"):
            dims = {"C": lengths, "Z": lengths}
        dtypes = {"R": np.float32, "C": np.complex64, "D": np.float64, "Z": np.complex128}
        taken, given = kind.name[0], kind.name[2]
        axes = tuple(range(1, 1 + len(lengths)))

        def work() -> None:
            shape = (batch, *dims[taken])
            data = self.read(source, int(np.prod(shape)), dtypes[taken]).reshape(shape)
            found: Any
            if given in "RD":
                found = np.fft.irfftn(data, lengths, axes, norm="forward")
            elif taken in "RD":
                found = np.fft.rfftn(data, lengths, axes)
            else:
                backwards = direction == 1
                found = (
                    np.fft.ifftn(data, lengths, axes, norm="forward")
                    if backwards
                    else np.fft.fftn(data, lengths, axes)
                )
            self.write(target, found.astype(dtypes[given]))

        assert narrow == (dtypes[taken] in (np.float32, np.complex64))
        self.work(self.streams[plan], work)

    _exec_c2c = _exec_r2c = _exec_c2r = _exec_z2z = _exec_d2z = _exec_z2d = _transform
