"""What the sources import: every file parsed once, for the tests of floors and of cycles."""

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE_FOLDERS = ("hloc", "jax_plugins", "repl")
REGISTRY_STRING = re.compile(r"((?:hloc|jax_plugins|repl)(?:\.\w+)*):\w+")
_IN_EXPRESSIONS = re.compile(REGISTRY_STRING.pattern + "|import_module|__import__")


@dataclass(frozen=True)
class Import:
    """One imported module.

    Attributes:
        target: as written, absolute.
        line: in the importing file.
        for_types: it stands under `if TYPE_CHECKING`.
        by_name: a string `module:Name` of a registry, imported when it is asked for.
    """

    target: str
    line: int
    inside_function: bool
    for_types: bool = False
    by_name: bool = False
    star: bool = False


def sources(root: Path) -> Iterator[Path]:
    """Yield all files of the product."""
    for folder in SOURCE_FOLDERS:
        yield from sorted((root / folder).rglob("*.py"))


def module_name(file: Path, root: Path) -> str:
    """Return the dotted name: hloc/ir/__init__.py is `hloc.ir`."""
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports_of(file: Path, root: Path) -> tuple[Import, ...]:
    """Return every import of `file`, wherever it stands."""
    package = module_name(file, root)
    if file.name != "__init__.py":
        package = package.rpartition(".")[0]
    text = file.read_text(encoding="utf-8")
    reader = _Reader(package, root, bool(_IN_EXPRESSIONS.search(text)), [])
    reader.visit(ast.parse(text), inside=False, for_types=False)
    return tuple(reader.found)


@dataclass(frozen=True)
class _Reader:
    """Collects the imports of one file of `package`; only some files have them in expressions."""

    package: str
    root: Path
    in_expressions: bool
    found: list[Import]

    def visit(self, node: ast.AST, *, inside: bool, for_types: bool) -> None:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    self._add(alias.name, node.lineno, inside, for_types)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = _absolute(module, level, self.package)
                for alias in names:
                    inner = f"{base}.{alias.name}"
                    target = inner if _exists(inner, self.root) else base
                    self._add(target, node.lineno, inside, for_types, star=alias.name == "*")
            case ast.Call(args=[ast.Constant(value=str(name)), *_]) if _is_import_call(node):
                self._add(name, node.lineno, inside, for_types)
            case ast.Constant(value=str(text)) if named := REGISTRY_STRING.fullmatch(text):
                self._add(named[1], node.lineno, inside, for_types, by_name=True)
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body, orelse=orelse):
                for statement in body:
                    self.visit(statement, inside=inside, for_types=True)
                for statement in orelse:
                    self.visit(statement, inside=inside, for_types=for_types)
                return
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            if self.in_expressions or not isinstance(child, ast.expr):
                self.visit(child, inside=inside, for_types=for_types)

    def _add(
        self,
        target: str,
        line: int,
        inside: bool,
        for_types: bool,
        *,
        by_name: bool = False,
        star: bool = False,
    ) -> None:
        self.found.append(Import(target, line, inside, for_types, by_name, star))


def _absolute(module: str | None, level: int, package: str) -> str:
    if level == 0:
        return module or ""
    parent = ".".join(package.split(".")[: len(package.split(".")) - level + 1])
    return f"{parent}.{module}" if module else parent


def _exists(module: str, root: Path) -> bool:
    path = root.joinpath(*module.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def _is_import_call(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name in ("import_module", "__import__")


def cycles(graph: Mapping[str, Collection[str]]) -> list[tuple[str, ...]]:
    """Return the sets of two or more nodes that reach each other, sorted (Tarjan, no recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    open_nodes: dict[str, None] = {}  # an ordered set, in the order of their index
    found: list[tuple[str, ...]] = []
    for start in sorted(graph):
        stack = [] if start in index else [(start, iter(sorted(graph[start])))]
        while stack:
            node, rest = stack[-1]
            if node not in index:
                index[node] = low[node] = len(index)
                open_nodes[node] = None
            for target in rest:
                if target not in index:
                    stack.append((target, iter(sorted(graph[target]))))
                    break
                if target in open_nodes:
                    low[node] = min(low[node], low[target])
            else:
                stack.pop()
                if stack:
                    low[stack[-1][0]] = min(low[stack[-1][0]], low[node])
                if low[node] == index[node]:
                    members = [n for n in open_nodes if index[n] >= index[node]]
                    for member in members:
                        del open_nodes[member]
                    if len(members) > 1:
                        found.append(tuple(sorted(members)))
    return sorted(found)
