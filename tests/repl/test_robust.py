"""No command line ends in anything but an answer or a fault that is explained."""

import random
from contextlib import suppress
from pathlib import Path

import pytest

import hloc
from repl.commands import ALIASES, COMMANDS, execute
from repl.session import Session
from tests.repl.conftest import Say

TEXT = """new <<END
HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY e {
  x = f32[2,3] parameter(0)
  p = (f32[], s32[2]) parameter(1)
  i = s32[2] get-tuple-element(p), index=1
  z = f32[] constant(0)
  n = f32[2,3] negate(x)
  nn = f32[2,3] negate(n)
  r = f32[2] reduce(nn, z), dimensions={1}, to_apply=add
  ROOT t = (f32[2], s32[2]) tuple(r, i)
}
END
"""
OUTSIDE = {
    "!", "py", "jax", "source", "open-session", "plugin", "export", "quit", "bench", "profile",
    "compare", "emit", "asm",
}  # fmt: skip
"""Commands that run something outside, or for long."""

_WORDS = """
%x %n %nn %r %p %zz %x/y @e @add @no s0 s1 s0+1 s9 prev $ -1 0 1 2 9999999999999999999 -O2 -O9
algsimp cse dce fixpoint(cse) fixpoint( cse,dce fusion{x=1} negate-negate --tree --full --all
--by opcode --effective -b all WITH with = x= =1 x=[1 x=[[[]]] p.0=3 x=@/dev/null {0,1} {} { }
op rule pass if verify reduce instructions>3 ((((( a.b() count(x) reduce(_,...) add(x:_ random
special * ? [a-z]+ (( f32[2,3] abs(x) add(n,nn) ROOT k = << <<END # \x00 \x1b[31m
"""
WORDS = _WORDS.split()


@pytest.mark.parametrize("seed", range(5))
def test_lines_of_random_words_are_answered(
    seed: int, repl: Session, say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = random.Random(seed)
    names = sorted((set(COMMANDS) | set(ALIASES)) - OUTSIDE)
    names = [name for name in names if ALIASES.get(name) not in OUTSIDE]
    say(TEXT + "set verify-seconds=0.05")
    for _ in range(120):
        line = " ".join([rng.choice(names), *rng.choices(WORDS, k=rng.randrange(4))])
        if line.startswith("edit") and len(line.split()) == 1:
            continue
        with suppress(hloc.HloError):
            list(execute(repl, line))
        if rng.random() < 0.05:
            say(TEXT)


NEED_NO_MODULE = {
    "load", "new", "help", "set", "passes", "explain", "rules", "disable", "enable", "break",
    "delete", "plugin", "reload", "py", "trace", "theme", "save-session", "source", "open-session",
    "export", "!", "quit", "mark", "history", "jax", "watch",
}  # fmt: skip


def test_most_commands_need_a_module(repl: Session) -> None:
    for name in sorted(set(COMMANDS) - NEED_NO_MODULE):
        with pytest.raises(hloc.HloError):
            list(execute(repl, name))
