"""Names in HLO for those of StableHLO, and the values that a region captures by name."""

from __future__ import annotations

from hloc.stablehlo.tree import Region

_NOT_NAMES = str.maketrans({c: "_" for c in " ()[]{}<>,;:=\"'#%@&|!?*+/\\^~`$"})


def identifier(text: str) -> str:
    """Return `text` as a name in HLO: other characters become `_`."""
    name = text.translate(_NOT_NAMES)
    return name if name.strip("_") and name.isascii() and not name[0].isdigit() else ""


def free_names(region: Region) -> list[str]:
    """Return the values that a region captures, in order of use."""
    free: dict[str, None] = {}
    own = {name for name, _ in region.parameters}
    for operation in region.operations:
        used = list(operation.operands)
        for inner in operation.regions:
            used += free_names(inner)
        free.update((name, None) for name in used if name.partition("#")[0] not in own)
        own.update(name for name, _ in operation.results)
    return list(free)
