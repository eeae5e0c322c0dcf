"""`PJRT_Executable_*` that are called per run, and contexts of runs."""

from __future__ import annotations

from hloc.codegen.llvm.python_subset_stubs import (
    atomic_add,
    call,
    cast,
    free,
    malloc,
    size_of,
    state,
)
from hloc.pjrt.machine.stubs import Args, PJRT_Error, PJRT_Executable, PJRT_ExecuteContext


def drop_executable(executable: PJRT_Executable) -> None:
    """Use `executable` once less; Python frees it after the last use."""
    if atomic_add(executable.refs, -1) == 1 and state.closed == 0:
        call(state.retire, executable.id)


def PJRT_Executable_Destroy(args: Args) -> PJRT_Error:
    drop_executable(args.executable)
    return None


def PJRT_LoadedExecutable_Destroy(args: Args) -> PJRT_Error:
    drop_executable(args.executable)
    return None


def PJRT_LoadedExecutable_GetExecutable(args: Args) -> PJRT_Error:
    atomic_add(args.loaded_executable.refs, 1)
    args.executable = args.loaded_executable
    return None


def PJRT_LoadedExecutable_Delete(args: Args) -> PJRT_Error:
    args.executable.deleted = 1
    return None


def PJRT_ExecuteContext_Create(args: Args) -> PJRT_Error:
    context = cast(PJRT_ExecuteContext, malloc(size_of(PJRT_ExecuteContext)))
    context.type_id = 0
    context.data = None
    args.context = context
    return None


def PJRT_ExecuteContext_Destroy(args: Args) -> PJRT_Error:
    free(args.context)
    return None


def PJRT_FFI_UserData_Add(args: Args) -> PJRT_Error:
    args.context.type_id = args.user_data.type_id
    args.context.data = args.user_data.data
    return None
