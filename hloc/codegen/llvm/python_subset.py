"""A subset of Python to LLVM text: functions over C structures.

All values are 64-bit integers; a value also has a C type, by which `buffer.device` and `list[i]`
load and store fields and elements. There are assignments, `if`, `while`, `for i in range(n)`,
calls, integer arithmetic, `min`, comparisons, `and`, `or`, `not`. The type of a local is that of
its first value. A function `f` that is called with `args: Args` takes the structure `f_Args`. The
names in `_BUILT_IN` and `C_FUNCTIONS` are explained in `python_subset_stubs.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import ClassVar

from hloc.codegen.llvm.structures import Layout, Structures
from hloc.lazy_dataclass import dataclass

C_FUNCTIONS = {
    "malloc": 1, "aligned_alloc": 2, "free": 1, "memcpy": 3, "memset": 3, "sched_yield": 0,
    "clock_gettime": 2, "madvise": 3,
    "pthread_mutex_init": 2, "pthread_mutex_lock": 1, "pthread_mutex_unlock": 1,
    "pthread_cond_init": 2, "pthread_cond_wait": 2, "pthread_cond_signal": 1,
    "pthread_cond_broadcast": 1, "pthread_create": 4, "pthread_sigmask": 3, "sigfillset": 1,
}  # fmt: skip
"""Functions of the C library, and how many arguments they take."""

_WIDTHS = {
    "bool": 8, "char": 8, "uint8_t": 8, "int8_t": 8, "int16_t": 16, "uint16_t": 16, "int": 32,
    "int32_t": 32, "uint32_t": 32,
}  # fmt: skip
_SIGNED = {"int", "int8_t", "int16_t", "int32_t"}
_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "sdiv", ast.Mod: "srem",
    ast.BitAnd: "and", ast.BitOr: "or", ast.LShift: "shl",
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "slt", ast.LtE: "sle", ast.Gt: "sgt", ast.GtE: "sge",
    ast.Is: "eq", ast.IsNot: "ne",
}  # fmt: skip
_NUMBER = "int64_t"
_WORDS = {"Words": "int64_t*"}


@dataclass(frozen=True, slots=True)
class Value:
    """An operand of LLVM text, an i64, and its C type."""

    text: str
    type: str = _NUMBER


@dataclass(slots=True)
class Unit:
    """What the functions of one unit share.

    Attributes:
        structures: that the functions work on.
        lists: names that annotations use for pointers to several: `Words` for `int64_t*`.
        enums: what precedes the name of an enum: `PJRT_`.
        functions: of C and of a prelude, and how many arguments they take.
        fallbacks: functions of the C API whose hard cases go to Python, by index.
        texts: the constant texts by their bytes.
    """

    structures: Structures
    lists: Mapping[str, str]
    enums: str
    functions: Mapping[str, int]
    returns: dict[str, str] = field(default_factory=dict)
    fallbacks: list[str] = field(default_factory=list)
    texts: dict[bytes, str] = field(default_factory=dict)

    def python_fallback(self, name: str) -> int:
        """Return the index of the Python function `name`."""
        if name not in self.fallbacks:
            self.fallbacks.append(name)
        return self.fallbacks.index(name)

    def text(self, data: bytes) -> str:
        """Return the address of constant memory that holds `data`."""
        return self.texts.setdefault(data, f"ptrtoint (ptr @text{len(self.texts)} to i64)")

    def type_of(self, annotation: ast.expr | None, function: str = "") -> str:
        """Return the C type that an annotation stands for: a structure's name means its address."""
        if not isinstance(annotation, ast.Name) or annotation.id == "int":
            return _NUMBER
        if annotation.id in self.lists:
            return self.lists[annotation.id]
        if annotation.id == "Args":
            return f"{function}_Args*"
        return f"{annotation.id}*" if self.structures.has_struct(annotation.id) else "void*"


def translate(
    source: str,
    structures: Structures,
    *,
    lists: Mapping[str, str] = MappingProxyType({}),
    enums: str = "",
    prelude: str = "",
    prelude_functions: Mapping[str, int] = MappingProxyType({}),
) -> tuple[str, tuple[str, ...]]:
    """Return LLVM text, and the names of the functions that Python must bring.

    Args:
        source: Python text whose functions are translated; what else it holds is for readers.
            `state` in them is the one structure `State` of the unit.
        structures: that they work on.
        lists: see `Unit`.
        enums: see `Unit`.
        prelude: LLVM text of functions on 64-bit integers that they may call.
        prelude_functions: of the prelude, and how many arguments they take.
    """
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    unit = Unit(structures, {**_WORDS, **lists}, enums, {**C_FUNCTIONS, **prelude_functions})
    unit.returns.update((f.name, unit.type_of(f.returns)) for f in functions)
    bodies = [_Function(unit, function).text() for function in functions]
    size = structures.layout("State").size
    head = [prelude, f"@state = internal global [{size} x i8] zeroinitializer, align 64"]
    for number, data in enumerate(unit.texts):
        escaped = "".join(f"\\{byte:02x}" for byte in data)
        head.append(f'@text{number} = private constant [{len(data)} x i8] c"{escaped}"')
    for name, count in C_FUNCTIONS.items():
        head.append(f"declare i64 @{name}({', '.join(['i64'] * count)})")
    return "\n".join([*head, "", *bodies]), tuple(unit.fallbacks)


class _Function:
    """The translation of one function."""

    def __init__(self, unit: Unit, source: ast.FunctionDef) -> None:
        self._unit, self._source = unit, source
        self._locals: dict[str, Value] = {}
        self._head: list[str] = []
        self._lines: list[str] = []
        self._count = 0
        self._loops: list[tuple[str, str]] = []
        self._ended = False

    def text(self) -> str:
        """Return the definition."""
        source = self._source
        parameters = []
        for argument in source.args.args:
            parameters.append(f"i64 %{argument.arg}")
            slot = self._local(argument.arg, self._unit.type_of(argument.annotation, source.name))
            self._line(f"store i64 %{argument.arg}, ptr {slot.text}")
        self._block(source.body)
        if not self._ended:
            self._line("ret i64 0")
        head = f"define i64 @{source.name}({', '.join(parameters)}) nounwind {{"
        return "\n".join([head, "entry:", *self._head, *self._lines, "}", ""])

    # ---- writing

    def _line(self, text: str) -> None:
        self._lines.append(f"  {text}")

    def _value(self, text: str, type_: str = _NUMBER) -> Value:
        self._count += 1
        self._line(f"%v{self._count} = {text}")
        return Value(f"%v{self._count}", type_)

    def _label(self) -> str:
        self._count += 1
        return f"b{self._count}"

    def _start(self, label: str) -> None:
        self._lines.append(f"{label}:")
        self._ended = False

    def _jump(self, label: str) -> None:
        if not self._ended:
            self._line(f"br label %{label}")
        self._ended = True

    def _local(self, name: str, type_: str) -> Value:
        if name not in self._locals:
            self._head.append(f"  %local.{name} = alloca i64")
            self._locals[name] = Value(f"%local.{name}", type_)
        return self._locals[name]

    # ---- statements

    def _block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if self._ended:
                return
            self._statement(statement)

    def _statement(self, statement: ast.stmt) -> None:
        """Translate one statement; a `for` over a range becomes a `while` with a step."""
        match statement:
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(value=value):
                self._expression(value)
            case ast.Assign(targets=[target], value=value):
                self._store(target, self._expression(value))
            case ast.AnnAssign(target=target, annotation=kind, value=ast.expr() as value):
                self._store(target, Value(self._expression(value).text, self._unit.type_of(kind)))
            case ast.AugAssign(target=target, op=op, value=value):
                self._store(target, self._binary(op, target, value))
            case ast.Return(value=value):
                result = self._expression(value).text if value is not None else "0"
                self._line(f"ret i64 {result}")
                self._ended = True
            case ast.If():
                self._if(statement)
            case ast.While(test=test, body=body):
                self._while(test, body, [])
            case ast.For(target=ast.Name() as name, iter=ast.Call(args=[count]), body=body):
                self._store(name, Value("0"))
                test = ast.Compare(name, [ast.Lt()], [count])
                step = ast.AugAssign(name, ast.Add(), ast.Constant(1))
                self._while(test, body, [step])
            case ast.Break():
                self._jump(self._loops[-1][1])
            case ast.Continue():
                self._jump(self._loops[-1][0])
            case _:
                raise self._fault(statement)

    def _if(self, statement: ast.If) -> None:
        then, other, after = self._label(), self._label(), self._label()
        self._condition(statement.test, then, other)
        for label, body in ((then, statement.body), (other, statement.orelse)):
            self._start(label)
            self._block(body)
            self._jump(after)
        self._start(after)

    def _while(self, test: ast.expr, body: list[ast.stmt], step: list[ast.stmt]) -> None:
        head, inside, again, after = (self._label() for _ in range(4))
        self._jump(head)
        self._start(head)
        self._condition(test, inside, after)
        self._start(inside)
        self._loops.append((again, after))
        self._block(body)
        self._loops.pop()
        self._jump(again)
        self._start(again)
        self._block(step)
        self._jump(head)
        self._start(after)

    def _condition(self, test: ast.expr, then: str, other: str) -> None:
        """Branch to label `then` if `test` holds, else to `other`; `and` and `or` stop early."""
        match test:
            case ast.BoolOp(op=op, values=values):
                for value in values[:-1]:
                    further = self._label()
                    if isinstance(op, ast.And):
                        self._condition(value, further, other)
                    else:
                        self._condition(value, then, further)
                    self._start(further)
                self._condition(values[-1], then, other)
                return
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self._condition(operand, other, then)
                return
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                flag = self._comparison(left, op, right).text
            case _:
                flag = self._value(f"icmp ne i64 {self._expression(test).text}, 0").text
        self._line(f"br i1 {flag}, label %{then}, label %{other}")
        self._ended = True

    # ---- values and places

    def _expression(self, node: ast.expr) -> Value:
        """Return the value of an expression, after the lines that compute it.

        The name `state` is the one global structure; `NAME_.MEMBER` is a member of a C enum.
        """
        match node:
            case ast.Constant(value=bool() | int() as number):
                return Value(str(int(number)))
            case ast.Constant(value=None):
                return Value("0", "void*")
            case ast.Name(id="state"):
                return Value("ptrtoint (ptr @state to i64)", "State*")
            case ast.Name(id=name) if name in self._locals:
                slot = self._locals[name]
                return self._value(f"load i64, ptr {slot.text}", slot.type)
            case ast.Attribute(value=ast.Name(id=name), attr=member) if name.endswith("_"):
                members = self._unit.structures.enum(f"{self._unit.enums}{name[:-1]}")
                return Value(str(members[member]))
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, left, right)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._value(f"sub i64 0, {self._expression(operand).text}")
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                flag = self._comparison(left, op, right).text
                return self._value(f"zext i1 {flag} to i64")
            case ast.Attribute() | ast.Subscript():
                return self._load(self._place(node))
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return self._call(node, name, arguments)
            case _:
                raise self._fault(node)

    def _comparison(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Value:
        x, y = self._expression(left).text, self._expression(right).text
        return self._value(f"icmp {_COMPARISONS[type(op)]} i64 {x}, {y}")

    def _binary(self, op: ast.operator, left: ast.expr, right: ast.expr) -> Value:
        x = self._expression(left)
        y = self._expression(right)
        return self._value(f"{_ARITHMETIC[type(op)]} i64 {x.text}, {y.text}", x.type)

    def _place(self, node: ast.expr) -> Value:
        """Return the address of a field or an element; its type is that of what lies there."""
        match node:
            case ast.Attribute(value=base, attr=name):
                pointer = self._expression(base)
                found = self._layout(pointer).fields.get(name)
                if found is None:
                    raise self._fault(node)
                return self._at(pointer, str(found.offset), found.type)
            case ast.Subscript(value=base, slice=index):
                pointer = self._expression(base)
                element = pointer.type.removesuffix("*")
                offset = self._expression(index).text
                size = self._value(f"mul i64 {offset}, {self._unit.structures.size(element)}").text
                return self._at(pointer, size, element)
            case _:
                raise self._fault(node)

    def _layout(self, pointer: Value) -> Layout:
        return self._unit.structures.layout(pointer.type.removesuffix("*"))

    def _at(self, pointer: Value, offset: str, type_: str) -> Value:
        return self._value(f"add i64 {pointer.text}, {offset}", type_)

    def _load(self, place: Value) -> Value:
        if self._unit.structures.has_struct(place.type):  # a structure inside another: its address
            return Value(place.text, f"{place.type}*")
        pointer = self._value(f"inttoptr i64 {place.text} to ptr").text
        width = _WIDTHS.get(place.type, 64)
        loaded = self._value(f"load i{width}, ptr {pointer}", place.type)
        if width == 64:
            return loaded
        extend = "sext" if place.type in _SIGNED else "zext"
        return self._value(f"{extend} i{width} {loaded.text} to i64")

    def _store(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            slot = self._local(target.id, value.type)
            self._line(f"store i64 {value.text}, ptr {slot.text}")
            return
        place = self._place(target)
        pointer = self._value(f"inttoptr i64 {place.text} to ptr").text
        width = _WIDTHS.get(place.type, 64)
        text = value.text
        if width < 64:
            text = self._value(f"trunc i64 {text} to i{width}").text
        self._line(f"store i{width} {text}, ptr {pointer}")

    # ---- calls

    def _call(self, node: ast.Call, name: str, arguments: list[ast.expr]) -> Value:
        built_in = self._BUILT_IN.get(name)
        if built_in is not None:
            return built_in(self, arguments)
        texts: list[str] = []
        for argument in arguments:
            match argument:
                case ast.Starred(value=ast.Call(args=[ast.Constant(value=str() as words)])):
                    data = words.encode()
                    texts += [self._unit.text(data), str(len(data))]
                case _:
                    texts.append(self._expression(argument).text)
        if name not in self._unit.returns and name not in self._unit.functions:
            raise self._fault(node)
        type_ = self._unit.returns.get(name, "void*")
        return self._value(f"call i64 @{name}({_operands(texts)})", type_)

    def _address_of(self, arguments: list[ast.expr]) -> Value:
        return Value(self._place(arguments[0]).text, "void*")

    def _function_address(self, arguments: list[ast.expr]) -> Value:
        assert isinstance(arguments[0], ast.Name)
        return Value(f"ptrtoint (ptr @{arguments[0].id} to i64)", "void*")

    def _size_of(self, arguments: list[ast.expr]) -> Value:
        assert isinstance(arguments[0], ast.Name)
        return Value(str(self._unit.structures.size(arguments[0].id)))

    def _cast(self, arguments: list[ast.expr]) -> Value:
        """`cast(Storage, address)`; a name in quotes is a C type, `"PJRT_Buffer**"`."""
        kind, value = arguments
        quoted = isinstance(kind, ast.Constant)
        type_ = str(kind.value) if isinstance(kind, ast.Constant) else self._unit.type_of(kind)
        assert not quoted or type_.endswith("*")
        return Value(self._expression(value).text, type_)

    def _smaller(self, arguments: list[ast.expr]) -> Value:
        x, y = (self._expression(argument) for argument in arguments)
        flag = self._value(f"icmp slt i64 {x.text}, {y.text}").text
        return self._value(f"select i1 {flag}, i64 {x.text}, i64 {y.text}", x.type)

    def _atomic(self, operation: str, arguments: list[ast.expr]) -> Value:
        place, value = self._place(arguments[0]), self._expression(arguments[1]).text
        pointer = self._value(f"inttoptr i64 {place.text} to ptr").text
        width = _WIDTHS.get(place.type, 64)
        if width < 64:
            value = self._value(f"trunc i64 {value} to i{width}").text
        old = self._value(f"atomicrmw {operation} ptr {pointer}, i{width} {value} seq_cst")
        if width < 64:
            return self._value(f"sext i{width} {old.text} to i64")
        return Value(old.text, place.type)

    def _atomic_load(self, arguments: list[ast.expr]) -> Value:
        place = self._place(arguments[0])
        pointer = self._value(f"inttoptr i64 {place.text} to ptr").text
        return self._value(f"load atomic i64, ptr {pointer} acquire, align 8", place.type)

    def _indirect(self, arguments: list[ast.expr]) -> Value:
        first, *others = [self._expression(argument).text for argument in arguments]
        pointer = self._value(f"inttoptr i64 {first} to ptr").text
        return self._value(f"call i64 {pointer}({_operands(others)})")

    def _python_fallback(self, arguments: list[ast.expr]) -> Value:
        args = self._expression(arguments[0]).text
        index = self._unit.python_fallback(self._source.name)
        return self._value(f"call i64 @call_fallback({_operands([str(index), args])})")

    def _stack(self, arguments: list[ast.expr]) -> Value:
        count = self._expression(arguments[0]).text
        pointer = self._value(f"alloca i64, i64 {count}, align 16").text
        return self._value(f"ptrtoint ptr {pointer} to i64", "int64_t*")

    _BUILT_IN: ClassVar[dict[str, Callable[[_Function, list[ast.expr]], Value]]] = {
        "at": _address_of,
        "function": _function_address,
        "size_of": _size_of,
        "cast": _cast,
        "min": _smaller,
        "exchange": lambda self, arguments: self._atomic("xchg", arguments),
        "atomic_add": lambda self, arguments: self._atomic("add", arguments),
        "atomic_max": lambda self, arguments: self._atomic("max", arguments),
        "atomic_load": _atomic_load,
        "call": _indirect,
        "python_fallback": _python_fallback,
        "stack": _stack,
    }

    def _fault(self, node: ast.AST) -> SyntaxError:
        line = getattr(node, "lineno", 0)
        return SyntaxError(f"{self._source.name}, line {line}: cannot translate {ast.dump(node)}")


def _operands(texts: list[str]) -> str:
    return ", ".join(f"i64 {text}" for text in texts)
