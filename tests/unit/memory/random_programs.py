"""Random modules of loops, branches, calls and updates, for tests of buffers.

Arrays are f32[6,2,2]; the bodies permute, duplicate, hand on and update the leaves of their state,
whose layouts differ.
"""

import random
from dataclasses import dataclass, field

ARRAY = "f32[6,2,2]"
_LAYOUTS = ("{2,1,0}", "{0,2,1}", "{1,0,2}")


@dataclass
class Writer:
    """Writes computations of one module; `done` holds the finished ones."""

    rng: random.Random
    done: list[str] = field(default_factory=list)
    names: int = 0

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def tuple_shape(self, count: int, first: str = "") -> str:
        """Return the shape of a tuple of arrays in any layouts, after one of `first`."""
        elements = [ARRAY + self.rng.choice(_LAYOUTS) for _ in range(count)]
        return "(" + ", ".join([first] * bool(first) + elements) + ")"


def random_module(seed: int) -> str:
    """Return the text of a module with 1 to 4 parameters of type f32[6,2,2]."""
    w = Writer(random.Random(seed))
    count = w.rng.randint(1, 4)
    lines, arrays = [], []
    for i in range(count):
        name = w.name("p")
        lines.append(f"{name} = {ARRAY} parameter({i})")
        arrays.append(name)
    results = _straight_line(w, lines, arrays, depth=0)
    _finish(w, lines, results, "ENTRY main")
    return "HloModule random_program\n\n" + "\n".join(w.done)


def _finish(w: Writer, lines: list[str], results: list[str], head: str) -> None:
    shape = w.tuple_shape(len(results))
    lines.append(f"ROOT {w.name('root')} = {shape} tuple({', '.join(results)})")
    w.done.append(f"{head} {{\n  " + "\n  ".join(lines) + "\n}\n")


def _straight_line(w: Writer, lines: list[str], arrays: list[str], depth: int) -> list[str]:
    """Add instructions, and return 1 to 4 arrays, any of them, also twice."""
    arrays = list(arrays)
    for _ in range(w.rng.randint(1, 5)):
        arrays.append(_instruction(w, lines, arrays, depth))
    return [w.rng.choice(arrays) for _ in range(w.rng.randint(1, 4))]


def _instruction(w: Writer, lines: list[str], arrays: list[str], depth: int) -> str:
    kinds = ["add", "multiply", "negate", "copy", "reverse", "update", "barrier", "constant"]
    if depth < 3:
        kinds += ["while", "while", "conditional", "call"]
    kind = w.rng.choice(kinds)
    a, b = w.rng.choice(arrays), w.rng.choice(arrays)
    name = w.name("x")
    if kind in ("add", "multiply"):
        lines.append(f"{name} = {ARRAY} {kind}({a}, {b})")
    elif kind in ("negate", "copy"):
        lines.append(f"{name} = {ARRAY} {kind}({a})")
    elif kind == "reverse":
        lines.append(f"{name} = {ARRAY} reverse({a}), dimensions={{0}}")
    elif kind == "constant":
        values = ", ".join(str(w.rng.randint(-2, 2)) for _ in range(6))
        lines.append(f"{name}.c = f32[6] constant({{{values}}})")
        lines.append(f"{name} = {ARRAY} broadcast({name}.c), dimensions={{0}}")
    elif kind == "update":
        lines.append(f"{name}.i = s32[] constant({w.rng.randint(0, 4)})")
        lines.append(f"{name}.z = s32[] constant(0)")
        lines.append(f"{name}.u = f32[2,2,2] slice({b}), slice={{[1:3], [0:2], [0:2]}}")
        starts = f"{name}.i, {name}.z, {name}.z"
        lines.append(f"{name} = {ARRAY} dynamic-update-slice({a}, {name}.u, {starts})")
    elif kind == "barrier":
        lines.append(f"{name}.t = ({ARRAY}, {ARRAY}) tuple({a}, {b})")
        lines.append(f"{name}.o = ({ARRAY}, {ARRAY}) opt-barrier({name}.t)")
        lines.append(f"{name} = {ARRAY} get-tuple-element({name}.o), index=1")
    elif kind == "while":
        return _loop(w, lines, arrays, depth)
    elif kind == "conditional":
        return _conditional(w, lines, arrays, depth)
    else:
        return _call(w, lines, arrays, depth)
    return name


def _call(w: Writer, lines: list[str], arrays: list[str], depth: int) -> str:
    body = w.name("callee")
    inner, parameters = [], []
    for i in range(2):
        parameters.append(w.name("p"))
        inner.append(f"{parameters[-1]} = {ARRAY} parameter({i})")
    results = _straight_line(w, inner, parameters, depth + 1)
    _finish(w, inner, results, body)
    shape = w.tuple_shape(len(results))
    name = w.name("x")
    operands = ", ".join(w.rng.choice(arrays) for _ in range(2))
    lines.append(f"{name}.c = {shape} call({operands}), to_apply={body}")
    index = w.rng.randrange(len(results))
    lines.append(f"{name} = {ARRAY} get-tuple-element({name}.c), index={index}")
    return name


def _conditional(w: Writer, lines: list[str], arrays: list[str], depth: int) -> str:
    count = w.rng.randint(1, 3)
    branches = []
    for _ in range(2):
        branch, inner = w.name("branch"), []
        state = w.name("state")
        inner.append(f"{state} = {w.tuple_shape(2)} parameter(0)")
        parts = _parts(w, inner, state, 2)
        results = _straight_line(w, inner, parts, depth + 1)
        results = (results * count)[:count]
        _finish(w, inner, results, branch)
        branches.append(branch)
    shape = w.tuple_shape(count)
    name = w.name("x")
    pair = ", ".join(w.rng.choice(arrays) for _ in range(2))
    lines.append(f"{name}.t = ({ARRAY}, {ARRAY}) tuple({pair})")
    pair = ", ".join(w.rng.choice(arrays) for _ in range(2))
    lines.append(f"{name}.f = ({ARRAY}, {ARRAY}) tuple({pair})")
    first = "{[0:1], [0:1], [0:1]}"
    lines.append(f"{name}.h = f32[1,1,1] slice({w.rng.choice(arrays)}), slice={first}")
    lines.append(f"{name}.s = f32[] reshape({name}.h)")
    lines.append(f"{name}.z = f32[] constant(0)")
    lines.append(f"{name}.p = pred[] compare({name}.s, {name}.z), direction=GT")
    lines.append(
        f"{name}.c = {shape} conditional({name}.p, {name}.t, {name}.f), "
        f"true_computation={branches[0]}, false_computation={branches[1]}"
    )
    lines.append(f"{name} = {ARRAY} get-tuple-element({name}.c), index={w.rng.randrange(count)}")
    return name


def _parts(w: Writer, lines: list[str], state: str, count: int, first: int = 0) -> list[str]:
    found = []
    for i in range(first, first + count):
        found.append(w.name("e"))
        lines.append(f"{found[-1]} = {ARRAY} get-tuple-element({state}), index={i}")
    return found


def _loop(w: Writer, lines: list[str], arrays: list[str], depth: int) -> str:
    """A loop of 0 to 3 rounds over a counter and 1 to 4 arrays."""
    count = w.rng.randint(1, 4)
    shape = w.tuple_shape(count, first="s32[]")
    condition, body, name = w.name("condition"), w.name("body"), w.name("x")
    w.done.append(
        f"{condition} {{\n  s = {shape} parameter(0)\n"
        f"  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant({w.rng.randint(0, 3)})\n"
        f"  ROOT r = pred[] compare(i, n), direction=LT\n}}\n"
    )
    state = w.name("state")
    inner = [
        f"{state} = {shape} parameter(0)",
        f"{state}.i = s32[] get-tuple-element({state}), index=0",
        f"{state}.one = s32[] constant(1)",
        f"{state}.next = s32[] add({state}.i, {state}.one)",
    ]
    parts = _parts(w, inner, state, count, first=1)
    results = _straight_line(w, inner, parts, depth + 1)
    results = [w.rng.choice((r, p)) for r, p in zip((results * count)[:count], parts, strict=True)]
    inner.append(f"ROOT {state}.r = {shape} tuple({state}.next, {', '.join(results)})")
    w.done.append(f"{body} {{\n  " + "\n  ".join(inner) + "\n}\n")
    initial = ", ".join(w.rng.choice(arrays) for _ in range(count))
    lines.append(f"{name}.zero = s32[] constant(0)")
    lines.append(f"{name}.t = {shape} tuple({name}.zero, {initial})")
    lines.append(f"{name}.w = {shape} while({name}.t), condition={condition}, body={body}")
    index = w.rng.randint(1, count)
    lines.append(f"{name} = {ARRAY} get-tuple-element({name}.w), index={index}")
    return name
