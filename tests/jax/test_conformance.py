"""The conformance harness of the package pypjrt, a client of the PJRT C API that is not JAX's."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jax")
pytest.importorskip("pypjrt")


class _Library:
    """What the harness takes for a shared library: hloc has none."""

    class GetPjrtApi:
        restype = argtypes = None

        def __new__(cls) -> Any:
            from hloc.pjrt.table import api_table

            return api_table()

    def __init__(self, *_: object, **__: object) -> None: ...


class _Ctypes:
    CDLL = _Library

    def __getattr__(self, name: str) -> Any:
        return getattr(ctypes, name)


def test_no_check_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pypjrt import _loader, conform

    monkeypatch.setattr(_loader, "ctypes", _Ctypes())
    (tmp_path / "hloc.so").touch()
    report = conform.run(_loader.Plugin(tmp_path / "hloc.so"))
    failed = [f"{check.id}: {check.detail}" for check in report.checks if check.result == "fail"]
    assert not failed
    assert report.counts()["pass"] >= 46
