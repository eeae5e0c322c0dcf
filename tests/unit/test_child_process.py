"""A child process answers, is renewed, and may die; in long use compiling moves to one."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from hloc.child_process import Answer, Child, answer_messages
from hloc.codegen.llvm import object_child
from hloc.codegen.llvm.object_child import compile_in_long_use
from hloc.codegen.llvm.object_file import compile_object, pass_builders
from hloc.codegen.llvm.target import host_target
from hloc.errors import InternalError
from tests.waiting import PATIENCE, wait_until

TEXT = "define i32 @f(i32 %x) {\n  %y = add i32 %x, 1\n  ret i32 %y\n}\n"


def serve() -> None:
    """What the children of these tests run."""
    answer_messages(_answer)


def _answer(value: Any, blocks: list[bytearray]) -> Answer:
    if value == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if value == "hang":
        signal.pause()
    return [os.getpid(), value], [block[::-1] for block in blocks]


@pytest.fixture
def child() -> Iterator[Child]:
    made = Child(__name__)
    yield made
    made.end()


def test_one_process_answers_again_and_again(child: Child) -> None:
    (first, value), blocks = child.ask({"a": 1}, [b"abc", b""])
    assert (value, [bytes(block) for block in blocks]) == ({"a": 1}, [b"cba", b""])
    child.start()
    assert child.ask(None)[0] == [first, None]


def test_another_process_follows_after_so_many_answers() -> None:
    child = Child(__name__, most_answers=2)
    processes = [child.ask(None)[0][0] for _ in range(6)]
    child.end()
    assert processes == [p for p in dict.fromkeys(processes) for _ in range(2)]
    assert len(set(processes)) == 3
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_death_is_told_and_the_next_question_starts_another(child: Child) -> None:
    first = child.ask(None)[0][0]
    with pytest.raises(EOFError):
        child.ask("die")
    assert child.ask(None)[0][0] != first


def test_the_end_comes_while_another_thread_waits(child: Child) -> None:
    ended = threading.Event()

    def wait() -> None:
        with pytest.raises(EOFError):
            child.ask("hang")
        ended.set()

    child.ask(None)
    thread = threading.Thread(target=wait)
    thread.start()
    child.end()
    assert ended.wait(PATIENCE)
    thread.join()
    with pytest.raises(EOFError, match="was ended"):
        child.ask(None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_fork_gets_a_child_of_its_own(child: Child) -> None:
    first = child.ask(None)[0][0]
    with child._lock:  # as another thread would hold it
        forked = os.fork()
        if not forked:
            os._exit(0 if child.ask(None)[0][0] != first else 1)
    found: list[int] = []
    wait_until(lambda: bool(_ended(forked, found)), "the fork ends")
    assert found == [0]
    assert child.ask(None)[0][0] == first


def _ended(process: int, found: list[int]) -> list[int]:
    number, status = os.waitpid(process, os.WNOHANG)
    if number:
        found.append(status)
    return found


def test_in_long_use_a_child_compiles_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    here = compile_object(TEXT, host_target(), 2)
    monkeypatch.setattr(pass_builders, "made", object_child.MOST_PASS_BUILDERS)
    assert compile_in_long_use(TEXT, host_target(), 2) == here
    assert pass_builders.made == object_child.MOST_PASS_BUILDERS


def test_a_fault_of_the_text_is_told_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pass_builders, "made", object_child.MOST_PASS_BUILDERS)
    with pytest.raises(InternalError, match="generated LLVM IR is invalid"):
        compile_in_long_use("define void @f() { ret i32 1 }", host_target(), 2)
