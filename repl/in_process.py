"""Compiled code in the process of the session, where that is one that may crash."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import field

from hloc.lazy_dataclass import dataclass
from hloc.runtime.loading import Runnable
from repl.child import Child
from repl.messages import Answer, Request
from repl.worker import answer_to


@dataclass(slots=True, eq=False)
class InProcess(Child):
    """What a session asks instead of a child process; nothing bounds the time of a run."""

    _programs: OrderedDict[str, Runnable] = field(default_factory=OrderedDict)

    def _exchange(self, request: Request, timeout: float) -> Answer:
        return answer_to(request, self._programs)
