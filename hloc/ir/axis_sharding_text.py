"""Reads shardings by mesh axes: Shardy's text in frontend attributes, and HLO's named form.

    #sdy.sharding<@mesh, [{"x", "y":(1)2}, {?}p1], replicated={"z"}>    Shardy; mesh in the header
    {mesh['x'=4,'y'=2], [{'x'}, {}]}                                    named

Source: Shardy's `attrs.td`; XLA's `named_sharding.cc`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import TypeAlias

from hloc.errors import HloError
from hloc.ir.axis_sharding import Axes, AxisSharding
from hloc.ir.module import Module
from hloc.ir.replica_groups import DeviceMesh, MeshAxis
from hloc.ir.sharding import Iota, iota
from hloc.lazy_dataclass import dataclass

Meshes: TypeAlias = Mapping[str, DeviceMesh]

MESHES = "xla.sdy.meshes"
"""The attribute of the header that names the meshes."""

_REDUCTIONS = ("sum", "max", "min")
_TOKEN = re.compile(
    r"""\s*(?:(?P<string>"[^"]*"|'[^']*')|(?P<name>[@#]?[A-Za-z_][\w.]*)|(?P<number>\d+)|(?P<mark>.))"""
)


@dataclass(slots=True)
class _Fields:
    """The fields between the brackets of a sharding."""

    dims: list[Axes] = field(default_factory=list)
    open_dims: set[int] = field(default_factory=set)
    priorities: list[int] = field(default_factory=list)
    lists: dict[str, Axes] = field(default_factory=dict)
    reduction: str = "sum"


def meshes_of(module: Module) -> dict[str, DeviceMesh]:
    """Return the meshes of the header by name; HloError if their text is malformed."""
    text = dict(module.config.frontend_attributes).get(MESHES, "")
    return _Reader(_unquoted(text)).meshes() if text else {}


def shardy_sharding(text: str, meshes: Meshes) -> AxisSharding:
    """Read `#sdy.sharding<@mesh, [...]>`, perhaps quoted; HloError if it is malformed."""
    reader = _Reader(_unquoted(text))
    reader.take("#sdy.sharding")
    return reader.sharding(meshes)


def shardy_shardings(text: str, meshes: Meshes) -> tuple[AxisSharding, ...]:
    """Read `#sdy.sharding_per_value<[<@mesh, [...]>, ...]>`, or `#sdy.sharding<...>`."""
    reader = _Reader(_unquoted(text))
    if not reader.takes("#sdy.sharding_per_value"):
        return (shardy_sharding(text, meshes),)
    reader.take("<")
    reader.take("[")
    found = []
    while not reader.takes("]"):
        found.append(reader.sharding(meshes))
        reader.takes(",")
    return tuple(found)


def manual_axes(text: str) -> tuple[str, ...]:
    """Return the axes in `#sdy<manual_axes{"x", "y"}>`."""
    return tuple(re.findall(r'"([^"]*)"', _unquoted(text)))


def named_sharding(text: str) -> AxisSharding:
    """Read the named form, without its braces."""
    reader = _Reader(text)
    if reader.takes("maximal_mesh"):
        numbers = re.findall(r"-?\d+", text)
        return AxisSharding(DeviceMesh((), (int(numbers[0]),)), ())
    mesh = reader.mesh("mesh")
    return reader.fields(mesh)


def _unquoted(text: str) -> str:
    return text[1:-1].replace('\\"', '"') if text.startswith('"') else text


class _Reader:
    """Reads one text from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [found[0].strip() for found in _TOKEN.finditer(text.strip())]
        self._at = 0

    def next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def takes(self, token: str) -> bool:
        if self.next() != token:
            return False
        self._at += 1
        return True

    def take(self, token: str) -> None:
        if not self.takes(token):
            found = self.next() or "the end"
            raise HloError(f"expected {token} in the sharding {self._text}, but found {found}")

    def word(self) -> str:
        """Return the next token, a string without its quotes."""
        token = self.next()
        if not token:
            raise HloError(f"the sharding {self._text} ends too early")
        self._at += 1
        return token[1:-1] if token[:1] in ("'", '"') else token

    def number(self) -> int:
        token = self.word()
        if not token.isdecimal() or len(token) > 12:
            raise HloError(f"expected a number in the sharding {self._text}, but found {token}")
        return int(token)

    def meshes(self) -> dict[str, DeviceMesh]:
        """Read `{mesh = #sdy.mesh<...>, ...}`."""
        found = {}
        self.take("{")
        while not self.takes("}"):
            name = self.word()
            self.take("=")
            found[name] = self.mesh("#sdy.mesh")
            self.takes(",")
        return found

    def mesh(self, head: str) -> DeviceMesh:
        """Read `#sdy.mesh<["x"=4], device_ids=[...]>` or `mesh['x'=4], device_ids=(...)`."""
        self.take(head)
        is_shardy = self.takes("<")
        axes = []
        self.take("[")
        while not self.takes("]"):
            name = self.word()
            self.take("=")
            axes.append((name, self.number()))
            if axes[-1][1] < 1:
                raise HloError(f"axis '{name}' of the mesh in {self._text} has size {axes[-1][1]}")
            self.takes(",")
        mesh = DeviceMesh(tuple(axes))
        if self._tokens[self._at : self._at + 2] == [",", "device_ids"]:
            self._at += 2
            self.take("=")
            mesh = DeviceMesh(mesh.axes, self.devices())
        if is_shardy:
            self.take(">")
        return mesh

    def devices(self) -> Iota | tuple[int, ...]:
        close = {"(": ")", "[": "]"}.get(self.word(), "")
        if close == ")" and self.takes("["):
            reshape = self.numbers("]")
            transpose = tuple(range(len(reshape)))
            if self.takes("T"):
                self.take("(")
                transpose = self.numbers(")")
            self.take(")")
            return iota(reshape, transpose)
        return self.numbers(close)

    def numbers(self, close: str) -> tuple[int, ...]:
        found = []
        while not self.takes(close):
            found.append(self.number())
            self.takes(",")
        return tuple(found)

    def sharding(self, meshes: Meshes) -> AxisSharding:
        """Read `<@mesh, [...], replicated={...}>`."""
        self.take("<")
        name = self.next()
        if name.startswith("@"):
            self._at += 1
            known = meshes.get(name[1:])
            if known is None and name != "@empty_mesh":
                raise HloError(f"the sharding {self._text} names the mesh {name}, which is unknown")
            mesh = known or DeviceMesh(())
        else:
            mesh = self.mesh("mesh")
        found = self.fields(mesh)
        self.take(">")
        return found

    def fields(self, mesh: DeviceMesh) -> AxisSharding:
        """Read `, [{"x"}, {}], replicated={...}`."""
        found = _Fields()
        while self.takes(","):
            if self.takes("["):
                self._dims(found, mesh)
                continue
            kind = self.word()
            if self.takes("=") and self.next() in _REDUCTIONS:
                found.reduction = self.word()
            if self.next() == "{":
                found.lists[kind], _ = self._axes(mesh)
            else:  # `replicated`, `manual` or `unreduced` along all axes
                found.lists[kind] = tuple(MeshAxis(name) for name, _ in mesh.axes)
        return AxisSharding(
            mesh,
            tuple(found.dims),
            frozenset(found.open_dims),
            tuple(found.priorities),
            found.lists.get("replicated", ()),
            found.lists.get("unreduced", ()),
            found.lists.get("manual", ()),
            found.reduction,
        )

    def _dims(self, found: _Fields, mesh: DeviceMesh) -> None:
        while not self.takes("]"):
            axes, is_open = self._axes(mesh)
            if is_open:
                found.open_dims.add(len(found.dims))
            found.dims.append(axes)
            priority = re.fullmatch(r"p(\d+)", self.next())
            if priority:
                self._at += 1
            found.priorities.append(int(priority[1]) if priority else 0)
            self.takes(",")

    def _axes(self, mesh: DeviceMesh) -> tuple[Axes, bool]:
        """Read `{"x", "y":(1)2, ?}`."""
        axes, is_open, names = [], False, dict(mesh.axes)
        self.take("{")
        while not self.takes("}"):
            if self.takes("?"):
                is_open = True
                continue
            axis = MeshAxis(self.word())
            if axis.name not in names:
                raise HloError(f"the mesh of the sharding {self._text} has no axis '{axis.name}'")
            if self.takes(":"):
                self.take("(")
                before = self.number()
                self.take(")")
                axis = MeshAxis(axis.name, before, self.number())
                part = before * axis.size
                if part < 1 or names[axis.name] % part:
                    whole = f"axis '{axis.name}' of size {names[axis.name]}"
                    raise HloError(f"{whole} has no part ({before}){axis.size}: {self._text}")
            axes.append(axis)
            self.takes(",")
        return tuple(axes), is_open
