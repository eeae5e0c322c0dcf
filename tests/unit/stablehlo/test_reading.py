"""StableHLO as JAX prints it and in MLIR's generic form: read, run, compared with NumPy."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hloc
from hloc.errors import HloError, UnsupportedError
from hloc.formats.read import read_snapshot
from hloc.ir.module import Module
from hloc.ir.verifier import verify
from hloc.source import SourceFile
from hloc.stablehlo.to_module import module_from_stablehlo
from tests.tolerance import bounds

Array = np.ndarray[Any, Any]
PROGRAMS = Path(__file__).resolve().parents[2] / "golden" / "stablehlo"
X = np.arange(8, dtype=np.float32).reshape(2, 4) - 3
N = np.array([3, -1, 2, 0], np.int32)


def module_of(body: str, signature: str) -> Module:
    text = f"module @m {{\n  func.func @main{signature} {{\n{body}\n  }}\n}}\n"
    return read_snapshot(text.encode(), "m.mlir").module


CASES: dict[str, tuple[tuple[Array, ...], Callable[..., Any]]] = {
    "elementwise": (
        (X,),
        lambda x: abs(np.maximum(2 * x, x)),
    ),
    "several-results-of-one-name": (
        (X,),
        lambda x: np.sin(x) - -x,
    ),
    "constants": (
        (),
        lambda: np.array([[1, -2.5, np.inf, 0], [-0.0] * 4, [1, 2, 3, 4]], np.float32),
    ),
    "broadcast-that-grows": (
        (X,),
        lambda x: np.broadcast_to(x[:, 1:2], (2, 4)),
    ),
    "select-and-clamp-by-scalars": (
        (X,),
        lambda x: np.clip(x, -1, 2),
    ),
    "dot-with-batch": (
        (X,),
        lambda x: x.reshape(2, 2, 2) @ x.reshape(2, 2, 2),
    ),
    "reduce-in-short": (
        (X,),
        lambda x: x.sum(1),
    ),
    "reduce-of-two-arrays": (
        (X,),
        lambda x: x.argmax(1).astype(np.int32),
    ),
    "while-that-uses-values-from-outside": (
        (X,),
        lambda x: 4 * x,
    ),
    "case-and-if": (
        (X,),
        lambda x: x * 0,
    ),
    "gather-scatter-sort": (
        (N,),
        lambda n: np.sort(n + np.array([0, n[1], 0, n[3]], np.int32)),
    ),
    "convolution": (
        (X,),
        lambda x: sum(np.pad(x, 1)[i : i + 2, j : j + 4] for i in range(3) for j in range(3)),
    ),
    "windows": (
        (X,),
        lambda x: x.reshape(2, 2, 2).max(2),
    ),
    "dynamic-slices-and-pads": (
        (X,),
        lambda x: np.pad(np.stack([x[1], x[1]]), ((0, 1), (1, 0)), constant_values=9)[:, :4],
    ),
    "complex-numbers": (
        (X,),
        lambda x: -x,
    ),
    "top-k": (
        (X,),
        lambda x: np.argsort(-x, 1)[:, :2].astype(np.int32),
    ),
    "a-barrier-of-two-values": (
        (X,),
        lambda x: x * 0,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_program_computes_what_numpy_does(name: str) -> None:
    arguments, expected = CASES[name]
    (found,) = hloc.evaluate(hloc.load(str(PROGRAMS / f"{name}.mlir")), *arguments)
    wanted = np.asarray(expected(*arguments))
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, **bounds("f32 few roundings"))
    assert (np.signbit(found) == np.signbit(wanted)).all() or name != "constants"


def test_arguments_carry_aliases_donation_and_sharding() -> None:
    module = module_of(
        "return %b, %a : tensor<4xf32>, tensor<4xf32>",
        "(%a: tensor<4xf32> {tf.aliasing_output = 1 : i32}, %b: tensor<4xf32>"
        ' {jax.buffer_donor = true, mhlo.sharding = "{replicated}"}) ->'
        ' (tensor<4xf32> {jax.result_info = "x"}, tensor<4xf32>)',
    )
    (alias,) = module.config.aliases
    assert (alias.output_index, alias.parameter) == ((1,), 0)
    assert module.config.buffer_donors == ((1, ()),)
    assert str(module.entry.parameters[1].common.sharding) == "{replicated}"


def test_locations_become_metadata_and_names() -> None:
    module = module_of(
        '%0 = stablehlo.sine %a : tensor<4xf32> loc("jit(f)/sin"("model.py":7:4 to :9))\n'
        "return %0 : tensor<4xf32>",
        "(%a: tensor<4xf32>) -> tensor<4xf32>",
    )
    metadata = module.entry.root.common.metadata
    assert metadata is not None
    assert (metadata.op_name, metadata.source_file, metadata.source_line) == (
        "jit(f)/sin", "model.py", 7,
    )  # fmt: skip
    assert module.entry.root.name == "sin"


def test_a_typed_custom_call_keeps_its_config_layouts_and_aliases() -> None:
    module = module_of(
        "%0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%a) {"
        "mhlo.backend_config = {uplo = 76 : ui8}, "
        "operand_layouts = [dense<[0, 1]> : tensor<2xindex>], output_operand_aliases ="
        " [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0,"
        " operand_tuple_indices = []>], result_layouts = [dense<[0, 1]> : tensor<2xindex>,"
        " dense<> : tensor<0xindex>]} : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<i32>)\n"
        "return %0#0 : tensor<4x4xf32>",
        "(%a: tensor<4x4xf32>) -> tensor<4x4xf32>",
    )
    text = module.to_text()
    for part in (
        "(f32[4,4]{0,1}, s32[]) custom-call", "operand_layout_constraints={f32[4,4]{0,1}}",
        "api_version=API_VERSION_TYPED_FFI", "backend_config={uplo = 76 : ui8}",
        "output_to_operand_aliasing={{0}: (0, {})}",
    ):  # fmt: skip
        assert part in text


FAULTS = [
    ("%0 = stablehlo.ad %a, %a : tensor<4xf32>", "unknown operation 'stablehlo.ad'", 1),
    ("%0 = stablehlo.add %a, %z : tensor<4xf32>", "value %z is not defined here", 1),
    ("%0 = stablehlo.add %a, %a tensor<4xf32>", "expected ':' and a type", 1),
    ("%0 = stablehlo.add %a, %a : tensor<4xf33>", "unknown element type 'f33'", 1),
    ("%0 = stablehlo.transpose %a, dim = [0] : (tensor<4xf32>) -> tensor<4xf32>",
     "unknown part 'dim' of stablehlo.transpose", 1),
    ("%0 = stablehlo.negate %a : (tensor<5xf32>) -> tensor<4xf32>",
     "%a is f32[4]{0}, but the type says f32[5]{0}", 1),
    ("%0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<4xf32>", "the elements have sizes", 1),
    ("%0 = func.call @g(%a) : (tensor<4xf32>) -> tensor<4xf32>", "there is no function @g", 1),
    ("%0 = func.call @main(%a) : (tensor<4xf32>) -> tensor<4xf32>", "@main calls itself", 1),
    ("%0 = stablehlo.negate %a : tensor<4xf32>\n%0 = stablehlo.negate %a : tensor<4xf32>",
     "value %0 is defined twice", 2),
    ("%0 = stablehlo.broadcast_in_dim %a, dims = [3] : (tensor<4xf32>) -> tensor<4xf32>",
     "dims [3] do not map", 1),
    ("%0 = stablehlo.add %a, %a : tensor<8xf32>", "add", 1),
]  # fmt: skip


@pytest.mark.parametrize(("body", "message", "line"), FAULTS)
def test_a_fault_is_shown_at_its_line(body: str, message: str, line: int) -> None:
    with pytest.raises(HloError) as caught:
        module_of(f"{body}\nreturn %0 : tensor<4xf32>", "(%a: tensor<4xf32>) -> tensor<4xf32>")
    assert message in str(caught.value)
    assert f"m.mlir:{line + 2}:" in str(caught.value)


def test_an_operation_without_a_counterpart_is_refused() -> None:
    source = SourceFile(
        "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %0 = chlo.polygamma %a, %a : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>\n"
        "  return %0 : tensor<4xf32>\n}"
    )
    with pytest.raises(UnsupportedError, match=r"chlo\.polygamma has no opcode in HLO"):
        module_from_stablehlo(source)


def test_mutated_texts_are_read_or_refused() -> None:
    """No text makes the reader fail in another way than by a diagnostic."""
    rng = np.random.default_rng(5)
    texts = [(PROGRAMS / f"{name}.mlir").read_text() for name in CASES]
    pieces = [*"<>(){}[],:=", "%0", "-1", "dense<", '"', "@f", ""]
    read = 0
    for text in texts:
        for _ in range(40):
            at = int(rng.integers(len(text)))
            cut = int(rng.integers(1, 12))
            mutated = text[:at] + str(rng.choice(pieces)) + text[at + cut :]
            with suppress(HloError):
                verify(module_from_stablehlo(SourceFile(mutated)))
                read += 1
    assert 0 < read < 40 * len(texts)


def test_a_large_constant_of_one_number_takes_no_memory() -> None:
    module = module_of(
        "%0 = stablehlo.constant dense<1.0> : tensor<1000000000000xf32>\n"
        "%1 = stablehlo.slice %0 [7:9] : (tensor<1000000000000xf32>) -> tensor<2xf32>\n"
        "return %1 : tensor<2xf32>",
        "() -> tensor<2xf32>",
    )
    assert module.entry.root.operands[0].is_a("broadcast")
    with pytest.raises(HloError, match="is too large"):
        module_of(
            "%0 = stablehlo.constant dense<1.0> : tensor<9000000000000000000x9xf32>\n"
            "return %0 : tensor<9000000000000000000x9xf32>",
            "() -> tensor<9000000000000000000x9xf32>",
        )


def test_nesting_is_limited() -> None:
    opening = '"stablehlo.case"(%i) ({' * 300
    with pytest.raises(HloError, match="nested more than"):
        module_of(opening, "(%i: tensor<i32>) -> tensor<i32>")
