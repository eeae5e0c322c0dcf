"""Attention as one kernel of GPUs: both ways to multiply, masks, edges, parts of the keys."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hloc import evaluate
from hloc.codegen.gpu.nvptx import cubin
from hloc.codegen.gpu.nvptx.backend import NvptxBackend
from hloc.driver import optimise, parse_text
from hloc.options import CompileOptions
from hloc.runtime.gpu.executable import GpuExecutable
from hloc.runtime.gpu.host_device import HostDevice
from hloc.runtime.gpu.simulated import SimulatedDevice
from tests.inputs import inputs_for
from tests.tolerance import assert_close
from tests.unit.gpu.simulate import Array, check, compiled
from tests.unit.opt.attention_modules import AttentionText

PLAIN = AttentionText(sizes=(1, 2, 70, 70, 16, 24))
CHIPS = (
    "sm_90",
    *(pytest.param(chip, marks=pytest.mark.slow) for chip in ("sm_80", "sm_100")),
)

needs_assembler = pytest.mark.skipif(
    not cubin.can_assemble(), reason="neither nvJitLink nor ptxas is installed"
)


def launches(text: str, cpu: str = "") -> list[tuple[int, int, int]]:
    """Return the grids of all launches; an attention that is one kernel has one or two."""
    kernels = compiled(text, cpu=cpu).kernels
    assert len(kernels) == 1
    return [function.grid for function in kernels[0].functions]


def in_both_orders(text: str, arrays: list[Array]) -> Array:
    """Return the result of the host build, the same bits in both orders of threads."""
    module = compiled(text)
    first, second = (
        GpuExecutable(module, HostDevice(reverse=order))(*arrays)[0] for order in (False, True)
    )
    assert first.tobytes() == second.tobytes()
    return np.asarray(first)


# ---------------------------------------------------------------- all forms


@pytest.mark.parametrize(
    ("dtype", "changes"),
    [
        ("f32", {"mask": "added", "order": "bshd", "scale": "none"}),
        ("f16", {"mask": "added", "order": "bhds"}),
        ("bf16", {"mask": "padding", "keys_first": True}),
        ("bf16", {"mask": "causal", "values_first": True}),
        ("f32", {"mask": "causal-and-padding", "order": "bhds", "hidden": "-1e30"}),
        ("bf16", {"sizes": (2, 3, 13, 90, 20, 17), "order": "sbhd"}),
        ("f32", {"sizes": (2, 1, 13, 90, 20, 17), "order": "sbhd", "keys_first": True}),
        ("bf16", {"sizes": (1, 1, 40, 33, 72, 130), "mask": "shifted"}),
        ("f32", {"sizes": (1, 1, 32, 33, 24, 130), "mask": "shifted", "values_first": True}),
        ("bf16", {"sizes": (1, 2, 20, 70, 16, 16), "shared_heads": 3, "order": "bhsd"}),
        ("bf16", {"sizes": (1, 1, 40, 70, 200, 16)}),
        ("bf16", {"scores_dtype": "bf16", "mask": "added"}),
    ],
    ids=lambda given: given if isinstance(given, str) else "-".join(map(str, given.values())),
)
def test_all_forms(dtype: str, changes: dict[str, Any]) -> None:
    """Dimension numbers, masks, and sizes that no tile divides; bf16 and f16 on tensor cores."""
    text = replace(PLAIN, dtype=dtype, **changes).text()
    assert launches(text)
    assert ("mma.sync" in compiled(text).ptx) == (dtype != "f32")
    check(text)


@pytest.mark.parametrize(
    ("dtype", "mask"),
    [
        ("f32", "causal"),
        ("bf16", "none"),
        pytest.param("f32", "none", marks=pytest.mark.slow),
        pytest.param("bf16", "causal", marks=pytest.mark.slow),
    ],
)
def test_it_does_not_depend_on_the_order_of_threads(mask: str, dtype: str) -> None:
    text = replace(PLAIN, sizes=(1, 1, 90, 150, 16, 16), mask=mask, dtype=dtype).text()
    arrays = inputs_for(parse_text(text), 1, special=False)
    assert_close(in_both_orders(text, arrays), evaluate(text, *arrays)[0])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize(
    ("sizes", "mask"),
    [
        ((1, 1, 300, 300, 64, 64), "causal"),
        ((1, 2, 200, 280, 128, 128), "none"),
        ((1, 1, 150, 150, 256, 256), "causal"),
        ((1, 54, 200, 70, 64, 64), "causal"),
    ],
)
def test_larger_ones_do_not_either(sizes: Any, mask: str, dtype: str) -> None:
    text = replace(PLAIN, sizes=sizes, mask=mask, dtype=dtype).text()
    arrays = inputs_for(parse_text(text), 1, special=False)
    assert_close(in_both_orders(text, arrays), evaluate(text, *arrays)[0])


@pytest.mark.parametrize("mask", ["none", pytest.param("causal", marks=pytest.mark.slow)])
def test_many_queries_make_large_tiles(mask: str) -> None:
    """128 queries to a block where there are enough blocks."""
    sizes = (1, 108, 66, 24, 16, 16)
    text = replace(PLAIN, sizes=sizes, mask=mask, dtype="bf16").text()
    (function,) = compiled(text).kernels[0].functions
    assert (function.grid, function.block) == ((108, 1, 1), (128, 1, 1))
    check(text)


def test_special_numbers() -> None:
    """NaN and infinities among queries, keys and values."""
    for dtype in ("f32", "bf16"):
        check(replace(PLAIN, sizes=(1, 1, 40, 40, 16, 16), dtype=dtype).text(), special=True)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("hidden", ["-inf", "-1e30", "-3.4e38"])
def test_rows_that_see_nothing(hidden: str, dtype: str) -> None:
    """NaN if all logits are -inf; equal weights if all are the same number, however low."""
    sizes = (1, 1, 20, 70, 16, 16)
    text = replace(PLAIN, sizes=sizes, mask="padding", hidden=hidden, dtype=dtype).text()
    arrays = inputs_for(parse_text(text), 3, special=False)
    arrays[3] = np.zeros_like(arrays[3])
    (wanted,) = evaluate(text, *arrays)
    assert np.isnan(wanted.astype(np.float32)).all() == (hidden == "-inf")
    found = GpuExecutable(compiled(text), SimulatedDevice())(*arrays)[0]
    assert_close(np.asarray(found), wanted)


@pytest.mark.parametrize(
    ("algorithm", "bits"), [("dot_tf32_tf32_f32", 10), ("dot_bf16_bf16_f32", 7)]
)
def test_algorithms_that_allow_less(algorithm: str, bits: int) -> None:
    """Factors of f32 lose bits only where the module says that they may."""
    plain = replace(PLAIN, sizes=(1, 1, 40, 70, 24, 24), mask="causal").text()
    text = re.sub(r"( dot\(.*)", rf"\1, algorithm={algorithm}", plain)
    assert "mma" not in compiled(plain).ptx
    assert "mma.sync" in compiled(text).ptx
    arrays = inputs_for(parse_text(text), 7, special=False)
    (found,) = GpuExecutable(compiled(text), SimulatedDevice())(*arrays)
    (wanted,) = evaluate(plain, *arrays)
    # Scores are off by some units of the factors, which is what weights and results are off by.
    assert np.abs(np.asarray(found) - wanted).max() <= 2.0 ** (3 - bits) * np.abs(wanted).max()
    assert not np.array_equal(np.asarray(found), wanted)


# ---------------------------------------------------------------- causal masks

CAUSAL = AttentionText(sizes=(1, 1, 256, 256, 16, 16), mask="causal", hidden="-1e30", dtype="bf16")


@pytest.mark.parametrize("dtype", ["bf16", pytest.param("f32", marks=pytest.mark.slow)])
def test_hidden_tiles_are_left_out(dtype: str) -> None:
    """Of 4 times 4 tiles the mask hides 6; a launch before looks at the values."""
    counts = []
    for mask in ("causal", "padding"):
        device = check(replace(CAUSAL, mask=mask, dtype=dtype).text())
        counts.append(device.reports[-1][1].thread_instructions)
    assert len(launches(replace(CAUSAL, dtype=dtype).text())) == 2
    assert counts[0] < 0.85 * counts[1]


def test_masks_of_visible_tiles_are_not_evaluated() -> None:
    """All queries see all tiles but the last: a mask costs a twelfth of the work, not a third."""
    plain = replace(CAUSAL, sizes=(1, 1, 32, 480, 16, 16), scale="none", mask="none")
    counts = [
        check(replace(plain, mask=mask).text()).reports[0][1].thread_instructions
        for mask in ("shifted", "none")
    ]
    assert counts[0] < 1.08 * counts[1]


@pytest.mark.parametrize("hidden", ["0", "-90", pytest.param("-3", marks=pytest.mark.slow)])
def test_hidden_keys_that_count_are_not_left_out(hidden: str) -> None:
    """A logit that is not far below the largest one has a weight."""
    check(replace(CAUSAL, hidden=hidden).text())


@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_a_weight_of_0_makes_nan_of_what_is_not_finite(number: float) -> None:
    """All queries whose mask hides that value have it, too, as without the fusion."""
    text = CAUSAL.text()
    arrays = inputs_for(parse_text(text), 4, special=False)
    arrays[2][0, 0, 250, 3] = number
    (wanted,) = evaluate(text, *arrays)
    assert np.isnan(wanted[0, 0, :250, 3].astype(np.float32)).all()
    found = GpuExecutable(compiled(text), SimulatedDevice())(*arrays)[0]
    assert_close(np.asarray(found), wanted)


# ---------------------------------------------------------------- parts of the keys


@pytest.mark.parametrize(("mask", "dtype"), [("none", "bf16"), ("padding", "f32")])
def test_few_queries_and_many_keys_are_cut(mask: str, dtype: str) -> None:
    """Parts keep their largest logit and sums; a second launch joins them in order."""
    text = replace(PLAIN, sizes=(1, 1, 17, 515, 8, 20), mask=mask, dtype=dtype).text()
    first, second = launches(text)
    assert first[1] > 1
    assert second[1] == 1
    check(text)


def test_a_part_that_sees_nothing_has_no_weight() -> None:
    """Its largest logit is -inf, which must not make NaN of the others."""
    text = replace(PLAIN, sizes=(1, 1, 16, 512, 16, 16), mask="padding", dtype="bf16").text()
    assert launches(text)[0][1] > 1
    arrays = inputs_for(parse_text(text), 5, special=False)
    arrays[3][:] = np.arange(512) >= 300
    assert_close(in_both_orders(text, arrays), evaluate(text, *arrays)[0])


@pytest.mark.slow
def test_one_warp_copies_all_tiles() -> None:
    """Few queries need one warp, which has many copies on their way at once."""
    text = replace(PLAIN, sizes=(1, 1, 16, 150, 128, 16), dtype="f16").text()
    assert compiled(text).kernels[0].functions[0].block == (32, 1, 1)
    arrays = inputs_for(parse_text(text), 8, special=False)
    assert_close(in_both_orders(text, arrays), evaluate(text, *arrays)[0])


# ---------------------------------------------------------------- where there is no such kernel


def test_older_chips_multiply_without_tensor_cores() -> None:
    text = replace(PLAIN, dtype="bf16").text()
    assert launches(text, cpu="sm_75")
    assert "mma" not in compiled(text, cpu="sm_75").ptx


@pytest.mark.parametrize(
    "text",
    [
        replace(PLAIN, sizes=(1, 1, 40, 40, 300, 8)).text(),
        replace(PLAIN, sizes=(1, 1, 40, 40, 8, 264)).text(),
        PLAIN.text().replace("constant(-inf)", "constant(0)"),
    ],
    ids=["depth", "values", "start"],
)
def test_others_are_taken_apart(text: str) -> None:
    """Sums that registers do not hold, and a largest logit that starts from a number."""
    assert len(compiled(text).kernels) > 1
    check(text)


# ---------------------------------------------------------------- what it is for


def test_memory_and_launches_saved() -> None:
    """Scores are neither written nor read: one launch, and a part of the traffic."""
    text = AttentionText(sizes=(1, 1, 256, 256, 32, 32), dtype="bf16").text()
    reports = []
    for left_out in ((), ("attention-fusion",)):
        options = CompileOptions(target="nvptx64", disabled_passes=left_out)
        module = parse_text(text)
        optimise(module, options)
        device = SimulatedDevice(metrics=True)
        arrays = inputs_for(parse_text(text), 6, special=False)
        GpuExecutable(NvptxBackend().compile(module, options), device)(*arrays)
        reports.append([report for _, report in device.reports])
    fused, plain = reports
    assert len(fused) == 1
    assert len(plain) >= 3
    moved = [sum(report.global_sectors for report in some) for some in (fused, plain)]
    assert moved[1] > 5 * moved[0]


@pytest.mark.parametrize(("dtype", "depth"), [("bf16", 64), ("bf16", 128), ("f32", 64)])
def test_sectors_are_whole_and_banks_do_not_collide(dtype: str, depth: int) -> None:
    """Tiles come in by wide reads, and results go out by wide writes."""
    device = check(AttentionText(sizes=(1, 1, 64, 128, depth, depth), dtype=dtype).text())
    ((_, report),) = device.reports
    assert report.global_sectors * 32 == report.global_bytes
    assert report.bank_conflict_ratio == 1.0


_PTXAS_SPILL_BYTES = 44


@needs_assembler
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("dtype", "depth"),
    [
        ("bf16", 64),
        ("bf16", 128),
        ("f32", 64),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (("bf16", 256), ("f32", 128))),
        pytest.param("f32", 256, marks=pytest.mark.slow),
    ],
)
def test_nothing_spills(dtype: str, depth: int, chip: str) -> None:
    """Tiles are sized for the registers of a thread, with a mask and without.

    nvJitLink 13.5 spills nothing; ptxas 13.0 keeps to 168 registers, with which three blocks fit,
    and spills 44 bytes for that in one form (bf16, depth 128, sm_80).
    """
    most = 0 if cubin.assembler() == "nvJitLink" else _PTXAS_SPILL_BYTES
    for mask in ("none", "causal"):
        sizes = (4, 16, 1024, 1024, depth, depth)
        text = AttentionText(sizes=sizes, dtype=dtype, mask=mask, hidden="-1e30").text()
        uses = cubin.assemble(compiled(text, cpu=chip).ptx, chip).uses
        assert all(use.spill_bytes <= most for use in uses.values())
