"""`hloc.from_jax(f, *args)` and `@hloc.jit`: JAX functions compiled and run by hloc."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, overload

from hloc import driver
from hloc.errors import HloError
from hloc.jax.installed import jax_package
from hloc.jax.lowering import lower
from hloc.jax.program import JaxProgram
from hloc.options import CompileOptions

_LEVEL = 2


def from_jax(function: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> JaxProgram:
    """Lower a JAX function for arguments like these, without running it.

    `hloc.from_jax(jax.grad(loss), weights, batch).diff("algsimp")`: transformed functions are
    lowered as a whole. Arguments may be arrays or `jax.ShapeDtypeStruct`. If `function` is the
    result of `jax.jit`, its static arguments are given here and omitted when the program is called.

    Raises:
        HloError: jax is not installed; the function calls back into Python.
    """
    return JaxProgram(lower(function, arguments, keywords))


@overload
def jit(function: Callable[..., Any], /, **options: Any) -> HlocFunction: ...


@overload
def jit(
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    opt_level: int = 2,
    **options: Any,
) -> Callable[[Callable[..., Any]], HlocFunction]: ...


def jit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    opt_level: int = _LEVEL,
    **options: Any,
) -> Any:
    """Compile a JAX function with hloc; used like `jax.jit`, as a decorator or a function.

    Args:
        function: a function that JAX can trace.
        static_argnums: as for `jax.jit`.
        static_argnames: as for `jax.jit`.
        opt_level: 0 to 3.
        options: other fields of `CompileOptions`, e.g. `fast_math=True`.

    Raises:
        HloError: an option that does not exist, or jax is not installed.
    """
    compile_options = driver.make_options(opt_level, "cpu", options)
    static = {"static_argnums": static_argnums, "static_argnames": static_argnames}
    if function is None:
        return lambda decorated: HlocFunction(decorated, static, compile_options)
    return HlocFunction(function, static, compile_options)


class HlocFunction:
    """A JAX function that hloc compiles once for each combination of argument shapes and types.

    Under `jax.jit`, `grad`, `vmap` and other transformations it is inlined into the transformed
    function, like one of `jax.jit`; wrap the transformed function to let hloc compile all of it.
    """

    def __init__(
        self, function: Callable[..., Any], static: dict[str, Any], options: CompileOptions
    ) -> None:
        jax = jax_package("hloc.jit")
        self._jitted = jax.jit(function, keep_unused=True, **static)
        self._is_static = any(value is not None for value in static.values())
        self._options = options
        self._flatten: Callable[[Any], tuple[list[Any], Any]] = jax.tree.flatten
        self._config = jax.config
        self._array = type(jax.numpy.zeros(()))
        self._is_outside: Callable[[], bool] = _outside_transformations()
        self._programs: dict[Any, tuple[Callable[..., Any], Callable[..., Any]]] = {}
        self._static = _Static(function, static)
        functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"<hloc.jit of {getattr(self, '__name__', 'a function')}>"

    def lower(self, *arguments: Any, **keywords: Any) -> JaxProgram:
        """Return the program for arguments like these; it is compiled when it is called."""
        return JaxProgram(lower(self._jitted, arguments, keywords), self._options)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Run it on arrays of JAX or NumPy, in any pytree; results are JAX arrays.

        Raises:
            HloError: hloc cannot run it. JAX's own errors are not caught.
        """
        if not self._is_outside():
            return self._jitted(*arguments, **keywords)
        statics: Any = ()
        given: Any = (arguments, keywords)
        if self._is_static:
            arguments, keywords, statics, given = self._static.split(arguments, keywords)
        leaves, tree = self._flatten(given)
        array = self._array
        signatures = [leaf.aval if type(leaf) is array else _signature(leaf) for leaf in leaves]
        key = (tree, statics, self._config.jax_enable_x64, *signatures)
        try:
            found = self._programs.get(key)
        except TypeError:
            raise HloError("static arguments must be hashable, as for jax.jit") from None
        if found is None:
            program = self.lower(*arguments, **keywords)
            found = program.run_leaves, program.lowered.out_tree.unflatten
            self._programs[key] = found
        run, unflatten = found
        return unflatten(run(leaves))


def _outside_transformations() -> Callable[[], bool]:
    """Return the function that is False while JAX traces; calls then belong to the trace."""
    from jax._src import core  # JAX has no public name for it

    found: Callable[[], bool] = core.trace_state_clean
    return found


def _signature(leaf: Any) -> Any:
    """Return the cache key of an argument that is not a JAX array."""
    dtype = getattr(leaf, "dtype", None)
    return type(leaf) if dtype is None else (type(leaf), leaf.shape, dtype)


class _Static:
    """Distinguishes static arguments from others."""

    def __init__(self, function: Callable[..., Any], static: dict[str, Any]) -> None:
        numbers, names = static["static_argnums"], static["static_argnames"]
        self.numbers = {numbers} if isinstance(numbers, int) else set(numbers or ())
        self.names = {names} if isinstance(names, str) else set(names or ())
        try:
            parameters = list(inspect.signature(function).parameters)
        except (TypeError, ValueError):
            parameters = []
        count = len(parameters)
        self.numbers = {n + count if n < 0 else n for n in self.numbers}
        self.numbers |= {at for at, name in enumerate(parameters) if name in self.names}
        self.names |= {name for at, name in enumerate(parameters) if at in self.numbers}

    def split(
        self, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], Any, Any]:
        """Return the arguments as given, the static ones as a key, and the others."""
        dynamic = tuple(a for at, a in enumerate(arguments) if at not in self.numbers)
        named = {name: value for name, value in keywords.items() if name not in self.names}
        key = (
            tuple((at, a) for at, a in enumerate(arguments) if at in self.numbers),
            tuple(sorted((n, v) for n, v in keywords.items() if n in self.names)),
        )
        return arguments, keywords, key, (dynamic, named)
