"""Verify the `HloModule` line against the entry: layouts, aliases, donors, counts."""

from __future__ import annotations

from collections.abc import Iterator

from hloc.errors import Diagnostic
from hloc.ir.module import Module
from hloc.ir.verifier.faults import braced, fault, part_at
from hloc.shapes import Shape, ShapeIndex, TupleShape, compatible
from hloc.source import Span


def check_header(module: Module) -> Iterator[Diagnostic]:
    """Yield the faults of the header."""
    for name, count in (
        ("replica_count", module.config.replica_count),
        ("num_partitions", module.config.num_partitions),
    ):
        if count < 1:
            yield _fault(module, name, f"{name} is {count}, it must be at least 1", "HLOC0327")
    layout_faults = list(_check_entry_layout(module))
    yield from layout_faults
    if not layout_faults:
        yield from _check_aliases(module)
        yield from _check_donors(module)


def _check_entry_layout(module: Module) -> Iterator[Diagnostic]:
    """Yield where the entry layout of the header differs from the entry in more than layouts."""
    layout = module.config.entry_layout
    if layout is None:
        return
    parameters = module.entry.parameters
    name = "entry_computation_layout"
    if len(layout.parameters) != len(parameters):
        yield _fault(
            module,
            name,
            f"{name} has {len(layout.parameters)} parameters, "
            f"but the entry computation has {len(parameters)}",
            "HLOC0320",
        )
        return
    pairs = zip(layout.parameters, parameters, strict=True)
    for number, (shape, parameter) in enumerate(pairs):
        if not compatible(shape, parameter.shape):
            yield fault(
                "HLOC0321",
                f"is {parameter.shape.text_without_layout}, but {name} "
                f"gives parameter {number} {shape.text_without_layout}",
                parameter,
            )
    root = module.entry.root
    if not compatible(layout.result, root.shape):
        yield fault(
            "HLOC0322",
            f"is {root.shape.text_without_layout}, but {name} "
            f"gives the result {layout.result.text_without_layout}",
            root,
        )


def _check_aliases(module: Module) -> Iterator[Diagnostic]:
    """Yield faults of aliases: arrays of equal size, each parameter used once."""
    name = "input_output_alias"
    used: set[tuple[int, ShapeIndex]] = set()
    for alias in module.config.aliases:
        parameter = _parameter_part(module, alias.parameter, alias.parameter_index)
        where = f"parameter {alias.parameter} at {braced(alias.parameter_index)}"
        if parameter is None:
            yield _fault(module, name, f"{name} names {where}, which does not exist", "HLOC0323")
            continue
        if (alias.parameter, alias.parameter_index) in used:
            yield _fault(module, name, f"{name} gives {where} to two outputs", "HLOC0331")
        used.add((alias.parameter, alias.parameter_index))
        output = part_at(module.entry.root.shape, alias.output_index)
        if output is None:
            continue  # reported by the parser
        if isinstance(parameter, TupleShape) or isinstance(output, TupleShape):
            yield _fault(
                module, name, f"{name} names {where}, but a tuple has no buffer", "HLOC0324"
            )
        elif parameter.size_bytes != output.size_bytes:
            yield _fault(
                module,
                name,
                f"{name} puts output {braced(alias.output_index)} of shape "
                f"{output.text_without_layout} into {where}, which is "
                f"{parameter.text_without_layout}",
                "HLOC0324",
            )


def _check_donors(module: Module) -> Iterator[Diagnostic]:
    name = "buffer_donor"
    aliased = {(alias.parameter, alias.parameter_index) for alias in module.config.aliases}
    for number, index in module.config.buffer_donors:
        where = f"parameter {number} at {braced(index)}"
        part = _parameter_part(module, number, index)
        if part is None:
            yield _fault(module, name, f"{name} names {where}, which does not exist", "HLOC0328")
        elif isinstance(part, TupleShape):
            yield _fault(
                module, name, f"{name} names {where}, but a tuple has no buffer", "HLOC0328"
            )
        elif (number, index) in aliased:
            yield _fault(
                module, name, f"{name} names {where}, which input_output_alias uses", "HLOC0328"
            )


def _parameter_part(module: Module, number: int, index: ShapeIndex) -> Shape | None:
    parameters = module.entry.parameters
    if not 0 <= number < len(parameters):
        return None
    return part_at(parameters[number].shape, index)


def _fault(module: Module, attribute: str, message: str, code: str) -> Diagnostic:
    return Diagnostic(message, _header_span(module, attribute), (), code)


def _header_span(module: Module, attribute: str) -> Span | None:
    """Return where the header has `attribute`, if the module was read from a text with one."""
    source = module.source
    if source is None:
        return None
    at = source.text.find(attribute + "=")
    return Span(source, at, at + len(attribute)) if at >= 0 else None
