"""The inputs of a run that the page asks for: lines as `hloc run --input` takes them."""

from __future__ import annotations

from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.report.input_specs import reads_file
from hloc.report.run_inputs import Inputs


def inputs_of(text: str, seed: int, module: Module) -> Inputs:
    """Return the inputs of `module`: a line `NAME=SPEC` for each parameter that is not random.

    Args:
        text: the lines; blank ones do not count.
        seed: of everything random.
        module: takes them.

    Raises:
        HloError: a line of another form, no such parameter, a value that does not fit, or a file:
            the page may read those that were named when the server was started, and no other.
    """
    inputs = Inputs(seed=seed)
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            _use(inputs, line, module)
        except HloError as fault:
            notes = fault.diagnostics[0].notes
            raise HloError(f"line {number} of the inputs: {fault.message}", notes=notes) from None
    return inputs


def _use(inputs: Inputs, line: str, module: Module) -> None:
    name, _, spec = line.partition("=")
    if not name.strip() or not spec.strip():
        raise HloError(f"expected NAME=SPEC such as x=normal(0,1), found {line.strip()[:60]!r}")
    if reads_file(spec):
        raise HloError("the page reads no files", notes=("hloc run --input does",))
    inputs.use_spec(name.strip(), spec.strip(), module)
