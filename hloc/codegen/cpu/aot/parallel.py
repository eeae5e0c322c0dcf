"""The second function of an object, for programs that share large kernels among their own threads.

    int PREFIX_run_parallel(const void *const *inputs, void *const *outputs, void *temp,
                            const PREFIX_threads *threads)

An object starts no threads and keeps no state; the program decides how parts of a kernel reach its
threads. See `codegen/cpu/split_routine.py` for how the code uses them.
"""

from __future__ import annotations

from collections.abc import Iterator

from hloc.codegen.cpu.aot.interface import Interface


def parallel_name(interface: Interface) -> str:
    """Return the name of the function."""
    return f"{interface.prefix}_run_parallel"


def parallel_declaration(interface: Interface) -> Iterator[str]:
    """Yield the lines of the header, none if no kernel is large enough to be shared."""
    if interface.worker_bytes is None:
        return
    prefix, upper = interface.prefix, interface.prefix.upper()
    yield "/* Threads that share the large kernels of one run. parallel_for calls task(data, part)"
    yield " * once for every part from 0 to count - 1, on any threads, at once or one after the"
    yield " * other, and returns when all calls have. count is never above workers. The results are"
    yield " * the same bits for every number of workers. */"
    yield f"typedef struct {prefix}_threads {{"
    yield "  void (*parallel_for)(void *context, void (*task)(void *data, int part), void *data,"
    yield "                       int count);"
    yield "  void *context; /* handed to parallel_for */"
    yield "  int workers;   /* how many threads may work, the caller's included */"
    yield f"  void *scratch; /* (workers - 1) * {upper}_WORKER_BYTES bytes, aligned like temp */"
    yield f"}} {prefix}_threads;"
    yield f"#define {upper}_WORKER_BYTES {interface.worker_bytes}"
    yield ""
    yield f"/* The same as {prefix}_run with the help of threads; null stands for none. Runs at the"
    yield " * same time have a temp and a scratch each. */"
    yield f"int {parallel_name(interface)}(const void *const *inputs, void *const *outputs,"
    yield f"    void *temp, const {prefix}_threads *threads);"
    yield ""
