"""StableHLO through jaxlib: bytecode, and text that `hloc/stablehlo` cannot convert.

jaxlib aborts on some inputs, so it runs in a subprocess.
"""

from __future__ import annotations

import subprocess
from importlib.util import find_spec
from pathlib import Path

from hloc.errors import HloError, printable
from hloc.python_process import python_command

TIMEOUT_SECONDS = 300
_WORKER = Path(__file__).with_name("jaxlib_worker.py")
_INSTALL = "pip install 'hloc[jax]'"


def to_hlo(data: bytes, kind: str, name: str) -> bytes:
    """Return the HLO text of a StableHLO module.

    Raises:
        HloError: jaxlib is not installed, or rejects the module.
    """
    return _work("to-hlo", data, f"{name} is {kind}: reading it", name)


def from_hlo(text: str, name: str) -> bytes:
    """Return HLO text as StableHLO text; errors as for `to_hlo`."""
    return _work("from-hlo", text.encode("utf-8", "surrogateescape"), "writing StableHLO", name)


def is_installed() -> bool:
    """True if jaxlib can be imported."""
    return find_spec("jaxlib") is not None


def _work(task: str, data: bytes, what: str, name: str) -> bytes:
    if not is_installed():
        raise HloError(f"{what} needs jaxlib", notes=(_INSTALL,))
    try:
        done = subprocess.run(
            python_command(str(_WORKER), task),
            input=data,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise HloError(f"{name}: jaxlib took more than {TIMEOUT_SECONDS} s") from None
    if done.returncode:
        raise HloError(f"{name}: jaxlib cannot convert this module: {_reason(done.stderr)}")
    return done.stdout


def _reason(output: bytes) -> str:
    """Return the most informative line of jaxlib's output."""
    lines = [line.strip() for line in output.decode("utf-8", "replace").splitlines()]
    lines = [line for line in lines if line and not line.startswith(("@", "***"))]
    errors = [line for line in lines if "error:" in line]
    found = (errors or lines[-1:] or ["it gave no reason"])[0]
    return printable(found[:300])
