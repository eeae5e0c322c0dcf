"""The `Pass` protocol, its context, and its text form `fusion{max-operands=8}`.

The options of a pass are the fields of its dataclass; parsing and printing are derived from them.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

from hloc.errors import HloError
from hloc.lazy_dataclass import dataclass
from hloc.limits import time_check
from hloc.near_names import near_name_notes

if TYPE_CHECKING:
    from hloc.ir.instruction import Instruction
    from hloc.ir.module import Module


@dataclass(frozen=True, slots=True)
class Remark:
    """An optimisation remark of a pass (`--remarks`).

    Attributes:
        kind: `passed` (a transformation made), `missed` (one not made), `analysis` (a finding).
        by: `pass` or `pass/rule`.
        at: name of the instruction.
        text: lower case, no final period: "users: 3; recomputing costs 1,200 bytes".
    """

    kind: Literal["passed", "missed", "analysis"]
    by: str
    at: str
    text: str


@dataclass(frozen=True, slots=True)
class PassRun:
    """One run of a pass.

    Attributes:
        number: position in the run, from 0.
        rewrites: rewrites it counted.
        before, after: instructions in the module.
        events: range in the module's change log.
    """

    number: int
    what: Pass
    changed: bool
    wall_ms: float
    rewrites: int
    before: int
    after: int
    events: tuple[int, int]


class StepWatcher(Protocol):
    """Observes every step: one run of one pass, also inside each round of a fixpoint."""

    def on_step_start(self, module: Module, number: int, what: Pass) -> None: ...

    def on_step_end(self, module: Module, run: PassRun) -> None: ...


@dataclass(eq=False, slots=True)
class PassContext:
    """State shared by the passes of one pipeline run.

    Attributes:
        disabled_rules: names of rewrite rules that must not fire.
        fast_math: rules that are not exact may fire.
        rewrite_limit: stop after this many rewrites (single steps, bisection); None is no limit.
        rewrites: rewrites done so far.
        fired: how often each `pass/rule` (or `pass`) has changed something.
        warnings: warnings for the user, in order.
        remarks: collected remarks, None if they are off.
        at, rule: the instruction being processed and the rewrite in progress, for the
            message of an internal error.
        on_rewrite: called with `pass/rule` after each rewrite, when it is in the change log.
        watchers: observe every run of a pass, inside a fixpoint too.
        steps: such runs so far.
        settled: by identity of a pass, the module and version at which it last had nothing left to
            change and made no remarks.
        check_time: raises HloError once the passes exceed their time limit.
    """

    disabled_rules: frozenset[str] = frozenset()
    fast_math: bool = False
    rewrite_limit: int | None = None
    rewrites: int = 0
    fired: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)
    remarks: list[Remark] | None = None
    at: Instruction | None = None
    rule: str = ""
    on_rewrite: Callable[[str], None] | None = None
    watchers: tuple[StepWatcher, ...] = ()
    steps: int = 0
    settled: dict[int, tuple[Pass, Module, int]] = field(default_factory=dict)
    check_time: Callable[[], None] = field(
        default_factory=lambda: time_check("compile-seconds", "the passes")
    )

    @property
    def spent(self) -> bool:
        """True if the rewrite limit is reached; a pass then changes nothing more."""
        return self.rewrite_limit is not None and self.rewrites >= self.rewrite_limit

    def rewriting(self, module: Module, by: str) -> _Rewriting:
        """Do one rewrite in a `with` block: events inside belong to `by`, and it counts once.

        The result may be kept for the next rewrite.
        """
        return _Rewriting(self, module, by)

    def remark(
        self, kind: Literal["passed", "missed", "analysis"], by: str, inst: Instruction, text: str
    ) -> None:
        """Add a remark of pass `by` about `inst`, if remarks are on."""
        if self.remarks is not None:
            self.remarks.append(Remark(kind, by, inst.name, text))

    def count(self, by: str) -> None:
        """Count one rewrite by `pass` or `pass/rule`."""
        self.rewrites += 1
        self.fired[by] += 1
        if self.on_rewrite is not None:
            self.on_rewrite(by)


class _Rewriting:
    """The block of `PassContext.rewriting`; a generator would take three times as long."""

    __slots__ = ("_before", "_by", "_context", "_log")

    def __init__(self, context: PassContext, module: Module, by: str) -> None:
        self._context, self._log, self._by = context, module.log, by

    def __enter__(self) -> None:
        self._context.rule = self._by
        self._before, self._log.by = self._log.by, self._by

    def __exit__(self, fault: type[BaseException] | None, *where: object) -> None:
        self._log.by = self._before
        if fault is None:
            self._context.rule = ""
            self._context.count(self._by)


@runtime_checkable
class Pass(Protocol):
    """A frozen dataclass whose fields are its options.

    `run` takes a verified module, leaves a verified module, and returns True exactly when it
    changed something. It checks `context.spent` before each rewrite and does it inside
    `context.rewriting(module, "name/rule")`. Its effect depends only on the module, its options
    and the rules of the context.

    A class may have `acts_on: ClassVar[frozenset[str]]`: the pass changes nothing unless one
    of these opcodes is present, and pipelines skip it for other modules. And it may have
    `is_complete = True`: after a run it finds nothing more before something else than a removal
    (`Module.removals`) changes the module.
    """

    name: ClassVar[str]

    def run(self, module: Module, context: PassContext) -> bool: ...


@dataclass(frozen=True)
class RewritingPass:
    """Base of passes whose every change is a rewrite: `rewrite` makes them, `run` reports them.

    A pass with options is decorated as this class is; one without them need not be. A class
    `CallInliner` is called `call-inliner` unless it says another name.
    """

    name: ClassVar[str]
    acts_on: ClassVar[frozenset[str]]

    def __init_subclass__(cls) -> None:
        if "name" not in vars(cls):
            cls.name = re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Change `module`, under the contract of `Pass.run`."""
        raise NotImplementedError

    def run(self, module: Module, context: PassContext) -> bool:
        """Return True if there was a rewrite."""
        before = context.rewrites
        self.rewrite(module, context)
        return context.rewrites > before


# ---------------------------------------------------------------- text form


def pass_text(p: Pass) -> str:
    """Return the text form: the name, and in braces the options that are not at their default."""
    options = [
        f"{f.name.replace('_', '-')}={_value_text(getattr(p, f.name))}"
        for f in dataclasses.fields(p)  # type: ignore[arg-type]  # a Pass is a dataclass
        if getattr(p, f.name) != f.default and f.init
    ]
    return p.name + ("{" + ",".join(options) + "}" if options else "")


def _value_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def make_pass(cls: type[Any], options: Sequence[tuple[str, str]]) -> Pass:
    """Return a pass of class `cls` with `options`, pairs of names and texts.

    Raises:
        HloError: an unknown option, or an invalid value.
    """
    fields = {f.name.replace("_", "-"): f for f in dataclasses.fields(cls) if f.init}
    values: dict[str, Any] = {}
    for name, text in options:
        if name not in fields:
            has = f"its options are {', '.join(fields)}" if fields else "it has no options"
            raise HloError(
                f"pass {cls.name} has no option {name!r}; {has}",
                notes=near_name_notes(name, fields),
            )
        values[fields[name].name] = _value(cls.name, name, option_kind(fields[name]), text)
    made: Pass = cls(**values)
    return made


def option_kind(option: dataclasses.Field[Any]) -> str:
    """Return the type of an option as text, whether annotations are evaluated or not."""
    return option.type if isinstance(option.type, str) else option.type.__name__


def _value(pass_name: str, option: str, kind: str, text: str) -> Any:
    if kind == "bool" and text in ("true", "false"):
        return text == "true"
    if kind == "int" and text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    if kind == "str":
        return text
    expected = {"bool": "true or false", "int": "a number of 0 or more"}[kind]
    raise HloError(f"option {option} of pass {pass_name} is {expected}, not {text!r}")
