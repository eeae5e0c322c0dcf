"""Attention by warpgroups: the kernel in the interpreter, where copies come as late as they may."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hloc import evaluate
from hloc.codegen.gpu.emitters.attention import attention
from hloc.codegen.gpu.emitters.attention.attention_spread import Spread
from hloc.codegen.gpu.nvptx.backend import NvptxBackend
from hloc.driver import parse_text
from hloc.options import CompileOptions
from hloc.ptx import PtxFault
from hloc.runtime.gpu.cuda import CudaDevice
from hloc.runtime.gpu.cuda_driver import CudaDriver
from hloc.runtime.gpu.executable import GpuExecutable
from hloc.runtime.gpu.simulated import SimulatedDevice
from tests.inputs import inputs_for
from tests.tolerance import assert_close
from tests.unit.gpu.fake_cuda import FakeCuda
from tests.unit.gpu.simulate import Array, check, compiled
from tests.unit.gpu.warpgroups import CHIP, changed, check_shared_bytes, check_warnings, needs_ptxas
from tests.unit.opt.attention_modules import MASKS, AttentionText

PLAIN = AttentionText(sizes=(1, 1, 128, 192, 64, 64), dtype="bf16", hidden="-1e30")
LONG = replace(PLAIN, sizes=(1, 1, 128, 640, 64, 64))
CAUSAL = replace(PLAIN, sizes=(1, 1, 300, 300, 64, 64), mask="causal")


@pytest.fixture
def small_ones_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model of the time leaves small attentions to other kernels, not tested here."""

    def always(spread: Spread, other: Spread) -> bool:
        return True

    monkeypatch.setattr(attention, "is_faster", always)


small = pytest.mark.usefixtures("small_ones_too")


def run(text: str, *, special: bool = False) -> SimulatedDevice:
    """Check a module on the chip; its attention is one kernel of warpgroups."""
    module = compiled(text, cpu=CHIP)
    assert "wgmma" in module.ptx
    assert len(module.kernels) == 1
    return check(text, cpu=CHIP, special=special)


def result_of(text: str, arrays: list[Array]) -> Array:
    """Return what the kernel makes of some arguments; it is that of the evaluator."""
    module = compiled(text, cpu=CHIP)
    assert "wgmma" in module.ptx
    (found,) = GpuExecutable(module, SimulatedDevice())(*arrays)
    assert_close(found, evaluate(text, *arrays)[0])
    return np.asarray(found)


# ---------------------------------------------------------------- all forms


@small
@pytest.mark.parametrize(
    "changes",
    [
        {"dtype": "f16"},
        {"sizes": (1, 2, 130, 300, 128, 128), "order": "bshd"},
        {"sizes": (1, 1, 64, 130, 256, 256)},
        {"sizes": (2, 1, 70, 300, 80, 96), "mask": "added"},
        {"sizes": (1, 1, 163, 128, 64, 128), "mask": "causal", "keys_first": True},
        {"sizes": (1, 1, 40, 33, 72, 128), "mask": "shifted"},
        {"sizes": (1, 2, 150, 300, 64, 40), "mask": "causal-and-padding"},
        {"sizes": (1, 1, 150, 400, 16, 24), "mask": "shifted", "hidden": "-inf"},
        {"sizes": (1, 2, 90, 300, 64, 64), "shared_heads": 3, "mask": "causal"},
        {"sizes": (1, 2, 90, 70, 64, 64), "shared_heads": 2, "order": "bshd"},
        {"sizes": (1, 1, 96, 304, 64, 64), "order": "bhds", "scale": "none"},
        {"sizes": (1, 1, 96, 304, 128, 192), "order": "bhds", "values_first": True},
        {"sizes": (2, 3, 13, 90, 24, 16), "order": "sbhd", "keys_first": True},
        {"scores_dtype": "bf16", "mask": "added"},
    ],
    ids=lambda given: "-".join(map(str, given.values())),
)
def test_all_forms(changes: dict[str, Any]) -> None:
    """Types, head sizes, layouts, masks, grouped queries, and sizes that no tile divides."""
    run(replace(PLAIN, **changes).text())


@st.composite
def attentions(draw: Any) -> AttentionText:
    """Any attention that warpgroups take, up to a few tiles."""
    plain = AttentionText(
        sizes=(
            draw(st.integers(1, 2)),
            draw(st.integers(1, 2)),
            8 * draw(st.integers(4, 30)),
            8 * draw(st.integers(4, 80)),
            8 * draw(st.integers(1, 32)),
            8 * draw(st.integers(1, 32)),
        ),
        mask=draw(st.sampled_from(MASKS)),
        scale=draw(st.sampled_from(["scores", "none"])),
        dtype=draw(st.sampled_from(["bf16", "f16"])),
        keys_first=draw(st.booleans()),
        values_first=draw(st.booleans()),
        hidden=draw(st.sampled_from(["-inf", "-1e30", "-90", "0"])),
    )
    group = draw(st.sampled_from([1, 1, 3]))
    if group > 1:
        return replace(plain, keys_first=False, shared_heads=group)
    return replace(plain, order=draw(st.sampled_from(["bhsd", "bshd", "sbhd", "bhds"])))


@small
@pytest.mark.slow
@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(attentions(), st.integers(0, 99))
def test_any_attention(a: AttentionText, seed: int) -> None:
    text = a.text()
    result_of(text, inputs_for(parse_text(text), seed, special=False))


@small
def test_special_numbers() -> None:
    """NaN and infinities among queries, keys and values."""
    run(PLAIN.text(), special=True)
    run(CAUSAL.text(), special=True)


@small
@pytest.mark.parametrize("hidden", ["-inf", "-1e30"])
def test_rows_that_see_nothing(hidden: str) -> None:
    """NaN if all logits are -inf; equal weights if all are the same number."""
    text = replace(PLAIN, mask="padding", hidden=hidden).text()
    arrays = inputs_for(parse_text(text), 3, special=False)
    arrays[3] = np.zeros_like(arrays[3])
    found = result_of(text, arrays)
    assert np.isnan(found.astype(np.float32)).all() == (hidden == "-inf")


# ---------------------------------------------------------------- causal masks


@small
def test_hidden_tiles_are_left_out() -> None:
    """Of 3 times 3 tiles the mask hides 3; a launch before looks at the values."""
    counts = []
    for mask in ("causal", "padding"):
        device = run(replace(CAUSAL, sizes=(1, 1, 384, 384, 64, 64), mask=mask).text())
        counts.append(device.reports[-1][1].thread_instructions)
    assert counts[0] < 0.8 * counts[1]


@small
@pytest.mark.parametrize("hidden", ["0", "-90"])
def test_hidden_keys_that_count_are_not_left_out(hidden: str) -> None:
    """The warpgroups vote on it: a logit that is not far below the largest one has a weight."""
    run(replace(CAUSAL, hidden=hidden).text())


@small
@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_a_weight_of_0_makes_nan_of_what_is_not_finite(number: float) -> None:
    """All queries whose mask hides that value have it, too, as without the fusion."""
    text = CAUSAL.text()
    arrays = inputs_for(parse_text(text), 4, special=False)
    arrays[2][0, 0, 290, 3] = number
    found = result_of(text, arrays)
    assert np.isnan(found[0, 0, :290, 3].astype(np.float32)).all()


@small
def test_masks_of_visible_tiles_are_not_evaluated() -> None:
    """Warpgroups see all tiles but the last one or two."""
    plain = replace(PLAIN, sizes=(1, 1, 128, 1024, 64, 64), scale="none")
    counts = [
        run(replace(plain, mask=mask).text()).reports[0][1].thread_instructions
        for mask in ("shifted", "none")
    ]
    assert counts[0] < 1.1 * counts[1]


# ---------------------------------------------------------------- parts of the keys


@small
def test_few_queries_and_many_keys_are_cut() -> None:
    """Parts keep their largest logit and sums; a second launch joins them in order."""
    device = run(replace(PLAIN, sizes=(1, 1, 17, 1100, 64, 48), mask="padding").text())
    assert len(device.reports) == 2


# ---------------------------------------------------------------- faults

WAIT = r"mbarrier\.try_wait\.parity\.shared::cta\.b64 p, \[%rd\d+\], %r\d+"
OPEN = "setp.eq.b32 p, 0, 0"
UNREADY = "before the wait|uninitialised|under way"
BAD = {
    "no wait for queries": ("inc", WAIT, OPEN, 1, UNREADY),
    "no wait for keys": ("inc", WAIT, OPEN, 3, UNREADY),
    "no wait for values": ("inc", WAIT, OPEN, 4, UNREADY),
    "no wait for readers of keys": ("dec", WAIT, OPEN, 9, "more arrivals|under way|race"),
    "no wait for readers of values": ("dec", WAIT, OPEN, 10, "more arrivals|under way|race"),
    "scores are read too soon": (
        "inc",
        r"wait_group\.sync\.aligned 1",
        "wait_group.sync.aligned 2",
        1,
        "accessed before the wait",
    ),
    "sums are rescaled too soon": (
        "inc",
        r"wait_group\.sync\.aligned 0",
        "wait_group.sync.aligned 1",
        2,
        "accessed before the wait",
    ),
    "no fence after the softmax": ("inc", r"wgmma\.fence\.sync\.aligned;", "", 2, "no wgmma.fence"),
    "no fence after rescaling": ("inc", r"wgmma\.fence\.sync\.aligned;", "", 4, "no wgmma.fence"),
    "fewer bytes than arrive": ("dec", r"\b16384;", "16368;", 1, "mbarrier that never ends"),
    "tiles overlap": ("dec", r"(tile\S* \[)(%rd\d+)\]", r"\1\2+16384]", 2, "under way"),
    "stages are never given back": ("", r"(mov\.b32 \t%r\d+), 8;", r"\1, 9;", 1, "never ends"),
}


@small
@pytest.mark.parametrize("name", BAD)
def test_a_planted_bug_is_found(name: str) -> None:
    """The pipeline of 5 tiles and 4 stages, with one instruction changed.

    `inc` and `dec` say which warpgroups do it: those that take registers, or give them away. What
    is before is done by all. The number says which of the matches is changed.
    """
    side, pattern, wrong, which, message = BAD[name]
    text = LONG.text()
    module = compiled(text, cpu=CHIP)
    module._ptx = changed(module.ptx, side, pattern, wrong, which)
    arrays = inputs_for(parse_text(text), 0, special=False)
    with pytest.raises(PtxFault, match=message):
        GpuExecutable(module, SimulatedDevice())(*arrays)


# ---------------------------------------------------------------- devices, accesses, machine code


@small
def test_a_device_gets_tensor_maps_of_all_operands() -> None:
    """The driver makes tensor maps of queries, keys and values, once per address."""
    api = FakeCuda(capability=90)
    text = PLAIN.text()
    executable = GpuExecutable(compiled(text, cpu=CHIP), CudaDevice(CudaDriver(api)))
    for seed in range(2):
        arrays = inputs_for(parse_text(text), seed, special=False)
        assert_close(executable(*arrays)[0], evaluate(text, *arrays)[0])
    assert api.calls.count("cuTensorMapEncodeTiled") == 3


@small
@pytest.mark.parametrize("order", ["bhsd", "bhds"])
@pytest.mark.parametrize("depth", [64, 128])
def test_no_byte_is_read_in_vain_and_no_bank_twice(depth: int, order: str) -> None:
    sizes = (1, 1, 128, 320, depth, depth)
    ((_, report),) = run(replace(PLAIN, sizes=sizes, order=order).text()).reports
    assert report.bank_conflict_ratio == 1.0
    assert report.sector_efficiency == 1.0


SIZES = [
    (4, 16, 1024, 1024, 128, 128),
    *(
        pytest.param(sizes, marks=pytest.mark.slow)
        for sizes in (
            (4, 16, 1024, 1024, 64, 64),
            (1, 2, 1000, 1030, 128, 128),
            (1, 1, 200, 600, 192, 128),
            (4, 4, 512, 512, 256, 256),
            (1, 2, 130, 200, 128, 128),
            (1, 1, 100, 3000, 96, 96),
        )
    ),
]


@small
@needs_ptxas
@pytest.mark.parametrize("mask", ["none", "causal", "added", "causal-and-padding"])
@pytest.mark.parametrize("sizes", SIZES)
def test_sums_and_weights_stay_in_registers(sizes: Any, mask: str, tmp_path: Path) -> None:
    """No spills, and no word that products are made one after another; shared memory fits."""
    module = compiled(replace(PLAIN, sizes=sizes, mask=mask).text(), cpu=CHIP)
    check_warnings(module.ptx, tmp_path)
    check_shared_bytes(module)


# ---------------------------------------------------------------- where there is no such kernel

LARGE = replace(PLAIN, sizes=(4, 16, 1024, 1024, 128, 128))


@pytest.mark.parametrize("chip", ["sm_90a", "sm_90", "sm_100a", "sm_80"])
def test_only_one_chip_has_warpgroups(chip: str) -> None:
    assert ("wgmma" in compiled(LARGE.text(), cpu=chip).ptx) == (chip == CHIP)


OTHERS: dict[str, dict[str, Any]] = {
    "few queries": {"sizes": (1, 4, 64, 1024, 128, 128)},
    "another type": {"dtype": "f32"},
    "strides that are no multiple of 16 bytes": {"sizes": (4, 16, 1024, 1024, 124, 124)},
    "keys that are no multiple of 16 bytes": {
        "sizes": (4, 16, 1024, 1028, 128, 128),
        "order": "bhds",
    },
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_attentions_are_made_as_before(name: str) -> None:
    assert "wgmma" not in compiled(replace(LARGE, **OTHERS[name]).text(), cpu=CHIP).ptx


def test_code_of_this_machine_has_no_warpgroups() -> None:
    """The host build of sm_90a takes the kernels of sm_90."""
    options = CompileOptions(target="nvptx64", cpu=CHIP, simulate="host")
    module = NvptxBackend().compile(parse_text(LARGE.text()), options)
    assert not any(f.tiled for kernel in module.kernels for f in kernel.functions)
