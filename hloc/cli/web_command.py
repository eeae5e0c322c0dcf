"""`hloc web [FILE | DUMP_DIR]...`: serves a page for editing and stepping through modules."""

from __future__ import annotations

from argparse import Namespace
from importlib.util import find_spec

from hloc.cli.talk import Talk
from hloc.confinement.support import check_machine
from hloc.errors import HloError
from hloc.report.exits import Exit, UsageError

_PACKAGES = ("starlette", "uvicorn")
_STUDENTS = 40


def web(arguments: Namespace, talk: Talk) -> int:
    """`hloc web`: serve until Ctrl-C."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise HloError(
            f"hloc web needs {' and '.join(missing)}",
            notes=("pip install 'hloc[web]'",),
        )
    if arguments.classroom:
        check_machine()
        from hloc.web.classroom.server import serve_classroom

        serve_classroom(
            arguments.files,
            host=arguments.host or "127.0.0.1",
            port=arguments.port,
            students=arguments.students or _STUDENTS,
            say=talk.say,
        )
        return Exit.OK
    for option in ("host", "students"):
        if getattr(arguments, option):
            raise UsageError(f"--{option} needs --classroom")
    from hloc.web.server import serve

    serve(
        arguments.files,
        port=arguments.port,
        open_browser=not arguments.no_browser,
        say=talk.say,
    )
    return Exit.OK
