"""Every golden case of the optimiser: text before and after, and the same results.

Guards what each pass does, that it does nothing where it must not, and that it reports so.
"""

from pathlib import Path

import pytest

from tests.goldens import Case, golden_parameters, run_case, update_file

_WRITTEN: set[Path] = set()
"""Files that --update-golden has written anew in this run."""


@pytest.mark.parametrize("case", [*golden_parameters("opt"), *golden_parameters("bugs")])
def test_golden(case: Case, update_golden: bool) -> None:
    if update_golden:
        if case.file not in _WRITTEN:
            _WRITTEN.add(case.file)
            update_file(case.file)
    else:
        run_case(case, update=False)
