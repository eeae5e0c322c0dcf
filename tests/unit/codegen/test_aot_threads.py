"""`PREFIX_run_parallel`: a program lends its threads to the kernels of an object."""

from pathlib import Path

import numpy as np
import pytest

from hloc.codegen.cpu.aot.header import c_header
from hloc.codegen.cpu.aot.linkable import Library, build_library
from hloc.options import CompileOptions
from tests.unit.codegen.aot_harness import (
    CXX,
    Array,
    build,
    compiled_of,
    needs_cc,
    run_on_stdin,
    stdin_driver,
    write_library,
)

SORT = """HloModule m
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT l = pred[] compare(a, b), direction=LT }
ENTRY e {
  x = f32[37,20000] parameter(0)
  y = f32[37,20000] cosine(x)
  ROOT s = f32[37,20000] sort(y), dimensions={1}, to_apply=less
}"""
SMALL = "HloModule m\n\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT t = f32[4] tanh(x)\n}\n"

THREADS = """
#include <pthread.h>
typedef struct { void (*task)(void *, int); void *data; int part; } job;
static void *work(void *given) {
  job *j = given;
  j->task(j->data, j->part);
  return 0;
}
static void on_threads(void *context, void (*task)(void *, int), void *data, int count) {
  pthread_t threads[64];
  job jobs[64];
  ++*(int *)context;
  for (int i = 0; i < count; i++) {
    jobs[i].task = task; jobs[i].data = data; jobs[i].part = i;
    if (pthread_create(&threads[i], 0, work, &jobs[i])) exit(3);
  }
  for (int i = 0; i < count; i++) pthread_join(threads[i], 0);
}
static int shared(const void *const *inputs, void *const *outputs, void *temp) {
  int regions = 0;
  m_threads threads = {on_threads, &regions, %(workers)s, 0};
  threads.scratch = aligned_alloc(M_ALIGNMENT, M_WORKER_BYTES * 64 + M_ALIGNMENT);
  const int status = m_run_parallel(inputs, outputs, temp, &threads);
  if (!regions) return 4;
  free(threads.scratch);
  return status;
}
static int alone(const void *const *inputs, void *const *outputs, void *temp) {
  return m_run_parallel(inputs, outputs, temp, 0);
}
int main(void)"""


def arrays_for(library: Library) -> list[Array]:
    (shape,) = (argument.shape for argument in library.interface.arguments)
    return [np.random.default_rng(3).normal(size=shape.dims).astype(np.float32)]


def source(library: Library, run: str, workers: int = 1) -> str:
    threads = THREADS.replace("%(workers)s", str(workers))
    return stdin_driver(library, run).replace("int main(void)", threads)


@needs_cc
@pytest.mark.parametrize("processors", [(), ("x86-64-v2", "x86-64-v3")], ids=["one", "several"])
def test_threads_of_a_program_give_the_same_bits(
    tmp_path: Path, processors: tuple[str, ...]
) -> None:
    """With memory of their own for each thread; zero workers are one."""
    library = build_library(compiled_of(SORT, _options(processors)), processors=processors)
    assert library.interface.worker_bytes
    write_library(tmp_path, "m", library)
    arrays = arrays_for(library)
    quiet = ("-Wno-unused-function", "m.o", "-lpthread")
    want = run_on_stdin([build(tmp_path, source(library, "m_run"), *quiet)], arrays)
    assert want == run_on_stdin([build(tmp_path, source(library, "alone"), *quiet)], arrays)
    for workers in (0, 1, 2, 7):
        program = build(tmp_path, source(library, "shared", workers), *quiet)
        assert run_on_stdin([program], arrays) == want, workers


def _options(processors: tuple[str, ...]) -> CompileOptions | None:
    return CompileOptions(triple="x86_64", cpu=processors[0]) if processors else None


def test_small_modules_have_no_second_function() -> None:
    library = build_library(compiled_of(SMALL))
    assert library.interface.worker_bytes is None
    assert "parallel" not in c_header(library.interface)


@needs_cc
@pytest.mark.skipif(not CXX, reason="there is no C++ compiler")
def test_the_header_is_cpp(tmp_path: Path) -> None:
    library = build_library(compiled_of(SORT))
    write_library(tmp_path, "m", library)
    call = "m_threads t{}; return m_run_parallel(nullptr, nullptr, nullptr, &t);"
    build(tmp_path, f'#include "m.h"\nint main() {{ {call} }}', "m.o", compiler=CXX)


def test_objects_start_no_threads_by_themselves() -> None:
    assert not any("pthread" in name for name in build_library(compiled_of(SORT)).needs)
