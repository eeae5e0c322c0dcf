"""Rewrites and remarks as they happen: `--trace-rewrites`, `--opt-bisect-limit`, `--remarks`."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.analysis.diff.rewrite_text import describe_rewrite
from hloc.cli.talk import Talk
from hloc.errors import printable
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.opt.pass_base import Pass, PassContext, Remark
from hloc.opt.pipeline import PipelineObserver
from hloc.report.text import Paint, plural

_NAMES_SHOWN = 4


@dataclass(slots=True, eq=False)
class RewriteTrace(PipelineObserver):
    """Prints every rewrite with its number, rule, and the lines before and after.

    Attributes:
        rules: passes or rules whose rewrites are printed, () for all.
        last: the last rewrite, `pass/rule at instruction`.
        quiet: only record the last one.
    """

    talk: Talk
    context: PassContext
    rules: tuple[str, ...] = ()
    quiet: bool = False
    last: str = ""
    _module: Module | None = None
    _mark: int = 0

    def on_step_start(self, module: Module, number: int, what: Pass) -> None:
        """Subscribe to the rewrites of this step."""
        self._module, self._mark = module, len(module.log.events)
        self.context.on_rewrite = self._rewritten

    def _rewritten(self, by: str) -> None:
        assert self._module is not None
        events = self._module.log.since(self._mark)
        self._mark += len(events)
        number = self.context.rewrites
        if self.quiet and number != self.context.rewrite_limit:
            return
        text = describe_rewrite(events)
        self.last = f"{by} at {text.at}" if text.at else by
        names = (by, *by.split("/"))
        if self.quiet or (self.rules and not any(name in self.rules for name in names)):
            return
        at = f"  at {printable(text.at)}" if text.at else ""
        self.talk.say(f"rewrite {number}  {by}{at}")
        for line in rewrite_lines(text.before, text.after, self.talk.paint):
            self.talk.say(line)


def rewrite_lines(before: Sequence[str], after: Sequence[str], paint: Paint) -> list[str]:
    """Return the lines of a rewrite: `- old` and `+ new`."""
    lines = [paint.diff_line(f"- {printable(line)}") for line in before]
    lines += [paint.diff_line(f"+ {printable(line)}") for line in after]
    return [f"    {line}" for line in lines]


def limit_line(context: PassContext, last: str) -> str:
    """Return where `--opt-bisect-limit` stopped, or that it was not reached."""
    limit = context.rewrite_limit
    if not context.spent:
        done = plural(context.rewrites, "rewrite")
        return f"opt-bisect-limit={limit}: not reached, the pipeline did {done}"
    where = f" {context.rewrites}, {printable(last)}" if context.rewrites else " 0"
    return f"opt-bisect-limit={limit}: stopped after rewrite{where}"


def remark_lines(remarks: Sequence[Remark], kinds: Sequence[str], paint: Paint) -> list[str]:
    """Return the remarks of `kinds`, equal ones of a pass counted, most frequent first.

    A pass in a fixpoint repeats its remark about an instruction in every round; it counts once.
    """
    groups: dict[tuple[str, str, str], list[str]] = {}
    for remark in dict.fromkeys(remarks):
        if remark.kind in kinds:
            groups.setdefault((remark.kind, remark.by, remark.text), []).append(remark.at)
    lines: list[str] = []
    for kind in kinds:
        rows = [(by, text, names) for (of, by, text), names in groups.items() if of == kind]
        rows.sort(key=lambda row: -len(row[2]))
        if not rows:
            continue
        count = sum(len(names) for _, _, names in rows)
        lines.append(paint.strong(f"{kind}: {plural(count, 'remark')}"))
        lines += [f"  {by}: {printable(text)}{_where(names)}" for by, text, names in rows]
    return lines or ["no remarks"]


def remark_data(remarks: Sequence[Remark], kinds: Sequence[str]) -> list[dict[str, str]]:
    """Return the remarks of `kinds` as JSON data, each once."""
    return [
        {"kind": remark.kind, "by": remark.by, "at": remark.at, "text": remark.text}
        for remark in dict.fromkeys(remarks)
        if remark.kind in kinds
    ]


def passed_remarks(context: PassContext) -> list[Remark]:
    """Return remarks that count the rewrites by rule of passes that made no remarks."""
    told = {remark.by for remark in context.remarks or () if remark.kind == "passed"}
    return [
        Remark("passed", by, "", plural(count, "rewrite"))
        for by, count in context.fired.most_common()
        if by not in told and by.partition("/")[0] not in told
    ]


def _where(names: Sequence[str]) -> str:
    shown = [f"%{printable(name)}" for name in names if name][:_NAMES_SHOWN]
    if not shown:
        return ""
    more = f", ... {len(names)} in all" if len(names) > len(shown) else ""
    return f"  ({', '.join(shown)}{more})"
