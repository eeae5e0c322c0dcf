"""Random modules, texts and protos until the time is over; findings shrink and become files.

    python -m fuzz --minutes 10 [--seed 0] [--kinds levels,passes,host,ptx,guarded,texts,protos,xla]

`xla` is for a person who judges: XLA rounds and refuses in its own way, and is not run by default.
Prints each new finding with its seed, and at the end how much was run. Exits with 1 if there are
findings. Files are written to build/fuzz/, in the form of tests/golden/bugs/.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fuzz.campaign import KINDS, Finding, findings
from fuzz.damage import damaged_proto, damaged_text
from fuzz.isolation import Limits
from fuzz.program import random_program
from fuzz.shrink import file_finding, shrink
from hloc.cache_directory import cache_directory
from hloc.jax.xla_program import is_installed

STEP = {"texts": 4000, "protos": 4000}
"""Seeds of a kind before the next kind has its turn; 40 for modules."""


def main(words: Sequence[str]) -> int:
    """Run for some minutes; 1 if there are findings."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    default = ",".join(kind for kind in KINDS if kind != "xla")
    parser.add_argument("--kinds", default=default, help="of " + ", ".join(KINDS))
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--shrink-seconds", type=float, default=60.0)
    found = parser.parse_args(words)
    kinds = [kind for kind in found.kinds.split(",") if kind != "xla" or is_installed()]
    with tempfile.TemporaryDirectory(prefix="hloc-fuzz-") as cache:
        os.environ["HLOC_CACHE_DIR"] = cache  # none of the user's, and none that grows
        cache_directory.cache_clear()
        return run(kinds, found.seed, found.minutes * 60, found.folder, found.shrink_seconds)


def run(
    kinds: Sequence[str], first: int, seconds: float, folder: Path, shrink_seconds: float
) -> int:
    """Let the kinds have turns until the time is over."""
    end = time.monotonic() + seconds
    at = dict.fromkeys(kinds, first)
    seen: Counter[str] = Counter()
    while time.monotonic() < end:
        for kind in kinds:
            for value in findings(kind, range(at[kind], at[kind] + STEP.get(kind, 40))):
                if isinstance(value, int):
                    at[kind] = value
                    if time.monotonic() > end:
                        break
                    continue
                seen[value.fault.signature] += 1
                if seen[value.fault.signature] == 1:
                    report(value, folder, shrink_seconds)
    for kind in kinds:
        print(f"{kind}: {at[kind] - first:,} from seed {first}")
    print(f"{len(seen)} findings" + "".join(f"\n{n:6d} {what}" for what, n in seen.most_common()))
    return 1 if seen else 0


def report(finding: Finding, folder: Path, seconds: float) -> None:
    """Print a finding, shrink it, and write its file."""
    kind, seed, fault = finding.kind, finding.seed, finding.fault
    print(f"{kind} seed {seed}: {fault}", flush=True)
    if fault.way == "generator":
        return
    if kind in STEP:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{kind}-{seed}"
        text = damaged_text(seed).encode("utf-8", "surrogatepass") if kind == "texts" else b""
        path.write_bytes(text or damaged_proto(seed))
    else:
        path = file_finding(
            folder, shrink(random_program(seed), fault, Limits(), seconds), seed, fault
        )
    print(f"  {path}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
