"""Classes of `hloc.lazy_dataclass` behave as those of the standard library's decorator."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import KW_ONLY as KW_ONLY
from dataclasses import field
from typing import Any
from typing import ClassVar as ClassVar

import pytest

from hloc import lazy_dataclass
from hloc.lazy_dataclass import dataclass, lazy_property

Decorator = Callable[..., Any]

OPTIONS: tuple[dict[str, bool], ...] = (
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "kw_only": True},
    {"eq": False},
    {"eq": False, "frozen": True, "slots": True},
    {"order": True, "frozen": True},
)
BOTH = pytest.mark.parametrize("decorator", [dataclass, dataclasses.dataclass], ids=["ours", "std"])


def _point(decorator: Decorator, options: dict[str, bool]) -> Any:
    @decorator(**options)
    class Point:
        """A point."""

        x: int
        y: float = 2.0
        tags: list[str] = field(default_factory=list)
        hidden: int = field(default=0, compare=False, repr=False)

    return Point


def _behaviour(decorator: Decorator, options: dict[str, bool]) -> dict[str, Any]:
    """Return what a class does, in values that two decorators can be compared by."""
    cls = _point(decorator, options)
    one, same, other = cls(x=1), cls(x=1, hidden=3), cls(x=2, y=3.0, tags=["a"])
    seen: dict[str, Any] = {
        "repr": repr(other),
        "equal": (one == same, one != same, one == other, one == 1),
        "fields": [f.name for f in dataclasses.fields(cls)],
        "replaced": dataclasses.astuple(dataclasses.replace(one, x=7)),
        "as dict": dataclasses.asdict(other),
        "copied": dataclasses.astuple(copy.deepcopy(other)),
        "own lists": one.tags is not same.tags,
        "has dict": hasattr(one, "__dict__"),
        "matched": cls.__match_args__,
        "hashable": cls.__hash__ is not None,
        "ordered": options.get("order", False) and one < other,
    }
    for name, attempt in {
        "set": lambda: setattr(one, "x", 5),
        "delete": lambda: delattr(one, "x"),
        "missing": cls,
        "unknown": lambda: cls(x=1, z=2),
        "too many": lambda: cls(1, 2.0, [], 0, 5),
    }.items():
        try:
            attempt()
            seen[name] = "done"
        except (AttributeError, TypeError) as fault:
            seen[name] = (type(fault), str(fault))
    return seen


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_class_behaves_as_the_standard_one(options: dict[str, bool]) -> None:
    assert _behaviour(dataclass, options) == _behaviour(dataclasses.dataclass, options)


def _pair(decorator: Decorator) -> Any:
    @decorator(frozen=True, slots=True)
    class Pair:
        left: int
        right: str = field(default="r", hash=False)

    return Pair


def _named(decorator: Decorator) -> Any:
    @decorator(frozen=True)
    class Named:
        name: str

        def __repr__(self) -> str:
            return f"<{self.name}>"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 17

    return Named


def _sized(decorator: Decorator) -> Any:
    @decorator(frozen=True, slots=True)
    class Sized:
        dims: tuple[int, ...]
        size: int = field(init=False)
        notes: list[int] = field(init=False, default_factory=list)

        def __post_init__(self) -> None:
            object.__setattr__(self, "size", sum(self.dims))

    return Sized


def _base_and_derived(decorator: Decorator, derive: Decorator) -> tuple[Any, Any]:
    @decorator(frozen=True, slots=True)
    class Base:
        a: int
        b: int = 2

    @derive(frozen=True, slots=True)
    class Derived(Base):
        c: int = 3

    return Base, Derived


@BOTH
def test_equal_objects_of_a_frozen_class_have_equal_hashes(decorator: Decorator) -> None:
    pair = _pair(decorator)
    assert hash(pair(1)) == hash(pair(1, "q")) != hash(pair(2))
    assert len({pair(1), pair(1), pair(2)}) == 2


@BOTH
def test_own_methods_are_kept(decorator: Decorator) -> None:
    named = _named(decorator)
    assert (repr(named("a")), named("a") == 5, hash(named("b"))) == ("<a>", True, 17)


@BOTH
def test_fields_that_post_init_sets(decorator: Decorator) -> None:
    made = _sized(decorator)((2, 3))
    assert (made.size, made.notes) == (5, [])
    assert dataclasses.replace(made, dims=(4,)).size == 4


@BOTH
@pytest.mark.parametrize("derive", [dataclass, dataclasses.dataclass], ids=["ours", "std"])
def test_a_subclass_has_the_fields_of_its_base_first(
    decorator: Decorator, derive: Decorator
) -> None:
    base, derived = _base_and_derived(decorator, derive)
    made = derived(1)
    assert repr(made).endswith("Derived(a=1, b=2, c=3)")
    assert made != base(1)
    assert made == derived(1, 2, 3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.a = 5


def test_a_class_without_the_decorator_may_set_its_own_attributes() -> None:
    @dataclass(frozen=True)
    class Base:
        a: int

    class Derived(Base):
        pass

    made = Derived(1)
    made.more = 5  # type: ignore[attr-defined]
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.a = 2  # type: ignore[misc]


@BOTH
def test_a_class_with_a_frozen_base_is_frozen(decorator: Decorator) -> None:
    base, _ = _base_and_derived(decorator, decorator)
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):

        @decorator()
        class Changing(base):  # type: ignore[misc, valid-type]
            pass


@dataclass(frozen=True, slots=True)
class Kept:
    """At the top of a module, so that it can be pickled."""

    a: int
    b: str = "b"


def test_methods_are_compiled_after_some_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    made = lazy_dataclass._function

    def counted(cls: Any, name: str, *rest: Any) -> Any:
        compiled.append(name)
        return made(cls, name, *rest)

    monkeypatch.setattr(lazy_dataclass, "_function", counted)
    pair = _pair(dataclass)
    one = pair(1)
    assert (one == pair(left=1), hash(one) == hash(pair(1, right="q"))) == (True, True)
    assert compiled == []
    for number in range(2 * lazy_dataclass._PLAIN_CALLS):
        assert pair(number) == pair(number, "r") != pair(number, "q")
        assert hash(pair(number)) == hash((number,))
    assert sorted(compiled) == ["__eq__", "__hash__", "__init__"]


def test_wrong_arguments_of_the_first_calls_and_of_later_ones() -> None:
    for calls in (0, 2 * lazy_dataclass._PLAIN_CALLS):
        named = _named(dataclass)
        for _ in range(calls):
            named("a")
        for wrong in ((), ("a", "b")):
            with pytest.raises(TypeError, match=r"__init__\(\)"):
                named(*wrong)
        with pytest.raises(TypeError, match="multiple values for argument 'name'"):
            named("a", name="b")
        assert named(name="c").name == "c"


@BOTH
def test_first_calls_take_the_parameters_of_all_kinds(decorator: Decorator) -> None:
    @decorator(slots=True)
    class Kinds:
        given: int
        number: int = dataclasses.field(default=1, kw_only=True)
        parts: list[int] = dataclasses.field(default_factory=list)
        ours: int = dataclasses.field(default=7, init=False)
        empty: list[int] = dataclasses.field(default_factory=list, init=False)
        unset: int = dataclasses.field(init=False)

    kinds: Any = Kinds
    made = kinds(2, [3], number=4)
    assert (made.given, made.number, made.parts, made.ours, made.empty) == (2, 4, [3], 7, [])
    assert not hasattr(made, "unset")
    other = kinds(given=2)
    assert (other.number, other.parts, other.ours, other.empty) == (1, [], 7, [])
    assert other.empty is not made.empty
    for arguments, keywords in (((2, [], 1), {}), ((2,), {"ours": 1}), ((), {"parts": []})):
        with pytest.raises(TypeError, match=r"__init__\(\)"):
            kinds(*arguments, **keywords)


def test_pickling_before_and_after_methods_are_compiled() -> None:
    data = pickle.dumps(Kept(1))
    assert pickle.loads(data) == Kept(1)
    assert pickle.loads(data).b == "b"


def test_a_cycle_is_shown_once() -> None:
    @dataclass
    class Node:
        children: list[object]

    node = Node([])
    node.children.append(node)
    assert repr(node).endswith("Node(children=[...])")


@BOTH
def test_annotations_as_text_are_types_of_fields_except_special_ones(decorator: Decorator) -> None:
    """As in a file with `from __future__ import annotations`."""
    marked = {"a": "int", "kind": "ClassVar[str]", "_": "KW_ONLY", "b": "list[int] | None"}
    cls = type("Marked", (), {"__annotations__": marked, "kind": "k", "__module__": __name__})
    cls = decorator(slots=True)(cls)
    assert {f.name: (f.type, f.kw_only) for f in dataclasses.fields(cls)} == {
        "a": ("int", False),
        "b": ("list[int] | None", True),
    }
    assert cls.__annotations__ == marked
    assert (cls.kind, cls.__slots__) == ("k", ("a", "b"))


def test_making_a_class_parses_neither_annotations_nor_signatures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The standard decorator took 15 ms of each command for these."""
    parsed: list[object] = []
    monkeypatch.setattr(dataclasses, "_is_type", lambda *given: parsed.append(given))
    monkeypatch.setattr(inspect, "signature", parsed.append)
    dataclass(frozen=True)(type("Plain", (), {"__annotations__": {"a": "int", "b": "list[int]"}}))
    assert not parsed


def test_a_lazy_property_is_computed_once_for_each_object() -> None:
    computed: list[object] = []

    @dataclass(frozen=True)
    class Number:
        value: int

        @lazy_property
        def double(self) -> int:
            """Return twice the value."""
            computed.append(self)
            return 2 * self.value

    first, second = Number(1), Number(2)
    assert [first.double, second.double, first.double] == [2, 4, 2]
    assert list(map(id, computed)) == [id(first), id(second)]
    assert first == Number(1)
    assert Number.double.__doc__ == "Return twice the value."
