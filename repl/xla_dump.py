"""The history of a module in a dump of XLA's `--xla_dump_to`, pass by pass.

Each file becomes a state; staged matching pairs the instructions, so that `diff`, `why` and
`blame` work on XLA's passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hloc import driver
from hloc.dumps.folder import chosen_module, read_folder
from repl.adopted import events_between, matched_by_structure
from repl.state import State

if TYPE_CHECKING:
    from repl.session import Session

_MOST_FILES = 5000


def load_dump(session: Session, folder: str, wanted: str = "") -> Iterator[State]:
    """Make a history of a dump: the first file is s0, each file with changes a further state.

    Raises:
        HloError: the folder is no dump, or one of its files cannot be read.
    """
    files = chosen_module(read_folder(folder), wanted).history[:_MOST_FILES]
    first = session.load_module(driver.load_module(files[0].path, verify=False))
    session.source_path = folder
    yield first
    rest = files[1:]
    for file in session.progress.track("reading the dump", rest, lambda file: file.how):
        module = driver.load_module(file.path, verify=False)
        last = session.current
        module = matched_by_structure(last.module, module, session.highest_uid)
        events = events_between(last.module, module, file.how)
        if events:
            yield session.add_state(last, file.how, module, events)
