"""Known miscompiles of XLA:CPU, planted in modules of 200 to 5,000 instructions.

    python benchmarks/planted_miscompiles.py [NAME...] [--clean 30] [--size N] [--bisect]

Needs jax. The miscompiles are the modules of docs/numerics.md on which XLA is wrong, but for
subnormal numbers. Each stands between instructions of a random program on f32[16], and `hloc
isolate --against=xla` should name one of its instructions and no other. Clean modules have the
random program only, and nothing should be named. With --bisect, `hloc bisect --against=xla` should
name a pass of XLA or its code generation instead. Times are of the clock, one run each.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from docs.generators.numerics import Difference, differences
from hloc import driver
from hloc.ir.module import Module
from hloc.parser.literals import parse_literal
from hloc.report.inputs import parameter_leaves, save_arrays
from hloc.source import SourceFile

ROOT = Path(__file__).resolve().parents[1]
SIZES = (200, 500, 1000, 2000, 5000)
UNARY = ("tanh", "abs", "negate", "sine", "logistic")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum")
PLANTED = "planted."


def main() -> None:
    """Print a line per module, then how many were right."""
    parser = argparse.ArgumentParser(description="miscompiles of XLA:CPU and hloc isolate")
    parser.add_argument("names", nargs="*", help="parts of the names of miscompiles; all if none")
    parser.add_argument("--clean", type=int, default=30, help="modules without a miscompile")
    parser.add_argument("--size", type=int, help="instructions of every module")
    parser.add_argument("--bisect", action="store_true", help="ask for passes, not instructions")
    options = parser.parse_args()
    found, slowest = [], 0.0
    cases = [
        case
        for case in differences()
        if case.right == "hloc" and "subnormal" not in case.cause + case.name
        and (not options.names or any(name in case.name for name in options.names))
    ]  # fmt: skip
    for number, case in enumerate([*cases, *[None] * options.clean]):
        size = options.size or SIZES[number % len(SIZES)]
        named, seconds = asked(options.bisect, case, size, number)
        slowest = max(slowest, seconds)
        strange = [name for name in named if not (options.bisect or name.startswith(PLANTED))]
        is_right = not strange and bool(named) == (case is not None)
        found.append((case is not None, is_right))
        what = "clean" if case is None else case.name
        shown = ", ".join(named[:3]) or "nothing"
        print(f"{'ok   ' if is_right else 'WRONG'} {size:5} {seconds:5.1f} s  {what}: {shown}",
              flush=True)  # fmt: skip
    for kind, is_planted in (("miscompiles named", True), ("clean modules without a name", False)):
        rows = [right for planted, right in found if planted is is_planted]
        print(f"{kind}: {sum(rows)} of {len(rows)}")
    print(f"slowest: {slowest:.1f} s")


def asked(bisects: bool, case: Difference | None, size: int, seed: int) -> tuple[list[str], float]:
    """Return what the command names in a module of `size`: instructions or a pass; and seconds."""
    command = ["bisect", "--no-reduce"] if bisects else ["isolate"]
    with tempfile.TemporaryDirectory() as folder:
        path, inputs = Path(folder) / "m.hlo", Path(folder) / "m.npz"
        path.write_text(planted(case, size, seed))
        module = driver.load_module(str(path))
        save_arrays(str(inputs), "arg", arrays_of(case, seed), parameter_leaves(module))
        words = [str(path), "--against=xla", f"--inputs={inputs}", "--format=json"]
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "hloc", *command, *words],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        seconds = time.perf_counter() - start
    if done.returncode not in (0, 1) or not done.stdout:
        return [done.stderr.strip()[-200:]], seconds
    data = json.loads(done.stdout)
    if bisects:
        return [data["culprit"]["pass"]] if data["culprit"] else [], seconds
    named = [row["instruction"]["name"] for row in data["diverging"] if row["side"] == "XLA"]
    ended = [reason for reason in data["not_compared"] if "the process" in reason]
    named += [name for reason in ended for name in data["not_compared"][reason]]
    return list(dict.fromkeys(named)), seconds


def arrays_of(case: Difference | None, seed: int) -> list[Any]:
    """Return the inputs of the random program, and those of the miscompile."""
    rng = np.random.default_rng(seed)
    arrays: list[Any] = [rng.standard_normal(16).astype(np.float32) for _ in range(2)]
    if case is not None:
        parameters = driver.parse_text(case.text).entry.parameters
        for text, parameter in zip(case.inputs, parameters, strict=True):
            arrays.append(parse_literal(SourceFile(text, "case"), text, 0, parameter.shape).array)
    return arrays


def planted(case: Difference | None, size: int, seed: int) -> str:
    """Return the text of a random program with the instructions of a miscompile in its middle."""
    choose = random.Random(seed)
    names = ["a", "b"]
    lines = [f"  {name} = f32[16] parameter({number})" for number, name in enumerate(names)]
    module = driver.parse_text(case.text) if case is not None else None
    before, middle, results = _renamed(module) if module is not None else ("", [], [])
    half = (size - len(middle)) // 2
    for number in range(size - len(middle)):
        if number == half:
            lines += middle
        name, near = f"i{number}", names[-8:]
        if choose.random() < 0.4:
            opcode, operands = choose.choice(UNARY), [choose.choice(near)]
        else:
            opcode, operands = choose.choice(BINARY), choose.choices(near, k=2)
        lines.append(f"  {name} = f32[16] {opcode}({', '.join(operands)})")
        names.append(name)
    read = {word for line in lines for word in re.findall(r"\b(?:i\d+|[ab])\b", line.split("=")[1])}
    ends = [name for name in names[2:] if name not in read] + results
    lines.append(f"  ROOT all = ({', '.join(_shapes(ends, module))}) tuple({', '.join(ends)})")
    return f"HloModule m\n\n{before}\nENTRY e {{\n" + "\n".join(lines) + "\n}\n"


def _shapes(ends: list[str], module: Module | None) -> Iterator[str]:
    for name in ends:
        if name.startswith("%") and module is not None:
            yield module.entry.root.shape.text_without_layout
        else:
            yield "f32[16]"


def _renamed(module: Module) -> tuple[str, list[str], list[str]]:
    """Return the called computations, the lines of the entry, and its result, under new names."""
    text = module.to_text("default", large_constants=True)
    text = re.sub(r"%([\w.-]+)", rf"%{PLANTED}\1", text)
    text = re.sub(r"\bparameter\((\d+)\)", lambda found: f"parameter({int(found[1]) + 2})", text)
    _, *computations = re.split(r"\n\n(?=%|ENTRY)", text.strip())
    entry = next(part for part in computations if part.startswith("ENTRY"))
    others = [re.sub(r"\bparameter\((\d+)\)", lambda found: f"parameter({int(found[1]) - 2})", part)
              for part in computations if part is not entry]  # fmt: skip
    lines = [line.replace("ROOT ", "") for line in entry.splitlines()[1:-1]]
    return "\n\n".join(others), lines, [f"%{PLANTED}{module.entry.root.name}"]


if __name__ == "__main__":
    main()
