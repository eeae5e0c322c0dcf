"""A function of a kernel as a coroutine that suspends at calls of helpers.

A suspending call splits its basic block. Branches go to the first part, which keeps the name; phis
refer to the predecessor, hence to the last part.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field

from hloc.codegen.gpu.helpers import HELPERS
from hloc.codegen.gpu.host.arithmetic import ARITHMETIC
from hloc.codegen.gpu.host.structures import STRUCTURES
from hloc.codegen.gpu.kernel import GpuFunction
from hloc.errors import UnsupportedError
from hloc.lazy_dataclass import dataclass

_CALL = re.compile(r"^  (?:(%[\w.]+) = )?call [^@(]*(?:\([^@]*\) )?[^@]*@gpu\.([\w.]+)\((.*)\)$")
_LABEL = re.compile(r"^([\w.]+):$")
_FROM = re.compile(r"(, %)([\w.]+)( \])")

_WAITS = STRUCTURES.enum("Waits")

_EXCHANGES = ("shuffle.", "load_matrix.", "multiply_tiles.")
_KNOWN = (*_EXCHANGES, "thread.", "block.", "copy_async.")


def exchanges_of(f: GpuFunction) -> list[str]:
    """Return the helpers by which the lanes of a warp exchange values."""
    return [name for name in f.helpers if name.startswith(_EXCHANGES)]


def waits(f: GpuFunction) -> bool:
    """True if the threads of a function wait for each other."""
    return any(HELPERS[name].scope != "thread" for name in f.helpers)


@dataclass(slots=True)
class Coroutine:
    """The text of one function.

    Attributes:
        sites: the helper that is called at each place where a thread can wait, from 1 on.
    """

    text: str
    sites: list[str]


def coroutine(f: GpuFunction) -> Coroutine:
    """Return `ptr @NAME(ptr arguments, i32 thread)`, which runs until the thread first waits.

    Raises:
        UnsupportedError: it calls a helper that is unknown here.
    """
    for name in f.helpers:
        known = name.startswith(_KNOWN) or name in ARITHMETIC
        if not (known or name in ("barrier", "warp_barrier")):
            raise UnsupportedError(f"the host build has no function {name}")
    body = _Body(f)
    for line in f.body.splitlines()[1:-2]:  # between the first label and the last return
        body.add(line)
    begin, end = (_BEGIN, _END) if waits(f) else ("", _PLAIN_END)
    lines = [
        f"define ptr @{f.name}(ptr %host.arguments, i64 %host.thread)"
        f"{' presplitcoroutine' if waits(f) else ''} {{",
        "entry:",
        *begin.splitlines(),
        *_prologue(f),
        *body.finished(),
        _stop(_WAITS["ENDED"], 0),
        *end.splitlines(),
        "}",
    ]
    return Coroutine("\n".join(lines), body.sites)


_BEGIN = """\
  %host.id = call token @llvm.coro.id(i32 64, ptr null, ptr null, ptr null)
  %host.size = call i64 @llvm.coro.size.i64()
  %host.frame = call i64 @host_frame(i64 %host.thread, i64 %host.size)
  %host.memory = inttoptr i64 %host.frame to ptr
  %host.fails = icmp eq ptr %host.memory, null
  br i1 %host.fails, label %host.failed, label %host.begin
host.failed:
  ret ptr null
host.begin:
  %host.handle = call ptr @llvm.coro.begin(token %host.id, ptr %host.memory)"""

_END = """\
  %host.last = call i8 @llvm.coro.suspend(token none, i1 true)
  switch i8 %host.last, label %host.suspend [i8 0, label %host.trap i8 1, label %host.suspend]
host.trap:
  unreachable
host.suspend:
  call void @llvm.coro.end(ptr %host.handle, i1 false, token none)
  ret ptr %host.handle"""

_PLAIN_END = "  ret ptr null"


def _prologue(f: GpuFunction) -> list[str]:
    """Return the lines that load the arguments and compute the thread's indices."""
    lines = []
    for number, parameter in enumerate(f.parameters):
        name = parameter.rsplit(" ", 1)[1]
        lines.append(f"  {name}.place = getelementptr ptr, ptr %host.arguments, i32 {number}")
        lines.append(f"  {name} = load ptr, ptr {name}.place")
    width, height, _ = f.block
    fields = STRUCTURES.layout("State").fields
    places = {axis: f"getelementptr (i8, ptr @state, i64 {fields[axis].offset})" for axis in "xyz"}
    return [
        *lines,
        "  %host.number = trunc i64 %host.thread to i32",
        f"  %host.thread.x = urem i32 %host.number, {width}",
        f"  %host.line = udiv i32 %host.number, {width}",
        f"  %host.thread.y = urem i32 %host.line, {height}",
        f"  %host.thread.z = udiv i32 %host.line, {height}",
        *(f"  %host.block.{axis} = load i32, ptr {place}" for axis, place in places.items()),
    ]


@dataclass(slots=True)
class _Body:
    """The rewritten lines of a function."""

    f: GpuFunction
    lines: list[str] = field(default_factory=list)
    sites: list[str] = field(default_factory=list)
    _block: str = "entry"
    _last_part: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if waits(self.f):
            self._last_part["entry"] = "host.begin"

    def add(self, line: str) -> None:
        """Add a line of the original."""
        if label := _LABEL.match(line):
            self._block = label[1]
        found = _CALL.match(line)
        if found is None:
            self.lines.append(line)
            return
        result, name, arguments = found.groups()
        row = HELPERS[name]
        texts = zip(row.arguments, _split(arguments), strict=True)
        self._call(result, name, [text.removeprefix(kind).strip() for kind, text in texts])

    def finished(self) -> list[str]:
        """Return the lines; phis refer to the last parts of blocks."""
        return [
            _FROM.sub(lambda m: m[1] + self._last_part.get(m[2], m[2]) + m[3], line)
            if " = phi " in line
            else line
            for line in self.lines
        ]

    def _call(self, result: str | None, name: str, given: Sequence[str]) -> None:
        if name.startswith(("thread.", "block.")):
            self.lines.append(f"  {result} = add i32 %host.{name}, 0")
        elif name in ARITHMETIC:
            row = HELPERS[name]
            texts = zip(row.arguments, given, strict=True)
            operands = ", ".join(f"{kind} {text}" for kind, text in texts)
            self.lines.append(f"  {result} = call {row.result} @host.{name}({operands})")
        elif name.startswith("copy_async."):
            self._copy(name, given)
        elif name in ("barrier", "warp_barrier"):
            self._wait(name, "FOR_BLOCK" if name == "barrier" else "FOR_WARP")
        else:
            self._exchange(result, name, given)

    def _copy(self, name: str, given: Sequence[str]) -> None:
        thread, number = "i64 %host.thread", len(self.lines)
        if name == "copy_async.commit":
            self.lines.append(f"  %host.done{number} = call i64 @host_commit({thread})")
        elif name.startswith("copy_async.wait."):
            left = name.rsplit(".", 1)[1]
            self.lines.append(f"  %host.done{number} = call i64 @host_wait({thread}, i64 {left})")
        else:
            size = f"%host.bytes{number}"
            target, source = f"%host.target{number}", f"%host.source{number}"
            self.lines += [
                f"  {target} = ptrtoint ptr addrspace(3) {given[0]} to i64",
                f"  {source} = ptrtoint ptr addrspace(1) {given[1]} to i64",
                f"  {size} = zext i32 {given[2] if len(given) > 2 else '16'} to i64",
                f"  %host.done{number} = call i64 @host_copy"
                f"({thread}, i64 {target}, i64 {source}, i64 {size})",
            ]

    def _exchange(self, result: str | None, name: str, given: Sequence[str]) -> None:
        """Publish the operands for other lanes, wait for theirs, and compute the result."""
        kinds = list(HELPERS[name].arguments)
        given = list(given)
        number = len(self.sites) + 1
        if name.startswith("load_matrix."):
            self.lines.append(
                f"  %host.row{number} = addrspacecast ptr addrspace(3) {given[0]} to ptr"
            )
            kinds, given = ["ptr"], [f"%host.row{number}"]
        handed = 6 if name.startswith("multiply_tiles.") else 1
        slot = f"%host.slot{number}"
        self.lines.append(f"  {slot}.address = call i64 @host_next_slot(i64 %host.thread)")
        self.lines.append(f"  {slot} = inttoptr i64 {slot}.address to ptr")
        for word, (kind, text) in enumerate(zip(kinds[:handed], given[:handed], strict=True)):
            self.lines.append(f"  {slot}.{word} = getelementptr i32, ptr {slot}, i32 {word}")
            self.lines.append(f"  store {kind} {text}, ptr {slot}.{word}")
        self._wait(name, "FOR_WARP")
        operands = ", ".join(f"{kind} {text}" for kind, text in zip(kinds, given, strict=True))
        kind = HELPERS[name].result
        self.lines.append(f"  {result} = call {kind} @host.{name}(i64 %host.thread, {operands})")

    def _wait(self, name: str, waits_for: str) -> None:
        self.sites.append(name)
        number = len(self.sites)
        after, way = f"host.after{number}", f"%host.way{number}"
        self.lines += [
            _stop(_WAITS[waits_for], number),
            f"  {way} = call i8 @llvm.coro.suspend(token none, i1 false)",
            f"  switch i8 {way}, label %host.suspend"
            f" [i8 0, label %{after} i8 1, label %host.suspend]",
            f"{after}:",
        ]
        self._last_part[self._block] = after


def _stop(waits: int, site: int) -> str:
    """Return the call that records where this thread stops."""
    return f"  %host.stop{site} = call i64 @host_stop(i64 %host.thread, i64 {waits}, i64 {site})"


def _split(arguments: str) -> list[str]:
    """Return the parts between the commas that no parentheses enclose."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(arguments):
        depth += (letter in "({[") - (letter in ")}]")
        if letter == "," and not depth:
            parts.append(arguments[start:at].strip())
            start = at + 1
    return [*parts, arguments[start:].strip()] if arguments else []
