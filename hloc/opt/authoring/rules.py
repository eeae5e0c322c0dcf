"""The decorator `rule`: a pattern, a function that builds the replacement, and a docstring."""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Callable
from types import CodeType
from typing import Any, Literal, TypeAlias

from hloc.errors import HloError, InternalError
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.opt.authoring.building import RuleBuilder, fitted
from hloc.opt.authoring.found import Found, Value
from hloc.opt.authoring.patterns import DTypes, of_dtypes
from hloc.opt.pattern import Found as Names
from hloc.opt.pattern import P
from hloc.opt.rule import Exactness, Rule

RuleFunction: TypeAlias = Callable[..., Value | None]
Exact: TypeAlias = Literal[
    True, "exact", "ignores-zero-sign", "reassociates", "assumes-finite", "approximate"
]

_EXACTNESS: dict[Exact, Exactness] = {
    True: "exact",
    "exact": "exact",
    "ignores-zero-sign": "ignores-zero-sign",
    "reassociates": "reassociates",
    "approximate": "reassociates",  # both mean: roundings differ
    "assumes-finite": "assumes-finite",
}


@dataclass(frozen=True, slots=True)
class AuthoredRule(Rule):
    """A rule with its source location, docstring and example.

    Attributes:
        where: `mypass.py:6`.
        doc: the docstring of its function.
        example: HLO text in which it must fire, "" for none.
    """

    where: str = ""
    doc: str = ""
    example: str = ""


def rule(
    pattern: P,
    *,
    dtypes: DTypes = (),
    exact: Exact = True,
    when: Callable[[Found], bool] | None = None,
    name: str = "",
    example: str = "",
) -> Callable[[RuleFunction], AuthoredRule]:
    """Make a rule of the function below: `f(m)` or `f(m, b)`.

    The function returns the replacement, an existing instruction (`m.x`) or a new one
    (`b.negate(m.x)`), or None to decline. Its docstring states the law.

    Args:
        pattern: the pattern to match.
        dtypes: element types of the instruction; all if not given.
        exact: how the rule may change a result; anything but True needs `--fast-math`.
        when: condition on the whole match.
        name: kebab-case; that of the function if not given.
        example: HLO text in which the rule must fire.

    Raises:
        HloError: there is no docstring, or the function has the wrong parameters.
    """

    def decorate(function: RuleFunction) -> AuthoredRule:
        """Check the arguments, and wrap `function` as an `AuthoredRule`.

        All checks happen when the rule is defined, so that its author sees them and not who runs
        it.
        """
        shown = getattr(function, "__name__", "rule")
        doc = inspect.getdoc(function) or ""
        if not doc:
            raise HloError(f"rule {shown} has no docstring; one line says which law it is")
        if exact not in _EXACTNESS:
            known = ", ".join(str(key) for key in _EXACTNESS)
            raise HloError(f"rule {shown}: exact is one of {known}, not {exact!r}")
        parameters = len(inspect.signature(function).parameters)
        if parameters not in (1, 2):
            raise HloError(f"rule {shown} takes (m) or (m, b), not {parameters} arguments")
        code = getattr(function, "__code__", None)
        caller = _Caller(function, shown, _where(code), parameters == 2)
        matches = of_dtypes(dtypes)

        def guard(inst: Instruction, found: Names) -> bool:
            if matches is not None and not matches(inst):
                return False
            return when is None or bool(when(Found(inst, found)))

        return AuthoredRule(
            name or shown.strip("_").replace("_", "-").lower(),
            pattern,
            caller.build,
            guard if matches is not None or when is not None else None,
            _EXACTNESS[exact],
            caller.where,
            doc,
            example,
        )

    return decorate


def _where(code: CodeType | None) -> str:
    return "" if code is None else f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"


@dataclass(frozen=True, slots=True)
class _Caller:
    """Calls the function of a rule and checks what it returns."""

    function: RuleFunction
    name: str
    where: str
    wants_builder: bool

    def build(self, computation: Computation, inst: Instruction, found: Names) -> Any:
        newest = computation.module.new_uid()
        result = self._call(computation, inst, found)
        if result is None or result is inst:
            if computation.module.new_uid() != newest + 1:
                raise self._fault("added instructions and then returned None", inst)
            return None
        if result.uid < newest:
            return result if result.shape == inst.shape else self._check(result, inst)
        if not fitted(result, inst):
            self._check(result, inst)
        return result

    def _call(
        self, computation: Computation, inst: Instruction, found: Names
    ) -> Instruction | None:
        """Return the replacement of `inst`, None if the rule declines.

        Raises:
            HloError: the function failed or returned something else; with the line of the rule.
        """
        arguments: list[Any] = [Found(inst, found)]
        if self.wants_builder:
            arguments.append(RuleBuilder(computation, inst))
        try:
            result = self.function(*arguments)
        except Exception as fault:
            kind = "" if isinstance(fault, HloError) else f"{type(fault).__name__}: "
            text = fault.message if isinstance(fault, HloError) else str(fault)
            raise self._fault(f"failed{self._line(fault)}: {kind}{text}", inst) from fault
        if result is None:
            return None
        if not isinstance(result, Value):
            kind = type(result).__name__
            raise self._fault(f"returned {kind}, expected an instruction or None", inst)
        return result.inst

    def _check(self, result: Instruction, inst: Instruction) -> None:
        """Raise if `result` and `inst` differ in type; if only the layout differs, decline."""
        if result.shape.text_without_layout != inst.shape.text_without_layout:
            got, want = result.shape.text_without_layout, inst.shape.text_without_layout
            raise self._fault(f"returned {result.name} of shape {got}, expected {want}", inst)

    def _fault(self, text: str, inst: Instruction) -> InternalError:
        return InternalError(f"rule {self.name} ({self.where}) {text}\ninstruction: {inst!r}")

    def _line(self, fault: Exception) -> str:
        file = getattr(getattr(self.function, "__code__", None), "co_filename", "")
        lines = [f.lineno for f in traceback.extract_tb(fault.__traceback__) if f.filename == file]
        return f" in line {lines[-1]}" if lines else ""
