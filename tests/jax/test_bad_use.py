"""What goes wrong says so, and the process ends: interrupts, forks, errors, shutdown."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

jax = pytest.importorskip("jax")

ROOT = Path(__file__).resolve().parents[2]

LONG = """
import os, signal, threading
import jax, jax.numpy as jnp
from jax import lax
x = jnp.ones(8)
endless = jax.jit(lambda x: lax.while_loop(lambda v: v.sum() > -1, lambda v: jnp.cos(v) + 2, x))
"""


def run(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program on hloc in a process of its own; a hang fails the test."""
    environment = {**os.environ, "JAX_PLATFORMS": "hloc,cpu", "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_ctrl_c_ends_a_loop_that_never_ends_and_hloc_goes_on() -> None:
    done = run(
        LONG
        + """
compiled = endless.lower(x).compile()
threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    compiled(x).block_until_ready()
except (KeyboardInterrupt, Exception):
    pass
try:
    import time; time.sleep(0.1)
except KeyboardInterrupt:
    pass
print(x + 1)
"""
    )
    assert done.stdout.strip() == "[2. 2. 2. 2. 2. 2. 2. 2.]", done.stderr
    assert done.returncode == 0


def test_the_end_of_the_process_ends_a_run() -> None:
    done = run(LONG + "y = endless(x)\nz = y + 1\nprint('leaving')")
    assert done.stdout.strip() == "leaving"
    assert done.returncode == 0, done.stderr


def test_arrays_and_programs_may_outlive_python() -> None:
    done = run(
        "import jax, jax.numpy as jnp, builtins\n"
        "f = jax.jit(lambda x: x + 1)\n"
        "builtins.kept = (f, f(jnp.ones(4)), f.lower(jnp.ones(4)).compile())\n"
    )
    assert done.returncode == 0, done.stderr


def test_a_forked_process_is_told_why_it_cannot_run() -> None:
    done = run(
        "import warnings; warnings.simplefilter('ignore')\n"
        "import os, jax, jax.numpy as jnp\n"
        "f = jax.jit(lambda x: x + 1); x = jnp.ones(4); f(x)\n"
        "if os.fork() == 0:\n"
        "    try: f(x)\n"
        "    except Exception as fault: print(fault, flush=True)\n"
        "    os._exit(0)\n"
        "os.wait(); print(f(x))\n"
    )
    assert "forked after JAX was started" in done.stdout
    assert "[2. 2. 2. 2.]" in done.stdout


def test_a_forked_process_compiles_nothing_reads_arrays_and_ends() -> None:
    done = run(
        "import warnings; warnings.simplefilter('ignore')\n"
        "import os, sys, jax, jax.numpy as jnp, numpy as np\n"
        "x = jnp.ones(4).block_until_ready()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try: jnp.arange(7)\n"
        "    except Exception as fault: print(type(fault).__name__, fault)\n"
        "    print(np.asarray(x)); sys.exit(5)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), x + 1)\n"
    )
    refused, read, ended = done.stdout.splitlines()
    assert refused.startswith("JaxRuntimeError FAILED_PRECONDITION: hloc cannot run programs")
    assert (read, ended) == ("[1. 1. 1. 1.]", "5 [2. 2. 2. 2.]"), done.stderr


def test_too_much_memory_is_said_as_jax_says_it() -> None:
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"^RESOURCE_EXHAUSTED: Out of memory"):
        jax.numpy.zeros((1 << 22, 1 << 22))
    done = jax.numpy.zeros(2) + 1  # and the next program runs
    assert done.tolist() == [1, 1]


def test_another_version_of_jaxlib_is_refused_in_words() -> None:
    done = run("import jaxlib; jaxlib.__version__ = '0.9.1'\nimport jax; jax.devices()")
    assert "hloc was tested with jaxlib 0.10.x, and this is 0.9.1" in done.stderr


def test_an_unknown_custom_call_is_named() -> None:
    call = jax.ffi.ffi_call("nobody", jax.ShapeDtypeStruct((2,), "float32"))
    with jax.default_device(jax.devices("hloc")[0]), pytest.raises(Exception, match='"nobody"'):
        jax.jit(lambda: call())()


def test_a_wrong_number_of_devices_is_refused() -> None:
    done = run("import jax; jax.devices()", HLOC_DEVICES="none")
    assert "HLOC_DEVICES must be a number of devices, 1 to 1024, not 'none'" in done.stderr


def test_unknown_compiler_options_are_refused() -> None:
    compiled = jax.jit(lambda x: x + 1).lower(1.0)
    compiled.compile({"xla_embed_ir_in_executable": True})
    with pytest.raises(
        Exception, match=r"^INVALID_ARGUMENT: No such compile option: 'invalid_key'"
    ):
        compiled.compile({"invalid_key": "invalid_value"})


def test_a_wrong_value_of_an_option_of_hloc_is_refused() -> None:
    compiled = jax.jit(lambda x: x + 1).lower(1.0)
    with pytest.raises(Exception, match="hloc_flush_subnormals must be true or false, not '7'"):
        compiled.compile({"hloc_flush_subnormals": 7})


def test_hloc_runs_nothing_unless_selected() -> None:
    done = run("import jax, jax.numpy as jnp; print(jnp.ones(2).devices())", JAX_PLATFORMS="")
    assert "CpuDevice" in done.stdout, done.stderr


def test_enable_and_disable() -> None:
    done = run(
        "import hloc.jax; hloc.jax.enable()\n"
        "import jax, jax.numpy as jnp\n"
        "print(jnp.ones(2).devices())\n"
        "hloc.jax.disable(); print(jnp.ones(2).devices())\n"
        "with hloc.jax.device(): print(jnp.ones(2).devices())\n"
        "hloc.jax.enable(); print(jnp.ones(2).devices())\n",
        JAX_PLATFORMS="",
    )
    kinds = ["Hloc" in line for line in done.stdout.splitlines()]
    assert kinds == [True, False, True, True], done.stderr
