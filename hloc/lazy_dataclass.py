"""Dataclasses whose methods are compiled when they are first called.

The standard decorator compiles up to eight functions when a class is defined, 0.7 ms for
a frozen one. A command of hloc loads some 300 classes and instantiates a third of them, so this
took more than a third of its start. Here a class gets its fields and slots at once, and `__init__`,
`__eq__` and `__hash__` at their first call. Otherwise it is a dataclass: `fields`, `replace`,
`asdict`, pickling and type checkers treat it as one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, order=False, **options):
        """Turn a class into a dataclass, like `dataclasses.dataclass` with the same options."""
        if cls is None:
            return lambda cls: dataclass(cls, order=order, **options)
        if order:
            return dataclasses.dataclass(cls, order=True, **options)
        return _dataclass(cls, **options)


def _dataclass(
    cls: Any,
    *,
    init: bool = True,
    eq: bool = True,
    frozen: bool = False,
    slots: bool = False,
    **layout: bool,
) -> Any:
    own = dict(cls.__dict__)
    known = frozen and any(_is_frozen(base) for base in cls.__mro__[1:])  # otherwise it is rejected
    result = _with_fields(cls, frozen=known, slots=slots, **layout)
    result.__dataclass_params__.frozen = frozen
    if init and "__init__" not in own:
        _compile_when_called(result, "__init__", lambda: _init(result, frozen))
    if "__repr__" not in own:
        result.__repr__ = _repr
    hashes = own.get("__hash__") is not None
    if eq and "__eq__" not in own:
        _compile_when_called(result, "__eq__", lambda: _eq(result))
    if eq and frozen and not hashes:
        _compile_when_called(result, "__hash__", lambda: _hash(result))
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


def _compile_when_called(cls: Any, name: str, compiled: Callable[[], Any]) -> None:
    """Give `cls` a method that replaces itself by the compiled one when it is called."""

    def first_call(self: object, *args: object, **keywords: object) -> object:
        method = compiled()
        setattr(cls, name, method)
        return method(self, *args, **keywords)

    setattr(cls, name, first_call)


def _init(cls: Any, frozen: bool) -> Any:
    names: dict[str, Any] = {"_factory": object(), "_set": object.__setattr__}
    before, after = ["self"], list[str]()
    lines: list[str] = []
    for field in dataclasses.fields(cls):
        name, value = field.name, field.name
        made_here = field.default_factory is not dataclasses.MISSING
        default = f"_default_{name}"
        names[default] = field.default_factory if made_here else field.default
        if field.init:
            has_default = made_here or field.default is not dataclasses.MISSING
            given = "=_factory" if made_here else f"={default}" if has_default else ""
            (after if field.kw_only else before).append(name + given)
            if made_here:
                value = f"{default}() if {name} is _factory else {name}"
        elif made_here:
            value = f"{default}()"
        elif field.default is not dataclasses.MISSING:
            value = default
        else:
            continue
        lines.append(_assignment(cls, name, value, names, frozen))
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = [*before, "*", *after] if after else before
    return _function(cls, "__init__", parameters, lines or ["pass"], names)


def _assignment(cls: Any, name: str, value: str, names: dict[str, Any], frozen: bool) -> str:
    """Return the line that sets a field, in a frozen class bypassing its `__setattr__`."""
    if not frozen:
        return f"self.{name} = {value}"
    slot = getattr(cls, name, None)
    if isinstance(slot, MemberDescriptorType):
        names[f"_set_{name}"] = slot.__set__
        return f"_set_{name}(self, {value})"
    return f"_set(self, {name!r}, {value})"


def _eq(cls: Any) -> Any:
    names = [field.name for field in dataclasses.fields(cls) if field.compare]
    lines = [
        "if other.__class__ is self.__class__:",
        f"    return {_tuple('self', names)} == {_tuple('other', names)}",
        "return NotImplemented",
    ]
    return _function(cls, "__eq__", ["self", "other"], lines, {})


def _hash(cls: Any) -> Any:
    fields = dataclasses.fields(cls)
    names = [f.name for f in fields if (f.compare if f.hash is None else f.hash)]
    return _function(cls, "__hash__", ["self"], [f"return hash({_tuple('self', names)})"], {})


def _tuple(of: str, names: Iterable[str]) -> str:
    return "(" + "".join(f"{of}.{name}, " for name in names) + ")"


def _function(
    cls: Any, name: str, parameters: list[str], lines: list[str], names: dict[str, Any]
) -> Any:
    """Compile a method; its text contains only names of fields."""
    body = "\n".join(f"    {line}" for line in lines)
    exec(f"def {name}({', '.join(parameters)}):\n{body}", names)
    method = names[name]
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    return method


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
