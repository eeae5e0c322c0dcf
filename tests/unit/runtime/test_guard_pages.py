"""No generated code touches a byte outside of its arrays.

The runs are in child processes, since a fault ends the process.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from hloc.driver import optimise, parse_text
from hloc.memory.heap import Request
from hloc.options import CompileOptions
from tests.guard_pages import GuardedPacking, compile_guarded, run_guarded
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[3]
MODULES = sorted((ROOT / "tests" / "guarded").glob("*.hlo"))
EXAMPLES = sorted((ROOT / "examples").glob("*.hlo"))
CORPUS = sorted((ROOT.parent / "conformance" / "corpus" / "visible" / "modules").glob("*.hlo"))
CORPUS_STEP = 200
"""Files of the corpus per child process."""

NEGATE = """HloModule m

ENTRY e {
  x = f32[5] parameter(0)
  ROOT y = f32[5] negate(x)
}
"""


def guarded_run(files: Sequence[Path], timeout: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "tests" / "guarded_run.py", *files],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def check(files: Sequence[Path], timeout: float) -> None:
    done = guarded_run(files, timeout)
    last = done.stdout.splitlines()[-3:]
    assert done.returncode == 0, f"exit {done.returncode} in or after {last}\n{done.stderr[-2000:]}"


def test_own_modules_stay_inside_their_arrays() -> None:
    """One module per emitter, with sizes that no vector width divides."""
    assert len(MODULES) > 10
    check(MODULES, timeout=PATIENCE)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_stay_inside_their_arrays(example: Path) -> None:
    check([example], timeout=PATIENCE)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, len(CORPUS), CORPUS_STEP))
def test_corpus_stays_inside_its_arrays(first: int) -> None:
    """Collected where the conformance corpus lies beside the checkout."""
    check(CORPUS[first : first + CORPUS_STEP], timeout=1800)


@pytest.mark.parametrize("at_end", [True, False])
def test_packing_leaves_a_free_page_on_both_sides(at_end: bool) -> None:
    requests = [Request(size, 0, 9) for size in (1, 4095, 4096, 4097, 20_000)]
    packing = GuardedPacking(at_end)(requests)
    pages: list[tuple[int, int]] = []
    for request, offset in zip(requests, packing.offsets, strict=True):
        stop = offset + request.size_bytes
        assert (stop if at_end else offset) % 4096 == 0
        pages.append((offset // 4096, -(-stop // 4096)))
    assert pages[0][0] >= 1
    assert packing.total_bytes // 4096 > pages[-1][1] - 1
    for (_, stop), (first, _) in pairwise(pages):
        assert first > stop


def test_reading_past_the_end_is_a_fault() -> None:
    """The guard must be able to fail: a longer vector than the argument that is there."""
    script = (
        "import ctypes\n"
        "from tests.guard_pages import _GuardedBytes\n"
        "place = _GuardedBytes(20, True)\n"
        "ctypes.string_at(place.address, 20)\n"
        "print('inside', flush=True)\n"
        "ctypes.string_at(place.address, 21)\n"
        "print('outside', flush=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode != 0
    assert done.stdout == "inside\n"


def test_a_guarded_run_gives_the_results() -> None:
    module = parse_text(NEGATE)
    options = CompileOptions()
    optimise(module, options)
    compiled = compile_guarded(module, options, at_end=True)
    (found,) = run_guarded(compiled, [np.arange(5, dtype=np.float32)], at_end=True)
    np.testing.assert_array_equal(found, -np.arange(5, dtype=np.float32))
