"""Objects that child processes compile: in parallel, or because this process has compiled many."""

from __future__ import annotations

import atexit
from functools import cache
from typing import TYPE_CHECKING, Any

from hloc.codegen.llvm.object_file import compile_object, pass_builders
from hloc.codegen.llvm.target import Target

if TYPE_CHECKING:
    from hloc.child_process import Answer, Child

MOST_PASS_BUILDERS = 500
"""Limit per process: llvmlite never frees the callbacks of a pass builder; these take 0.8 MB."""


def object_child(most_answers: int = 0) -> Child:
    """Return a child that compiles objects."""
    from hloc.child_process import Child  # with `subprocess`, which small programs do without

    return Child(__name__, most_answers)


def object_of_child(
    child: Child, text: str, target: Target, level: int, also: frozenset[str]
) -> bytes | None:
    """Return what `compile_object` returns, None for an error of any kind."""
    fields = {name: getattr(target, name) for name in Target.__slots__}
    try:
        _, blocks = child.ask([fields, level, sorted(also)], [text.encode()])
    except (EOFError, OSError, ValueError):
        return None
    return bytes(blocks[0]) if blocks else None


def compile_in_long_use(
    text: str, target: Target, level: int, also: frozenset[str] = frozenset()
) -> bytes:
    """Return what `compile_object` returns, in memory that does not grow with the number of calls.

    After `MOST_PASS_BUILDERS` in this process a child compiles, and after as many another child.
    """
    data = None
    if pass_builders.made >= MOST_PASS_BUILDERS:
        data = object_of_child(_lasting_child(), text, target, level, also)
    # Errors are reported here; the child may have failed for a reason of its own.
    return compile_object(text, target, level, also) if data is None else data


@cache
def _lasting_child() -> Child:
    child = object_child(MOST_PASS_BUILDERS)
    atexit.register(child.end)
    return child


def serve() -> None:
    """Compile the units that arrive; an answer is a block with the object, none on an error."""
    from hloc.child_process import answer_messages

    answer_messages(_answer)


def _answer(value: Any, blocks: list[bytearray]) -> Answer:
    fields, level, names = value
    try:
        data = compile_object(blocks[0].decode(), Target(**fields), level, frozenset(names))
    except Exception:  # the parent compiles it again and reports the error
        return None, []
    return None, [data]
