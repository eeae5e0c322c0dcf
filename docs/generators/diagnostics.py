"""The page docs/diagnostics.md: every code, what it means, an example, the remedy.

python -m docs.generators.diagnostics > docs/diagnostics.md
"""

from __future__ import annotations

from hloc.diagnostics import EXPLANATIONS, GROUPS


def page() -> str:
    """Return docs/diagnostics.md."""
    lines = [
        "# Diagnostics",
        "",
        "Generated from `hloc/diagnostics.py` by `make docs`. `hloc explain CODE` prints one.",
    ]
    for prefix, title in GROUPS:
        lines += ["", f"## {title}"]
        for row in EXPLANATIONS.values():
            if row.code.startswith(prefix):
                lines += ["", f"### {row.code}: {row.title}", "", row.text]
                if row.example:
                    lines += ["", "```", row.example.replace("\0", "\\0").rstrip(), "```"]
                lines += ["", row.remedy]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
