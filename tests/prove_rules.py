"""Proves every rule of the simplifier that can be proven, and compares with what is recorded.

    python -m tests.prove_rules [--write] [--jobs N] [RULE ...]

Prints a line per rule. Ends with 1 if a rule is wrong or a proof differs from its row in
hloc/prove/proofs.json; --write writes the rows instead. Takes about eight minutes of processor
time.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

from hloc.opt.rules import ALL_RULES
from hloc.prove.record import FILE, Row, can_be_proven, recorded
from tests.prove.proof import record_text, row_of
from tests.prove.rules import WrongRuleError, prove_rule

RULES = {rule.name: rule for rule in ALL_RULES}


def proven(name: str) -> tuple[str, Row | str, float]:
    """Return the row of a rule, or why it is wrong, and the seconds that it took."""
    start = time.process_time()
    try:
        found: Row | str = row_of(prove_rule(RULES[name]))
    except WrongRuleError as fault:
        found = str(fault)
    return name, found, time.process_time() - start


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("rules", nargs="*")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    wanted = arguments.rules or [rule.name for rule in ALL_RULES if can_be_proven(rule)]
    rows: dict[str, Row] = dict(recorded()) if FILE.exists() else {}
    rows = {name: row for name, row in rows.items() if name in RULES}
    wrong = 0
    with ProcessPoolExecutor(arguments.jobs, max_tasks_per_child=1) as pool:
        for task in as_completed(pool.submit(proven, name) for name in wanted):
            name, found, seconds = task.result()
            if isinstance(found, str):
                wrong += 1
                print(f"WRONG {found}", flush=True)
                continue
            differs = rows.get(name) != found
            rows[name] = found
            wrong += differs and not arguments.write
            print(f"{name}: {found}, {seconds:.1f} s{', NEW' * differs}", flush=True)
            if arguments.write:
                FILE.write_text(record_text(rows))
    print(f"{len(wanted)} rules, {wrong} wrong or unlike their record")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
