"""`hloc learn new NAME`: a folder with a small working lesson, to be rewritten."""

from __future__ import annotations

import re
from pathlib import Path

from hloc.errors import HloError, reason_of

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

_FILES = {
    "lesson.md": """# NAME

What this lesson is about, in two sentences.

```hlo-repl
> load input.hlo
> show
```

What to look at, and why it matters.

## Exercise

Write a pass that removes the double negation. Check it with `hloc learn check NAME exercise.py`.
""",
    "input.hlo": """HloModule NAME

ENTRY main {
  x = f32[4] parameter(0)
  minus = f32[4] negate(x)
  ROOT plus = f32[4] negate(minus)
}
""",
    "script.hlor": """# # NAME
load input.hlo
show
""",
    "exercise.py": '''"""Exercise: two negations are none."""

from hloc.opt import Pass, any_, rule
from hloc.opt import ops as o


@rule(o.negate(any_("x")))
def double_negate(m):
    """-(-x) = x."""
    return None  # what stands for m.root?


simplify = Pass("my-simplify", rules=[double_negate])
''',
    "reference.py": '''"""Solution: two negations are none."""

from hloc.opt import Pass, any_, rule
from hloc.opt import ops as o


@rule(o.negate(o.negate(any_("x"))))
def double_negate(m):
    """-(-x) = x, exactly: both change the sign bit only."""
    return m.x


simplify = Pass("my-simplify", rules=[double_negate])
''',
    "check.toml": """kind = "pass"        # or "answers", "schedule"
compare = "exact"    # or "tolerance", or a number of units in the last place

[[module]]
file = "input.hlo"
goals = ["ops.negate <= 0", "instrs <= 1"]
hint = "an operand may stand for the result"

[[module]]
name = "a single negation"
text = '''
HloModule single

ENTRY main {
  x = f32[4] parameter(0)
  ROOT minus = f32[4] negate(x)
}
'''
goals = ["ops.negate == 1"]
hint = "two wrong steps can make a right one; here there is one only"
""",
}


def new_lesson(name: str) -> Path:
    """Create the folder `name` with the files of a lesson and return it.

    Raises:
        HloError: the name is not kebab-case, or the folder exists or cannot be created.
    """
    if not _NAME.fullmatch(Path(name).name):
        raise HloError(f"expected a kebab-case lesson name such as `my-lesson`, found {name!r}")
    folder = Path(name)
    try:
        folder.mkdir(parents=True)
        for file, text in _FILES.items():
            folder.joinpath(file).write_text(text.replace("NAME", folder.name), encoding="utf-8")
    except OSError as fault:
        raise HloError(f"cannot make {name}: {reason_of(fault)}") from None
    return folder
