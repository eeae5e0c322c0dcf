"""Parser of StableHLO text: a module of functions, each a list of operations."""

from __future__ import annotations

import re

from hloc.shapes import Shape
from hloc.source import SourceFile
from hloc.stablehlo.special_reader import SpecialReader
from hloc.stablehlo.tree import Function, ModuleTree, Record, Region

_LOCATION_ALIAS = re.compile(r"#loc\d*")
_ALIAS = re.compile(r"#[A-Za-z_][\w$.]*")


def read_tree(source: SourceFile) -> ModuleTree:
    """Return the syntax tree of a StableHLO text.

    Raises:
        HloError: the text is invalid; the error has the place and what was expected there.
    """
    return _Reader(source).module()


class _Reader(SpecialReader):
    """Reads a module and its functions."""

    def __init__(self, source: SourceFile) -> None:
        super().__init__(source)
        self.tree = ModuleTree()

    def module(self) -> ModuleTree:
        """Read the whole text; `module` around the functions is optional, as in MLIR."""
        cursor, tree = self.cursor, self.tree
        self._aliases()
        wrapped = cursor.accept_word("module") or cursor.accept_word("builtin.module")
        if wrapped:
            if cursor.looking_at("@"):
                tree.name = cursor.symbol()
            if cursor.accept_word("attributes"):
                tree.attributes = self.attributes.dictionary()
            cursor.expect("{")
        while not cursor.looking_at("}") and cursor.at < len(cursor.text):
            if cursor.accept_word("sdy.mesh"):
                cursor.fail("Shardy's meshes are not supported")
            self._function()
            self._aliases()
        if wrapped:
            cursor.expect("}")
        self.location()
        self._aliases()
        if cursor.at < len(cursor.text):
            cursor.expected("the end of the text")
        if not tree.functions:
            cursor.fail("the module has no function")
        return tree

    def _aliases(self) -> None:
        """Read `#loc3 = loc(...)` and `#name = attribute`, before and after the module."""
        cursor = self.cursor
        while cursor.looking_at("#"):
            if cursor.peek(_LOCATION_ALIAS):
                name = cursor.need(_ALIAS, "a location")
                cursor.expect("=")
                cursor.expect("loc")
                self.tree.locations[name] = cursor.balanced()[1:-1]
            else:
                name = cursor.need(_ALIAS, "an attribute alias")
                cursor.expect("=")
                self.attributes.aliases[name] = self.attributes.value()

    def _function(self) -> None:
        """Read a function with its body and add it to the tree."""
        cursor = self.cursor
        start = cursor.at
        if not (cursor.accept_word("func.func") or cursor.accept_word("func")):
            cursor.expected("a function, func.func @name(...)")
        for visibility in ("public", "private", "nested"):
            cursor.accept_word(visibility)
        end = cursor.at
        name = cursor.symbol()
        if name in self.tree.functions:
            cursor.fail(f"function @{name} is defined twice", start, end)
        parameters = cursor.items(self._function_parameter, "(", ")")
        results: list[Shape] = []
        if cursor.accept("->"):
            if cursor.looking_at("("):
                results = cursor.items(self._function_result, "(", ")")
            else:
                results = [self.types.read()]
        if cursor.accept_word("attributes"):
            self.attributes.dictionary()
        body = Region([(name, shape) for name, shape, _ in parameters])
        if not cursor.looking_at("{"):
            cursor.fail(f"function @{name} has no body", start, end)
        self.block(body)
        self.location()
        self.tree.functions[name] = Function(
            name,
            body,
            [attributes for _, _, attributes in parameters],
            results,
            start,
            end,
        )

    def _function_parameter(self) -> tuple[str, Shape, Record]:
        name, shape = self.parameter()
        attributes = self.attributes.optional_dictionary()
        self.location()
        return name, shape, attributes

    def _function_result(self) -> Shape:
        shape = self.types.read()
        self.attributes.optional_dictionary()
        return shape
