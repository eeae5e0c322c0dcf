"""Exports memory as DLPack capsules, and keeps it alive until the consumer releases it.

A consumer may release it at any time, even during interpreter shutdown, when no Python code can
run. The deleter is therefore machine code that only sets a flag, and Python checks the flags later.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from hloc.codegen.llvm.target import initialize_llvm
from hloc.runtime.gpu.dlpack import DataType, ManagedTensor, Tensor

_NAME = ctypes.c_char_p(b"dltensor")

_CODE = """
define void @deleter(ptr %tensor) {{
  %field = getelementptr i8, ptr %tensor, i64 {manager}
  %mark = load ptr, ptr %field
  store atomic i32 1, ptr %mark release, align 4
  ret void
}}

define void @destructor(ptr %capsule) {{
  %name = inttoptr i64 {name} to ptr
  %is_valid = inttoptr i64 {is_valid} to ptr
  %valid = call i32 %is_valid(ptr %capsule, ptr %name)
  %unused = icmp ne i32 %valid, 0
  br i1 %unused, label %delete, label %done
delete:
  %get_pointer = inttoptr i64 {get_pointer} to ptr
  %tensor = call ptr %get_pointer(ptr %capsule, ptr %name)
  call void @deleter(ptr %tensor)
  br label %done
done:
  ret void
}}
"""


class _Record(ctypes.Structure):
    """The target of a capsule; `mark` is set once the capsule is released."""

    _fields_ = (("managed", ManagedTensor), ("mark", ctypes.c_int32))


class _Exports:
    """All capsules that are in use, with the owners of their memory.

    Attributes:
        deleter, destructor: addresses of the code that sets marks.
    """

    def __init__(self) -> None:
        """Compile the deleter and the destructor."""
        initialize_llvm()
        # A consumed capsule has another name, and its consumer calls the deleter; the destructor
        # is for capsules that are never consumed.
        text = _CODE.format(
            manager=ManagedTensor.manager.offset,
            name=ctypes.cast(_NAME, ctypes.c_void_p).value,
            is_valid=_address("PyCapsule_IsValid"),
            get_pointer=_address("PyCapsule_GetPointer"),
        )
        builder = llvm.JITLibraryBuilder().add_ir(text)
        builder.export_symbol("deleter").export_symbol("destructor")
        self._jit = llvm.create_lljit_compiler()
        self._tracker = builder.link(self._jit, "dlpack")
        self.deleter = self._tracker["deleter"]
        self.destructor = self._tracker["destructor"]
        self._lock = threading.Lock()
        self._used: list[tuple[_Record, object]] = []

    def add(self, record: _Record, owner: object) -> None:
        """Keep a record and its owner alive until it is marked."""
        with self._lock:
            self._used.append((record, owner))

    def sweep(self) -> int:
        """Drop marked records; return the number of records in use."""
        with self._lock:
            self._used = [pair for pair in self._used if not pair[0].mark]
            return len(self._used)


@cache
def _exports() -> _Exports:
    result = _Exports()
    # Never freed: other packages call the code and set marks after Python's own objects are gone.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(result))
    return result


def _address(function: str) -> int:
    address = ctypes.cast(getattr(ctypes.pythonapi, function), ctypes.c_void_p).value
    assert address is not None
    return address


def export(
    address: int,
    dims: Sequence[int],
    strides: Sequence[int],
    kind: tuple[int, int],
    device: tuple[int, int],
    owner: object,
) -> Any:
    """Return a capsule `dltensor`; `owner` is kept alive until the consumer is done.

    Args:
        address: of the first element.
        dims: sizes of the dimensions.
        strides: of the dimensions, in elements.
        kind: code and bits of the element type.
        device: kind and number.
        owner: the object that owns the memory.
    """
    exports = _exports()
    exports.sweep()
    sizes = (ctypes.c_int64 * len(dims))(*dims)
    steps = (ctypes.c_int64 * len(strides))(*strides)
    pointer = ctypes.POINTER(ctypes.c_int64)
    record = _Record()
    record.managed.tensor = Tensor(
        address,
        *device,
        len(dims),
        DataType(*kind, 1),
        ctypes.cast(sizes, pointer),
        ctypes.cast(steps, pointer),
        0,
    )
    record.managed.manager = ctypes.addressof(record) + _Record.mark.offset
    record.managed.deleter = exports.deleter
    exports.add(record, (owner, sizes, steps))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(ctypes.addressof(record), _NAME, exports.destructor)


def sweep() -> int:
    """Release memory that is no longer in use; return the number of capsules in use."""
    return _exports().sweep()
