"""The colours of the tree-sitter grammar: nodes from the grammar, words from hloc's tables.

python -m docs.generators.tree_sitter > editors/tree-sitter-hlo/queries/highlights.scm

Each node has at most one colour, since programs differ in whether the first or the last pattern
that matches a node wins.
"""

from __future__ import annotations

from collections.abc import Iterable

from hloc.dtypes import DTYPES
from hloc.editors.vocabulary import CONSTANTS, SECTIONS, attribute_names, roles_of_computations
from hloc.ops import OPCODES

_HEAD = "; Generated from hloc's tables: python -m docs.generators.tree_sitter\n"

_NODES = """
(comment) @comment
(string) @string
["true" "false"] @constant.builtin
["nan" "inf" (integer) (float) (sizes) (padding) (dim_labels)] @number
["=" "->" "<=" "#" "*" "?" "..."] @operator
["(" ")" "[" "]" "{" "}"] @punctuation.bracket
["b(" "mesh[" "maximal_mesh["] @punctuation.special
["," ":"] @punctuation.delimiter

(header name: (name) @module)
(computation name: (name) @function)
(parameter name: (name) @variable.parameter)
(instruction name: (name) @variable)
(operand name: (name) @variable)
"""


def page() -> str:
    """Return editors/tree-sitter-hlo/queries/highlights.scm."""
    opcodes = rf"^({'|'.join(sorted(OPCODES))})(-start|-update|-done)?$"
    names, roles = attribute_names(), roles_of_computations()
    words = [
        f"[{_quoted(SECTIONS)}] @keyword",
        f'((opcode) @function.builtin\n  (#match? @function.builtin "{opcodes}"))',
        _any_of("(element_type)", "type.builtin", DTYPES),
        _any_of("(word)", "constant.builtin", CONSTANTS - {"true", "false", "nan", "inf"}),
        _any_of("[(attribute_name) (property_name)]", "attribute", names),
        _any_of("[(attribute_name) (property_name)]", "property", names, "not-"),
        _computations("value: [(word) (name)] @function", roles),
        _computations("value: (list [(word) (name)] @function)", roles),
    ]
    return _HEAD + _NODES + "\n" + "\n".join(words) + "\n"


def _any_of(node: str, capture: str, words: Iterable[str], negation: str = "") -> str:
    return f"({node} @{capture}\n  (#{negation}any-of? @{capture}\n    {_quoted(words)}))"


def _computations(value: str, roles: Iterable[str]) -> str:
    pattern = f"(attribute\n  name: (attribute_name) @_role\n  {value}"
    return f"({pattern})\n  (#any-of? @_role {_quoted(roles)}))"


def _quoted(words: Iterable[str]) -> str:
    return " ".join(f'"{word}"' for word in sorted(words))


if __name__ == "__main__":
    print(page(), end="")
