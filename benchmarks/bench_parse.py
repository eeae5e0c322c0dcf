"""Speed and memory of reading, verifying and printing HLO text, beside XLA where jax is installed.

    python benchmarks/bench_parse.py [FILE...] [--rounds 7] [--json OUT]

Without files: the examples, and the GPT block's entry repeated to a dump of about 1 MB.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import harness, xla


def long_chain(size_bytes: int) -> str:
    """Return a module of at least `size_bytes` whose instructions form one deep chain."""
    lines = ["HloModule chain", "", "ENTRY main {", "  x.0 = f32[64,128]{1,0} parameter(0)"]
    written = 0
    count = 0
    while written < size_bytes:
        count += 1
        before = f"x.{count - 1}"
        line = f"  x.{count} = f32[64,128]{{1,0}} add({before}, {before})"
        line += f', metadata={{op_name="jit(chain)/add" source_line={count % 900 + 1}}}'
        written += len(line)
        lines.append(line)
    lines += [f"  ROOT root = f32[64,128]{{1,0}} negate(x.{count})", "}", ""]
    return "\n".join(lines)


def memory_factor(text: str) -> float:
    """Return by how many times the size of `text` a fresh process grows while it reads it."""
    result = subprocess.run(
        [sys.executable, "-c", _GROWTH],
        input=text,
        capture_output=True,
        text=True,
        check=True,
        cwd=harness.ROOT,
    )
    return int(result.stdout) / len(text)


# A small module first, so that what hloc loads once is not counted. Linux hands the peak of
# `getrusage` on to child processes, that of /proc is the process's own.
_GROWTH = """
import resource, sys
from pathlib import Path
import hloc

def peak():
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

hloc.parse("HloModule m\\nENTRY e { x = f32[2]{0} parameter(0) ROOT y = f32[2] negate(x) }")
text = sys.stdin.read()
before = peak()
module = hloc.parse(text)
print(peak() - before)
"""


def calls_for(text: str) -> dict[str, Callable[[], object]]:
    """Return what is measured: reading, checking and printing, by hloc and by XLA."""
    import hloc
    from hloc.ir.verifier import verify

    module = hloc.parse(text)
    calls: dict[str, Callable[[], object]] = {
        "read": partial(hloc.parse, text),
        "parse": partial(hloc.parse, text, verify=False),
        "verify": partial(verify, module),
        "print": module.to_text,
    }
    if xla.available():
        calls["xla parse"] = partial(xla.parse, text)
        calls["xla print"] = xla.parse(text).to_string
    return calls


def row_text(name: str, size: int, timings: Mapping[str, harness.Timing], memory: float) -> str:
    """Return the line of the table for one text of `size` characters."""
    row = f"{name[-28:]:28s} {size / 1e3:8.1f}"
    for what in ("read", "parse", "verify", "print"):
        row += f" {size / timings[what].median / 1e6:7.2f}"
    row += f" {memory:7.1f}"
    if "xla parse" in timings:
        row += f" {timings['read'].median / timings['xla parse'].median:9.1f}"
        row += f" {timings['print'].median / timings['xla print'].median:9.1f}"
    return row


def main() -> None:
    """Print a row per text: size, MB/s of each step, memory by text size, time by XLA's."""
    parser = argparse.ArgumentParser(description="time of reading, verifying and printing")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    harness.use_cores(1)

    files = options.files or sorted((harness.ROOT / "examples").glob("*.hlo"))
    texts = {path.name: path.read_text() for path in files}
    if not options.files:
        texts["chain, 1 MB"] = long_chain(1_000_000)
    results = {}
    print("MB/s by step (read = parse + verify); memory and times as multiples of text and XLA")
    print(
        f"{'text':28s} {'kB':>8s} {'read':>7s} {'parse':>7s} {'verify':>7s} {'print':>7s} "
        f"{'memory':>7s} {'read/XLA':>9s} {'print/XLA':>9s}"
    )
    for name, text in texts.items():
        timings = results[name] = harness.measure(calls_for(text), options.rounds)
        print(row_text(name, len(text), timings, memory_factor(text)), flush=True)
    if options.json:
        harness.save(options.json, 1, results)


if __name__ == "__main__":
    main()
