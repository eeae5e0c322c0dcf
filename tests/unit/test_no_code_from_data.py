"""Nothing that hloc reads becomes code: where Python could make it so, there is a reason here."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("hloc", "repl", "jax_plugins")

MAKES_CODE = {
    "pickle": r"\b(?:c?[Pp]ickle|dill|joblib|shelve|jsonpickle)\b(?! file)",
    "marshal": r"\bmarshal\.loads?\b",
    "eval": r"(?<![\w.])eval\(",
    "exec": r"(?<![\w.])exec\(",
    "import by name": r"\b__import__\(|\bimport_module\((?!f?\"[\w.{}]+\"\))|\brunpy\.\w",
    "shell": r"\bshell=True|\bos\.(?:system|popen)\(|\bsubprocess\.getoutput",
    "yaml": r"\byaml\.(?:unsafe_|full_)?load\b",
    "NumPy": r"\bnp\.load\((?!.*allow_pickle=False)|allow_pickle=True",
    "path of libraries": r"\bsys\.path\.(?:insert|append)\(",
}

REASONS = {
    ("hloc/formats/sniff.py", "pickle"): "names the kind of a file that it refuses",
    ("hloc/opt/plugin.py", "exec"): "--plugin: a Python file that the user names",
    ("hloc/lazy_dataclass.py", "exec"): "the __init__ of a dataclass, from its field names",
    ("hloc/__init__.py", "import by name"): "hloc's own modules, from a table",
    ("hloc/jax/__init__.py", "import by name"): "hloc's own modules, from a table",
    ("hloc/cli/commands.py", "import by name"): "the command's own module, from the table",
    ("hloc/opt/registry.py", "import by name"): "the pass's own module, from the table",
    ("hloc/codegen/backend.py", "import by name"): "backends, from the table",
    (
        "hloc/runtime/loading.py",
        "import by name",
    ): "what loads a backend's programs, from the table",
    ("hloc/runtime/gpu/library/packages.py", "import by name"): "NVIDIA's packages, from a table",
    ("hloc/cli/outside_test.py", "shell"): "--test: a command that the user gives; the file quoted",
    ("repl/commands/general.py", "eval"): "`py`: Python that the user types",
    ("repl/commands/general.py", "exec"): "`py`: Python that the user types",
    ("repl/commands/general.py", "shell"): "`!`: a command that the user types",
    ("repl/jax_trace.py", "eval"): "`jax`: Python that the user types, in a process of its own",
    ("repl/jax_script.py", "import by name"): "--jax: a script that the user names",
}


def found() -> dict[tuple[str, str], list[str]]:
    """Return the lines that could make code of data, by file and kind."""
    result: dict[tuple[str, str], list[str]] = {}
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            name = file.relative_to(ROOT).as_posix()
            if name.startswith("hloc/lessons/"):
                continue
            for line in file.read_text("utf-8").splitlines():
                for kind, pattern in MAKES_CODE.items():
                    if re.search(pattern, line):
                        result.setdefault((name, kind), []).append(line.strip())
    return result


def test_every_place_has_its_reason() -> None:
    lines = found()
    unexplained = {key: text for key, text in lines.items() if key not in REASONS}
    assert not unexplained
    assert not set(REASONS) - set(lines), "reasons without a place"


@pytest.mark.parametrize(
    "line",
    [
        "import pickle", "x = marshal.loads(data)", "y = eval(text)", "exec(code, names)",
        "subprocess.run(text, shell=True)", "os.system(text)", "yaml.load(f)", "np.load(path)",
        "np.load(path, allow_pickle=True)", "importlib.import_module(name)", "__import__(name)",
    ],
)  # fmt: skip
def test_the_test_sees(line: str) -> None:
    assert any(re.search(pattern, line) for pattern in MAKES_CODE.values())
