"""The child process ends with its session."""

import gc
import os

import numpy as np
import pytest

import hloc
from hloc.options import CompileOptions
from repl.child import Child
from repl.in_process import InProcess
from tests.waiting import PATIENCE

TEXT = "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT r = f32[2] negate(x)\n}\n"
OPTIONS = CompileOptions(opt_level=0)
INPUT = np.array([1, -2], np.float32)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("kind", [Child, InProcess])
def test_it_answers_and_keeps_programs(kind: type[Child]) -> None:
    child = kind()
    module = hloc.parse(TEXT)
    for _ in range(2):
        answer = child.run(module, OPTIONS, [INPUT], timeout=PATIENCE)
        np.testing.assert_array_equal(answer.outputs[0], -INPUT)
    assert "negate" in str(child.stage(module, OPTIONS, "hlo", PATIENCE))
    with pytest.raises(hloc.HloError, match="expected 1 argument"):
        child.run(module, OPTIONS, [], timeout=PATIENCE)
    child.close()
    assert child.pid is None


def test_more_programs_than_it_keeps_are_sent_again() -> None:
    child = Child()
    modules = [hloc.parse(TEXT.replace("f32[2]", f"f32[{size}]")) for size in range(1, 10)]
    for module in [*modules, *modules]:
        array = np.ones(module.entry.root.array.dims, np.float32)
        assert child.run(module, OPTIONS, [array], timeout=PATIENCE).outputs[0][0] == -1
    child.close()


def test_it_ends_with_the_session() -> None:
    child = Child()
    child.run(hloc.parse(TEXT), OPTIONS, [INPUT], timeout=PATIENCE)
    pid = child.pid
    assert pid is not None
    assert is_alive(pid)
    del child
    gc.collect()
    assert not is_alive(pid)
