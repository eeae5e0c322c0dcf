"""What one call of a tiny JAX program costs on hloc, beside JAX's own CPU client.

    python benchmarks/jax_dispatch.py [--floor 0.8]

The two clients take turns, each in a process of its own; a figure is the least of many short
stretches, which a busy machine disturbs least. Exits with 1 if a ratio is above the floor.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

_STRETCHES, _CALLS, _TURNS = 200, 50, 3


def measure(call: Callable[[], Any], calls: int = _CALLS) -> float:
    """Return the least microseconds of one call."""
    for _ in range(20):
        call()
    found = []
    for _ in range(_STRETCHES):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        found.append((time.perf_counter() - begin) / calls)
    return min(found) * 1e6


def figures(platform: str) -> dict[str, float]:
    """Return microseconds by the name of the operation, on one client."""
    import jax
    import numpy as np

    jax.config.update("jax_default_device", jax.devices(platform)[0])
    one = jax.jit(lambda x: x + 1)
    many = jax.jit(lambda *xs: [x + 1 for x in xs])
    xs = [jax.device_put(np.arange(8, dtype=np.float32) + i) for i in range(8)]
    big = one(jax.device_put(np.zeros((1024, 1024), np.float32)))

    def chain() -> None:
        y = xs[0]
        for _ in range(100):
            y = one(y)
        y.block_until_ready()

    fresh = iter([one(xs[0]) for _ in range((_STRETCHES + 1) * _CALLS)])
    return {
        "1 to 1": measure(lambda: one(xs[0])),
        "8 to 8": measure(lambda: many(*xs)),
        "chain of 100": measure(chain, 1),
        "eager x + y": measure(lambda: xs[0] + xs[1]),
        "np.asarray of a result": measure(lambda: np.asarray(next(fresh))),
        "4 MB x + 1": measure(lambda: one(big).block_until_ready(), 5),
    }


def main() -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--floor", type=float, default=0.8)
    parser.add_argument("--client", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.client:
        print(json.dumps(figures(arguments.client)))
        return 0
    found: dict[str, dict[str, float]] = {"hloc": {}, "cpu": {}}
    for _ in range(_TURNS):
        for client, best in found.items():
            command = [sys.executable, __file__, "--client", client]
            environment = {**os.environ, "JAX_PLATFORMS": "hloc,cpu" if client == "hloc" else "cpu"}
            output = subprocess.run(
                command, env=environment, check=True, capture_output=True, text=True
            ).stdout
            for name, value in json.loads(output.splitlines()[-1]).items():
                best[name] = min(value, best.get(name, value))
    slow = False
    print(f"{'microseconds':24}{'hloc':>9}{'XLA:CPU':>9}{'ratio':>7}")
    for name, value in found["hloc"].items():
        ratio = value / found["cpu"][name]
        slow = slow or ratio > arguments.floor
        print(f"{name:24}{value:9.2f}{found['cpu'][name]:9.2f}{ratio:7.2f}")
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
