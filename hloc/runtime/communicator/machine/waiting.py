"""LLVM text of waiting for a word to change: by futexes on Linux, else by a condition variable."""

from __future__ import annotations

from hloc.codegen.cpu.thread_pool import pause_text
from hloc.codegen.llvm.target import Target

NEEDED = frozenset({"syscall", "pthread_mutex_lock", "pthread_mutex_unlock"}) | {
    "pthread_cond_wait",
    "pthread_cond_broadcast",
}
"""Functions of the C library that the text calls."""

_FUTEX_NUMBERS = {"x86_64": 202, "aarch64": 98}
_WAIT_PRIVATE, _WAKE_PRIVATE = 128, 129

_FUTEX = """
declare i64 @syscall(i64, ...)
define internal i64 @sleep(i64 %address, i64 %value) nounwind {
  %low = and i64 %value, 4294967295
  %done = call i64 (i64, ...) @syscall(i64 NUMBER, i64 %address, i64 WAIT, i64 %low, i64 0, i64 0, i64 0)
  ret i64 0
}
define internal i64 @wake(i64 %address, i64 %count) nounwind {
  %done = call i64 (i64, ...) @syscall(i64 NUMBER, i64 %address, i64 WAKE, i64 %count, i64 0, i64 0, i64 0)
  ret i64 0
}
"""  # noqa: E501

_CONDITION = """
@sleep.mutex = internal global [16 x i64] zeroinitializer, align 64
@sleep.condition = internal global [16 x i64] zeroinitializer, align 64
define internal i64 @sleep(i64 %address, i64 %value) nounwind {
entry:
  %word = inttoptr i64 %address to ptr
  %a = call i64 @pthread_mutex_lock(i64 ptrtoint (ptr @sleep.mutex to i64))
  %now = load atomic i64, ptr %word seq_cst, align 8
  %same = icmp eq i64 %now, %value
  br i1 %same, label %wait, label %done
wait:
  %b = call i64 @pthread_cond_wait(i64 ptrtoint (ptr @sleep.condition to i64), i64 ptrtoint (ptr @sleep.mutex to i64))
  br label %done
done:
  %c = call i64 @pthread_mutex_unlock(i64 ptrtoint (ptr @sleep.mutex to i64))
  ret i64 0
}
define internal i64 @wake(i64 %address, i64 %count) nounwind {
  %a = call i64 @pthread_mutex_lock(i64 ptrtoint (ptr @sleep.mutex to i64))
  %b = call i64 @pthread_cond_broadcast(i64 ptrtoint (ptr @sleep.condition to i64))
  %c = call i64 @pthread_mutex_unlock(i64 ptrtoint (ptr @sleep.mutex to i64))
  ret i64 0
}
"""  # noqa: E501
"""All zeros is a valid mutex and condition variable on Linux, the only system that uses this."""


def waiting_text(target: Target, *, is_linux: bool) -> str:
    """Return functions `sleep`, `wake` and `pause`, described in `stubs.py`."""
    arch = target.triple.split("-")[0]
    pause, declaration = pause_text(target)
    number = _FUTEX_NUMBERS.get(arch)
    text = _CONDITION
    if is_linux and number is not None:
        text = (
            _FUTEX.replace("NUMBER", str(number))
            .replace("WAIT", str(_WAIT_PRIVATE))
            .replace("WAKE", str(_WAKE_PRIVATE))
        )
    head = "define internal i64 @pause() nounwind alwaysinline {"
    return f"{text}\n{declaration}\n{head}\n  {pause}\n  ret i64 0\n}}\n"
