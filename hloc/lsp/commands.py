"""Commands of code lenses: hloc runs in a child process and writes its output to a file.

The module is passed with unsaved changes. The server continues even if the process
crashes or does not end.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hloc.errors import printable
from hloc.lsp.outline import GRAPH, PASSES, RUN
from hloc.python_process import ending_of, python_command, python_environment

TIME_LIMIT_SECONDS = 120.0


class Command(NamedTuple):
    """Arguments of `hloc`, where `-` is the module; `ending` is the extension of the output file.

    The command writes the file `OUT`; without `OUT` its output is written to the file.
    """

    words: tuple[str, ...]
    ending: str


COMMANDS: dict[str, Command] = {
    RUN: Command(("run", "-", "--random", "--print-output=20"), ".run.txt"),
    GRAPH: Command(("graph", "-", "-o", "OUT"), ".graph.html"),
    PASSES: Command(("-", "--print-changed"), ".passes.txt"),
}


class Outcome(NamedTuple):
    """The file that was written, if any, and the error, if any."""

    path: Path | None
    fault: str = ""


class Results:
    """A folder with the files that commands wrote; it lives as long as the server."""

    def __init__(self) -> None:
        self._folder: TemporaryDirectory[str] | None = None

    def remove(self) -> None:
        """Remove the folder."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    async def produce(self, name: str, text: str, stem: str) -> Outcome:
        """Run the command `name` on the module `text`; `stem` begins the file name."""
        self._folder = self._folder or TemporaryDirectory(prefix="hloc-lsp-")
        command = COMMANDS[name]
        folder = Path(self._folder.name)
        path = folder / f"{printable(stem)[:80] or 'module'}{command.ending}"
        words = [str(path) if word == "OUT" else word for word in command.words]
        process = await asyncio.create_subprocess_exec(
            *python_command("-m", "hloc", *words, "--color=never"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=folder,
            env=python_environment(),
        )
        try:
            talk = process.communicate(text.encode())
            out, said = await asyncio.wait_for(talk, TIME_LIMIT_SECONDS)
        except TimeoutError:
            return Outcome(None, f"stopped after {TIME_LIMIT_SECONDS:.0f} seconds")
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode:
            lines = said.decode(errors="replace").strip().splitlines()
            return Outcome(None, lines[0] if lines else f"hloc {ending_of(process.returncode)}")
        if "OUT" not in command.words:
            path.write_bytes(said + b"\n" + out)
        return Outcome(path)
