"""The inputs of a run from the page: a file, and lines with the syntax of `hloc run --input`."""

from __future__ import annotations

from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.report.input_specs import file_of, parameters_of
from hloc.report.run_inputs import Inputs


def inputs_of(text: str, seed: int, module: Module, file: str = "") -> Inputs:
    """Return the inputs of `module`: a line `NAME=SPEC` for each parameter that is not random.

    Args:
        text: the lines; blank ones are ignored.
        seed: for all random values.
        module: the module to run.
        file: the only file that lines may name, as in `x=@FILE`; if none does, it supplies all
            inputs without a line.

    Raises:
        HloError: a line of another form, no such parameter, a value that does not fit, or another
            file: the page may read those that were named when the server was started, and no other.
    """
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    inputs = Inputs(seed=seed)
    if file and not any("@" in line for _, line in lines):
        _use_file(inputs, file, module)
    for number, line in lines:
        try:
            _use(inputs, line, module, file)
        except HloError as fault:
            notes = fault.diagnostics[0].notes
            raise HloError(f"line {number} of the inputs: {fault.message}", notes=notes) from None
    return inputs


def _use_file(inputs: Inputs, file: str, module: Module) -> None:
    """Take all inputs from an archive, or the only input from an array."""
    if not file.endswith(".npy"):
        inputs.use_file(file, module)
        return
    names = [parameter.names[0] for parameter in parameters_of(module)]
    if len(names) != 1:
        raise HloError(
            f"{file} holds one array, and the module takes {len(names)}",
            notes=(f"say which in a line: {names[0]}=@{file}",) * bool(names),
        )
    inputs.use_spec(names[0], f"@{file}", module)


def _use(inputs: Inputs, line: str, module: Module, file: str) -> None:
    name, _, spec = line.partition("=")
    if not name.strip() or not spec.strip():
        raise HloError(f"expected NAME=SPEC such as x=normal(0,1), found {line.strip()[:60]!r}")
    path = file_of(spec)
    if path and path != file:
        raise HloError(
            f"the page reads no file but {file}" if file else "the page reads no files",
            notes=("choose the file below the lines",),
        )
    inputs.use_spec(name.strip(), spec.strip(), module)
