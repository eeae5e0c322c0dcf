"""Ctrl-C ends a loop that would never end."""

import os
import signal
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

import hloc
from hloc.runtime.interrupt import interruptible
from tests.waiting import wait_until

FOREVER = """HloModule m
c { i = s32[] parameter(0)
  ROOT t = pred[] constant(true) }
b { i = s32[] parameter(0)
  ROOT n = s32[] negate(i) }
ENTRY e { z = s32[] parameter(0)
  ROOT w = s32[] while(z), condition=c, body=b }"""


@pytest.fixture
def heeded_ctrl_c() -> Iterator[None]:
    """Undo what a shell does to a program in the background, which then ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
@pytest.mark.usefixtures("heeded_ctrl_c")
def test_an_endless_loop_is_interrupted() -> None:
    run = hloc.compile(FOREVER, opt_level=0)
    pid = os.getpid()

    def interrupt() -> None:
        wait_until(lambda: time.process_time() - start > 0.3, "the loop runs")
        os.kill(pid, signal.SIGINT)

    sender = threading.Thread(target=interrupt)
    start = time.process_time()
    with interruptible():
        sender.start()
        with pytest.raises(KeyboardInterrupt):
            run(np.int32(1))
    sender.join()
    assert time.process_time() - start < 20


def test_loops_run_again_afterwards() -> None:
    text = FOREVER.replace("pred[] constant(true)", "pred[] compare(i, k), direction=LT").replace(
        "c { i = s32[] parameter(0)", "c { i = s32[] parameter(0)\n k = s32[] constant(0)"
    )
    run = hloc.compile(text, opt_level=0)
    with interruptible():
        assert run(np.int32(-5))[0] == 5
    assert run(np.int32(-6))[0] == 6


def test_other_threads_may_use_it_without_effect() -> None:
    seen = []

    def work() -> None:
        with interruptible():
            seen.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [True]


def test_where_no_sockets_are_allowed_code_runs_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> None:
        raise PermissionError

    monkeypatch.setattr("hloc.runtime.interrupt.socket.socketpair", refuse)
    with interruptible():
        threads = [thread.name for thread in threading.enumerate()]
    assert "hloc-interrupt" not in threads
