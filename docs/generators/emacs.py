"""The words of HLO for Emacs, from hloc's tables.

python -m docs.generators.emacs > editors/emacs/hlo-words.el
"""

from __future__ import annotations

from collections.abc import Iterable

from hloc.dtypes import DTYPES
from hloc.editors.vocabulary import CONSTANTS, SECTIONS, attribute_names, roles_of_computations
from hloc.ops import OPCODES

_HEAD = """;;; hlo-words.el --- Words of HLO text  -*- lexical-binding: t; -*-

;; Generated from hloc's tables: python -m docs.generators.emacs

;;; Code:
"""


def page() -> str:
    """Return editors/emacs/hlo-words.el."""
    lists = [
        _constant("sections", SECTIONS, "Words that begin a part of a module."),
        _constant("constants", CONSTANTS, "Words that are values."),
        _constant("opcodes", OPCODES, "Opcodes; each may end in -start, -update or -done."),
        _constant("types", DTYPES, "Element types."),
        _constant("attributes", attribute_names(), "Attributes of instructions and modules."),
        _constant("roles", roles_of_computations(), "Attributes that name computations."),
    ]
    return _HEAD + "\n".join(lists) + "\n(provide 'hlo-words)\n;;; hlo-words.el ends here\n"


def _constant(name: str, words: Iterable[str], meaning: str) -> str:
    lines, line = [], " "
    for word in sorted(words):
        if len(line) + len(word) > 90:
            lines.append(line)
            line = " "
        line += f' "{word}"'
    listed = "\n".join([*lines, line]).strip()
    return f'\n(defconst hlo-{name}\n  \'({listed})\n  "{meaning}")'


if __name__ == "__main__":
    print(page(), end="")
