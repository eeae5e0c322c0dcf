"""`hloc doctor` on dumps of real models that are beside the repository and never in it.

The folder holds XLA's modules before optimization, by model and number of devices. Each statement
below was read in the text of its module once: numbers of instructions, loops and custom calls
counted in it, the lines of unrolled instructions looked up by their metadata.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from hloc.cli import main

CORPUS = Path(__file__).resolve().parents[4] / "shared" / "conformance" / "corpus" / "visible"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CORPUS.is_dir(), reason="the dumps are not beside the repository"),
]
GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "dumps" / "public.txt"
FOLDERS = (
    "large_language_models/llama3_8b/inference/4gpu",
    "large_language_models/llama3_8b/training",
    "science/colabfold/inference/1gpu",
    "vision_diffusion/imagenette/inference/2gpu",
)


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The texts of `FOLDERS` under the names that XLA gave them."""
    folder = tmp_path_factory.mktemp("dumps")
    for line in (CORPUS / "models_index.jsonl").read_text().splitlines():
        row: dict[str, Any] = json.loads(line)
        for source in row["sources"]:
            if source.startswith(FOLDERS):
                (folder / source).parent.mkdir(parents=True, exist_ok=True)
                (folder / source).write_bytes(gzip.decompress((CORPUS / row["file"]).read_bytes()))
    return folder


def test_reports_of_real_models_are_the_golden_ones(
    dumps: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    update_golden: bool,
) -> None:
    monkeypatch.chdir(dumps)
    for folder in FOLDERS:
        assert main(["doctor", folder]) == 0
    found = capsys.readouterr().out
    if update_golden:
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()
