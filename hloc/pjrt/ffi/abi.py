"""The structures of the XLA FFI, as in `xla/ffi/api/c_api.h` of `jax.ffi.include_dir()`."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from hloc.codegen.llvm.structures import Structures
from hloc.dtypes import DType

MAJOR_VERSION, MINOR_VERSION = 0, 3

_TABLE = """\
enum XLA_FFI_DataType: INVALID=0, PRED=1, S8=2, S16=3, S32=4, S64=5, U8=6, U16=7, U32=8, U64=9,
  F16=10, F32=11, F64=12, C64=15, BF16=16, TOKEN=17, C128=18, F8E5M2=19, F8E4M3FN=20, S4=21, U4=22,
  F8E4M3B11FNUZ=23, F8E5M2FNUZ=24, F8E4M3FNUZ=25, S2=26, U2=27, F8E4M3=28, F8E3M4=29, S1=30, U1=31,
  F4E2M1FN=32, F8E8M0FNU=33
enum XLA_FFI_AttrType: ARRAY=1, DICTIONARY=2, SCALAR=3, STRING=4
enum XLA_FFI_ExecutionStage: INSTANTIATE=0, PREPARE=1, INITIALIZE=2, EXECUTE=3
struct XLA_FFI_Api_Version: ..., int major_version, int minor_version
struct XLA_FFI_Buffer: ..., int dtype, void* data, int64_t rank, int64_t* dims
struct XLA_FFI_ByteSpan: char* ptr, size_t len
struct XLA_FFI_Scalar: int dtype, void* value
struct XLA_FFI_Array: int dtype, size_t size, void* data
struct XLA_FFI_Args: ..., int64_t size, int* types, void** values
struct XLA_FFI_Attrs: ..., int64_t size, int* types, XLA_FFI_ByteSpan** names, void** attrs
struct XLA_FFI_CallFrame: ..., XLA_FFI_Api* api, void* ctx, int stage, XLA_FFI_Args args,
  XLA_FFI_Args rets, XLA_FFI_Attrs attrs, void* future
struct XLA_FFI_Api: ..., XLA_FFI_Api_Version api_version, void* internal_api,
  void* XLA_FFI_Error_Create, void* XLA_FFI_Error_GetMessage, void* XLA_FFI_Error_Destroy,
  void* XLA_FFI_Handler_Register, void* XLA_FFI_Stream_Get, void* XLA_FFI_Type_Register,
  void* XLA_FFI_ExecutionContext_Get, void* XLA_FFI_State_Set, void* XLA_FFI_State_Get,
  void* XLA_FFI_DeviceMemory_Allocate, void* XLA_FFI_DeviceMemory_Free,
  void* XLA_FFI_ThreadPool_Schedule, void* XLA_FFI_ThreadPool_NumThreads,
  void* XLA_FFI_Future_Create, void* XLA_FFI_Future_SetAvailable, void* XLA_FFI_Future_SetError,
  void* XLA_FFI_RunId_Get, void* XLA_FFI_DeviceOrdinal_Get
struct XLA_FFI_Error_Create_Args: ..., char* message, int errc
struct XLA_FFI_Error_GetMessage_Args: ..., void* error, char* message
struct XLA_FFI_Error_Destroy_Args: ..., void* error
struct XLA_FFI_Handler_Register_Args: ..., XLA_FFI_ByteSpan name, XLA_FFI_ByteSpan platform
struct XLA_FFI_Stream_Get_Args: ..., void* ctx, void* stream
struct XLA_FFI_Type_Register_Args: ..., XLA_FFI_ByteSpan name, int64_t* type_id, void* type_info
struct XLA_FFI_ExecutionContext_Get_Args: ..., void* ctx, int64_t* type_id, void* data
struct XLA_FFI_State_Set_Args: ..., void* ctx, int stage, int64_t* type_id, void* state
struct XLA_FFI_State_Get_Args: ..., void* ctx, int stage, int64_t* type_id, void* state
struct XLA_FFI_DeviceMemory_Allocate_Args: ..., void* ctx, size_t size, size_t alignment, void* data
struct XLA_FFI_DeviceMemory_Free_Args: ..., void* ctx, size_t size, void* data
struct XLA_FFI_ThreadPool_Schedule_Args: ..., void* ctx, void* task, void* data
struct XLA_FFI_ThreadPool_NumThreads_Args: ..., void* ctx, int64_t* num_threads
struct XLA_FFI_Future_Create_Args: ..., void* future
struct XLA_FFI_Future_SetAvailable_Args: ..., void* future
struct XLA_FFI_Future_SetError_Args: ..., void* future, void* error
struct XLA_FFI_RunId_Get_Args: ..., void* ctx, int64_t run_id
struct XLA_FFI_DeviceOrdinal_Get_Args: ..., void* ctx, int device_ordinal
"""

STRUCTURES = Structures(_TABLE.replace("...", "size_t struct_size, void* extension_start"))
ATTRIBUTE = STRUCTURES.enum("XLA_FFI_AttrType")
STAGE = STRUCTURES.enum("XLA_FFI_ExecutionStage")


def new(name: str, **fields: Any) -> Any:
    """Return a structure with these fields, and `struct_size` if it has that field."""
    structure = STRUCTURES.structure(name)(**fields)
    if "struct_size" in STRUCTURES.layout(name).fields:
        structure.struct_size = ctypes.sizeof(structure)
    return structure


def data_type(name: str) -> int:
    """Return the number of an element type by HLO's name, 0 if it has none."""
    return _numbers().get(name, 0)


def data_type_of(dtype: DType) -> int:
    """Return the number of an element type."""
    return data_type(dtype.name)


@cache
def _numbers() -> dict[str, int]:
    return {name.lower(): n for name, n in STRUCTURES.enum("XLA_FFI_DataType").items()}
