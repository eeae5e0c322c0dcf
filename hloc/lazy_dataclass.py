"""Dataclasses whose methods are compiled when they have been called a few times.

The standard decorator compiles up to eight functions when a class is defined, 0.7 ms for
a frozen one. A command of hloc loads some 300 classes and instantiates a third of them, so this
took more than a third of its start. Here a class gets its fields and slots at once, and `__init__`,
`__eq__` and `__hash__` after some calls, which go from field to field: most classes make fewer
objects. Classes with as many fields of the same kind share compiled code. Otherwise it is a
dataclass: `fields`, `replace`, `asdict`, pickling and type checkers treat it as one.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable
from functools import cache
from itertools import repeat
from reprlib import recursive_repr
from sys import maxsize
from types import CodeType, FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from functools import cached_property

    lazy_property = cached_property
else:

    def dataclass(cls=None, /, *, order=False, **options):
        """Turn a class into a dataclass, like `dataclasses.dataclass` with the same options."""
        if cls is None:
            return lambda cls: dataclass(cls, order=order, **options)
        if order:
            return dataclasses.dataclass(cls, order=True, **options)
        return _dataclass(cls, **options)

    class lazy_property:
        """`functools.cached_property` without the lock that it takes before Python 3.12.

        Two threads may compute the value at once, so it must depend on the object alone. The
        first access to `ArrayShape.size_bytes` takes 0.8 us, and not 2.1 (Python 3.11).
        """

        def __init__(self, compute):
            self.compute, self.__doc__ = compute, compute.__doc__

        def __set_name__(self, owner, name):
            self.name = name

        def __get__(self, record, owner=None):
            if record is None:
                return self
            value = record.__dict__[self.name] = self.compute(record)
            return value


def field_values(record: Any) -> tuple[Any, ...]:
    """Return the values of the fields of a class with slots, without the copies of `astuple`."""
    return (*map(getattr, repeat(record), record.__slots__),)


_PLAIN_CALLS = 10
"""Calls of a method before it is compiled, which takes as long as 10 to 100 of them.

A cold compile of a row sum takes 15.4 million instructions with 10, 17.8 with 5, 17.2 with 32.
"""

_Plain = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
"""Does what a method does; `_UNFIT` if its arguments are not simply right."""

_UNFIT = object()


def _dataclass(
    cls: Any,
    *,
    init: bool = True,
    eq: bool = True,
    frozen: bool = False,
    slots: bool = False,
    **layout: bool,
) -> Any:
    """Return the class as a dataclass whose methods are stubs until they are called.

    The rules for which methods it gets are those of `dataclasses.dataclass`.
    """
    own = dict(cls.__dict__)
    known = frozen and any(_is_frozen(base) for base in cls.__mro__[1:])  # otherwise it is rejected
    result = _with_fields(cls, frozen=known, slots=slots, **layout)
    result.__dataclass_params__.frozen = frozen
    if init and "__init__" not in own:
        _compile_later(
            result, "__init__", _plain_init(result, frozen), lambda: _init(result, frozen)
        )
    if "__repr__" not in own:
        result.__repr__ = _repr
    hashes = own.get("__hash__") is not None
    if eq and "__eq__" not in own:
        _compile_later(result, "__eq__", _plain_eq(result), lambda: _eq(result))
    if eq and frozen and not hashes:
        _compile_later(result, "__hash__", _plain_hash(result), lambda: _hash(result))
    elif eq and not hashes:
        result.__hash__ = None
    if frozen:
        _forbid_changes(result)
        if slots and "__getstate__" not in own:
            result.__getstate__, result.__setstate__ = _state, _set_state
    return result


def _with_fields(cls: Any, **options: bool) -> Any:
    """Give `cls` its fields and slots, in two thirds of the time of the standard decorator.

    That one parses each annotation three times to find those that are not fields, and a signature
    for the docstring of a class without one.
    """
    cls.__doc__ = cls.__doc__ or cls.__name__
    types = cls.__dict__.get("__annotations__", {})  # noqa: RUF063 - no more is asked for
    plain = {name: type_ for name, type_ in types.items() if _is_plain_text(type_)}
    if plain:
        cls.__annotations__ = {**types, **dict.fromkeys(plain)}
    result: Any = dataclasses.dataclass(init=False, repr=False, eq=False, **options)(cls)
    if plain:
        result.__annotations__ = types
    for name, type_ in plain.items():
        result.__dataclass_fields__[name].type = type_
    return result


def _is_plain_text(annotation: object) -> bool:
    special = ("ClassVar", "InitVar", "KW_ONLY")
    return isinstance(annotation, str) and not any(name in annotation for name in special)


def _is_frozen(cls: type) -> bool:
    parameters = getattr(cls, "__dataclass_params__", None)
    return parameters is not None and parameters.frozen


def _compile_later(cls: Any, name: str, plain: _Plain, compiled: Callable[[], Any]) -> None:
    """Give `cls` a method that replaces itself by the compiled one after some calls."""
    left = _PLAIN_CALLS

    def first_calls(self: object, *args: object, **keywords: object) -> object:
        nonlocal left
        left -= 1
        result = plain(self, args, keywords) if left >= 0 else _UNFIT
        if result is not _UNFIT:
            return result
        method = compiled()
        setattr(cls, name, method)
        return method(self, *args, **keywords)

    setattr(cls, name, first_calls)


def _plain_init(cls: Any, frozen: bool) -> _Plain:
    """Return what sets all fields; C code goes from one to the next, as in the methods below."""
    put = object.__setattr__ if frozen else setattr
    has_more = hasattr(cls, "__post_init__")
    known: _Parameters | None = None

    def init(self: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        nonlocal known
        if known is None:
            known = _parameters(cls)
        names, needed, rest = known.positional, known.needed, known.rest
        if not keywords and needed <= len(args) <= len(names):
            deque(map(put, repeat(self), names, args + rest[len(args) - needed :]), maxlen=0)
            if has_more:
                self.__post_init__()
            return None
        values = dict(zip(names, args, strict=False)) | keywords
        if len(values) != len(args) + len(keywords):
            return _UNFIT  # too many, or one given twice
        if values.keys() != known.names or known.names != known.fields:
            if not values.keys() <= known.names:
                return _UNFIT
            values = known.defaults | values
            for name, factory in known.factories:
                if name not in values:
                    values[name] = factory()
            if values.keys() != known.fields:
                return _UNFIT
        deque(map(put, repeat(self), values, values.values()), maxlen=0)
        if has_more:
            self.__post_init__()
        return None

    return init


class _Parameters(NamedTuple):
    """What `__init__` takes and sets, by the names of fields.

    Attributes:
        positional: parameters that may be given by position.
        needed, rest: how many of these have no default, and the defaults of the others; if it sets
            more than these, a number that is out of reach.
        names: all parameters.
        fields: those that it sets.
        defaults, factories: their values if they are not given.
    """

    positional: list[str]
    needed: int
    rest: tuple[Any, ...]
    names: frozenset[str]
    fields: frozenset[str]
    defaults: dict[str, Any]
    factories: list[tuple[str, Callable[[], Any]]]


def _parameters(cls: Any) -> _Parameters:
    positional, names, defaults, factories = list[str](), list[str](), dict[str, Any](), []
    for field in dataclasses.fields(cls):
        name = field.name
        if field.init:
            names.append(name)
            if not field.kw_only:
                positional.append(name)
        if field.default is not dataclasses.MISSING:
            defaults[name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            factories.append((name, field.default_factory))
    parameters = frozenset(names)
    fields = parameters.union(defaults, (name for name, _ in factories))
    is_plain = len(positional) == len(fields) and not factories
    needed = len(positional) - len(defaults) if is_plain else maxsize
    rest = tuple(defaults.values())
    return _Parameters(positional, needed, rest, parameters, fields, defaults, factories)


def _plain_eq(cls: Any) -> _Plain:
    def eq(self: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        if len(args) != 1 or keywords:
            return _UNFIT
        other = args[0]
        if other is self:
            return True
        if other.__class__ is not self.__class__:
            return NotImplemented
        names = _compared(cls)
        return [*map(getattr, repeat(self), names)] == [*map(getattr, repeat(other), names)]

    return eq


def _plain_hash(cls: Any) -> _Plain:
    def value(self: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        return _UNFIT if args or keywords else hash((*map(getattr, repeat(self), _hashed(cls)),))

    return value


@cache
def _compared(cls: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(cls) if field.compare]


@cache
def _hashed(cls: Any) -> list[str]:
    fields = dataclasses.fields(cls)
    return [f.name for f in fields if (f.compare if f.hash is None else f.hash)]


def _init(cls: Any, frozen: bool) -> Any:
    """Return `__init__` of a class, with defaults and factories.

    Fields are called by number in the code, so that classes share it; `_function` renames the
    parameters.
    """
    names: dict[str, Any] = {"_factory": object(), "_set": object.__setattr__}
    before, after, lines = ["self"], list[str](), list[str]()
    defaults, keyword_defaults = list[Any](), dict[str, Any]()
    for field, name in _numbered(dataclasses.fields(cls)):
        value = name
        made_here = field.default_factory is not dataclasses.MISSING
        default = names["_factory"] if made_here else field.default
        names[f"_default_{name}"] = field.default_factory if made_here else field.default
        if field.init:
            (after if field.kw_only else before).append(name)
            if default is dataclasses.MISSING:
                pass
            elif field.kw_only:
                keyword_defaults[field.name] = default
            else:
                defaults.append(default)
            if made_here:
                value = f"_default_{name}() if {name} is _factory else {name}"
        elif made_here:
            value = f"_default_{name}()"
        elif field.default is not dataclasses.MISSING:
            value = f"_default_{name}"
        else:
            continue
        lines.append(_assignment(cls, field.name, name, value, names, frozen))
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = [*before, "*", *after] if after else before
    method = _function(cls, "__init__", parameters, lines or ["pass"], names)
    method.__defaults__, method.__kwdefaults__ = tuple(defaults), keyword_defaults
    return method


def _assignment(
    cls: Any, real: str, name: str, value: str, names: dict[str, Any], frozen: bool
) -> str:
    """Return the line that sets a field, in a frozen class bypassing its `__setattr__`."""
    if not frozen:
        return f"self.{name} = {value}"
    slot = getattr(cls, real, None)
    if isinstance(slot, MemberDescriptorType):
        names[f"_set_{name}"] = slot.__set__
        return f"_set_{name}(self, {value})"
    names[f"_name_{name}"] = real
    return f"_set(self, _name_{name}, {value})"


def _eq(cls: Any) -> Any:
    compared = _compared(cls)
    names = [number for f, number in _numbered(dataclasses.fields(cls)) if f.name in compared]
    lines = [
        "if other is self:",
        "    return True",
        "if other.__class__ is self.__class__:",
        f"    return {_tuple('self', names)} == {_tuple('other', names)}",
        "return NotImplemented",
    ]
    return _function(cls, "__eq__", ["self", "other"], lines, {})


def _hash(cls: Any) -> Any:
    hashed = _hashed(cls)
    names = [number for f, number in _numbered(dataclasses.fields(cls)) if f.name in hashed]
    return _function(cls, "__hash__", ["self"], [f"return hash({_tuple('self', names)})"], {})


def _tuple(of: str, names: Iterable[str]) -> str:
    return "(" + "".join(f"{of}.{name}, " for name in names) + ")"


def _numbered(fields: Iterable[dataclasses.Field[Any]]) -> list[tuple[dataclasses.Field[Any], str]]:
    """Return each field with its name in the text of a method: `field0`, `field1` ..."""
    return [(field, f"field{number}") for number, field in enumerate(fields)]


def _function(
    cls: Any, name: str, parameters: list[str], lines: list[str], names: dict[str, Any]
) -> Any:
    """Return a method; `names` are its globals, and its text names fields by number."""
    body = "\n".join(f"    {line}" for line in lines)
    code = _compiled(f"def method({', '.join(parameters)}):\n{body}")
    real = {number: field.name for field, number in _numbered(dataclasses.fields(cls))}
    code = code.replace(
        co_name=name,
        co_qualname=f"{cls.__qualname__}.{name}",
        co_names=tuple(real.get(used, used) for used in code.co_names),
        co_varnames=tuple(real.get(used, used) for used in code.co_varnames),
    )
    return FunctionType(code, names)


@cache
def _compiled(text: str) -> CodeType:
    """Return the code of a method; classes with fields alike share it but for the names."""
    names: dict[str, Any] = {}
    exec(text, names)
    code: CodeType = names["method"].__code__
    return code


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (field.name for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(f'{n}={getattr(self, n)!r}' for n in shown)})"


def _forbid_changes(cls: Any) -> None:
    names = frozenset(field.name for field in dataclasses.fields(cls))

    def set_attribute(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete_attribute(self: object, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = set_attribute, delete_attribute


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
