"""The child process that works on modules: `python -m hloc.web.worker`.

It reads questions from stdin and writes answers to stdout, within a memory limit; the server limits
the time. Compiled code runs in a child of this process, as in a session.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import IO, Any

from hloc.child_process import answer_stream
from hloc.framing import read_message, write_message
from hloc.python_process import limit_this_process
from hloc.web.limits import FILE_BYTES, MEMORY_BYTES


def main() -> int:
    """Answer questions until stdin ends."""
    limit_this_process(MEMORY_BYTES, FILE_BYTES)
    from hloc.web.answers import Answerer

    answers = answer_stream()
    write_message(answers, {})  # ready
    answer_questions(sys.stdin.buffer, answers, Answerer().answer, MEMORY_BYTES)
    return 0


def answer_questions(
    questions: IO[bytes],
    answers: IO[bytes],
    answer_to: Callable[[dict[str, Any]], dict[str, Any]],
    memory_bytes: int,
) -> None:
    """Answer questions until there are no more; an error becomes the answer to its question.

    Args:
        questions: the stream to read.
        answers: the stream to write.
        answer_to: returns the answer to a question.
        memory_bytes: the memory limit of this process, for messages.
    """
    while True:
        try:
            question, _ = read_message(questions)
        except EOFError:
            return
        try:
            answer = answer_to(question)
        except MemoryError:
            answer = {"faults": [_fault(f"it needs more than {memory_bytes >> 30} GiB of memory")]}
        except RecursionError:
            answer = {"faults": [_fault("it is nested too deeply")]}
        except Exception as fault:
            answer = {"faults": [_fault(f"internal error: {type(fault).__name__}: {fault}")]}
        write_message(answers, answer)


def _fault(message: str) -> dict[str, object]:
    return {"message": message, "notes": [], "code": "", "line": None}


if __name__ == "__main__":
    sys.exit(main())
