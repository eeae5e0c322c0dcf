"""Exchanges among the lanes of a warp, executed when every lane has passed its operands.

Each function takes the thread's number and the operands of its helper, and reads the slots of other
lanes. Fragments are laid out as in PTX: lane 4g + q has rows g and g + 8 of the left operand,
column g of the right operand, and columns 2q and 2q + 1 of the result.
Source: PTX ISA, "Matrix multiply-accumulate operation using mma instruction".
"""

from __future__ import annotations

from dataclasses import field

from hloc.codegen.gpu.helpers import HELPERS, WARP_THREADS
from hloc.lazy_dataclass import dataclass

_PARTNERS = {
    "xor": "xor i64 %lane, %far",
    "up": "sub i64 %lane, %far",
    "down": "add i64 %lane, %far",
}
_ELEMENTS = {"bf16": 2, "f16": 2, "tf32": 1, "s8": 4, "u8": 4}
"""Numbers in one word of a fragment."""


@dataclass(slots=True)
class _Text:
    """The lines of one function."""

    lines: list[str] = field(default_factory=list)

    def value(self, text: str) -> str:
        name = f"%x{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name


def exchange_text(name: str) -> str:
    """Return the definition of `@host.<name>`."""
    if name.startswith("shuffle."):
        return _shuffle(name)
    return _multiply(name) if name.startswith("multiply_tiles.") else _load(name)


def _shuffle(name: str) -> str:
    _, how, kind = name.split(".")
    t = _Text()
    t.lines += [
        f"  %lane = and i64 %thread, {WARP_THREADS - 1}",
        f"  %first = and i64 %thread, {-WARP_THREADS}",
        "  %far = zext i32 %by to i64",
    ]
    wanted = t.value(_PARTNERS.get(how, f"and i64 %far, {WARP_THREADS - 1}"))
    exists = t.value(f"icmp ult i64 {wanted}, {WARP_THREADS}")
    chosen = t.value(f"select i1 {exists}, i64 {wanted}, i64 %lane")
    word = _word(t, t.value(f"or i64 %first, {chosen}"), 0)
    if kind == "float":
        word = t.value(f"bitcast i32 {word} to float")
    head = f"define internal {kind} @host.{name}(i64 %thread, {kind} %value, i32 %by) {{"
    return "\n".join([head, *t.lines, f"  ret {kind} {word}", "}"])


def _load(name: str) -> str:
    """Return `load_matrix`: 4 tiles of 8 rows; lanes 8m to 8m + 7 have the addresses of tile m."""
    is_transposed = name.endswith(".transposed")
    t = _Text()
    t.lines += _PLACES
    result = "poison"
    for tile in range(4):
        if is_transposed:
            halves = [t.value("shl i64 %q, 1")]
            halves.append(t.value(f"or i64 {halves[0]}, 1"))
            low, high = (
                t.value(f"zext i16 {_element(t, tile, row, 'i16', '%g')} to i32") for row in halves
            )
            word = t.value(f"or i32 {low}, {t.value(f'shl i32 {high}, 16')}")
        else:
            word = _element(t, tile, "%g", "i32", "%q")
        result = t.value(f"insertvalue {HELPERS[name].result} {result}, i32 {word}, {tile}")
    head = f"define internal {HELPERS[name].result} @host.{name}(i64 %thread, ptr %row) noinline {{"
    return "\n".join([head, *t.lines, f"  ret {HELPERS[name].result} {result}", "}"])


_PLACES = [
    f"  %lane = and i64 %thread, {WARP_THREADS - 1}",
    f"  %first = and i64 %thread, {-WARP_THREADS}",
    "  %g = lshr i64 %lane, 2",
    "  %q = and i64 %lane, 3",
]


def _element(t: _Text, tile: int, row: str, kind: str, column: str) -> str:
    lane = t.value(f"add i64 {t.value(f'add i64 %first, {8 * tile}')}, {row}")
    slot = t.value(f"call i64 @host_slot(i64 %thread, i64 {lane})")
    start = t.value(f"load ptr, ptr {t.value(f'inttoptr i64 {slot} to ptr')}")
    place = t.value(f"getelementptr {kind}, ptr {start}, i64 {column}")
    return t.value(f"load {kind}, ptr {place}")


def _multiply(name: str) -> str:
    """Return the function of one matrix instruction: four results per lane, by loops over k."""
    kind = name.rsplit(".", 1)[1]
    number = "i32" if kind in ("s8", "u8") else "float"
    t = _Text()
    t.lines += [*_PLACES, "  %row = shl i64 %g, 2", "  %column = shl i64 %q, 3"]
    row, column = t.value("add i64 %first, %row"), t.value("add i64 %first, %column")
    sums = {(r, c): f"%c{2 * r + c}" for r in range(2) for c in range(2)}
    for half in range(2):
        for step in range(4):
            lane = t.value(f"add i64 {row}, {step}")
            left = [_word(t, lane, 2 * half + r) for r in range(2)]
            lanes = [t.value(f"add i64 {column}, {4 * c + step}") for c in range(2)]
            right = [_word(t, lanes[c], 4 + half) for c in range(2)]
            for part in range(_ELEMENTS[kind]):
                a, b = ([_number(t, kind, word, part) for word in side] for side in (left, right))
                for (r, c), total in sums.items():
                    sums[r, c] = _multiply_add(t, number, a[r], b[c], total)
    result, shape = "poison", HELPERS[name].result
    for (r, c), total in sums.items():
        result = t.value(f"insertvalue {shape} {result}, {number} {total}, {2 * r + c}")
    given = ", ".join([*(f"i32 %w{i}" for i in range(6)), *(f"{number} %c{i}" for i in range(4))])
    head = f"define internal {shape} @host.{name}(i64 %thread, {given}) noinline {{"
    return "\n".join([head, *t.lines, f"  ret {shape} {result}", "}"])


def _word(t: _Text, lane: str, number: int) -> str:
    word = t.value(f"call i64 @host_word(i64 %thread, i64 {lane}, i64 {number})")
    return t.value(f"trunc i64 {word} to i32")


def _number(t: _Text, kind: str, word: str, part: int) -> str:
    """Return number `part` of a word, converted for the multiplication."""
    if kind == "tf32":
        return t.value(f"bitcast i32 {t.value(f'and i32 {word}, -8192')} to float")
    bits = 32 // _ELEMENTS[kind]
    shifted = t.value(f"lshr i32 {word}, {bits * part}") if part else word
    if kind == "bf16":
        return t.value(f"bitcast i32 {t.value(f'shl i32 {shifted}, 16')} to float")
    short = t.value(f"trunc i32 {shifted} to i{bits}")
    if kind == "f16":
        return t.value(f"fpext half {t.value(f'bitcast i16 {short} to half')} to float")
    return t.value(f"{'sext' if kind == 's8' else 'zext'} i8 {short} to i32")


def _multiply_add(t: _Text, number: str, a: str, b: str, total: str) -> str:
    if number == "i32":
        return t.value(f"add i32 {total}, {t.value(f'mul i32 {a}, {b}')}")
    return t.value(f"call float @llvm.fma.f32(float {a}, float {b}, float {total})")
