"""Dimension labels and windows of convolutions, for passes."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.ir.attributes import ConvolutionDimensions, Window
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Places:
    """Dimension numbers of each array: two roles, then the spatial dimensions.

    Attributes:
        input: batch, feature, spatial...
        kernel: input feature, output feature, spatial...
        output: batch, feature, spatial...
    """

    input: tuple[int, ...]
    kernel: tuple[int, ...]
    output: tuple[int, ...]

    @property
    def labels(self) -> ConvolutionDimensions:
        """The attribute with these dimension numbers."""
        texts = (
            _label_text("bf", self.input),
            _label_text("io", self.kernel),
            _label_text("bf", self.output),
        )
        return ConvolutionDimensions(
            self.input[0],
            self.input[1],
            self.input[2:],
            self.kernel[0],
            self.kernel[1],
            self.kernel[2:],
            self.output[0],
            self.output[1],
            self.output[2:],
            text=f"{texts[0]}_{texts[1]}->{texts[2]}",
        )


def _label_text(roles: str, places: Sequence[int]) -> str:
    names = [*roles, *map(str, range(len(places) - len(roles)))]
    at = dict(zip(places, names, strict=True))
    return "".join(at[dim] for dim in range(len(places)))


def places_of(inst: Instruction) -> Places:
    """Return the dimension numbers of a convolution."""
    d: ConvolutionDimensions = inst.attributes.dim_labels
    return Places(
        (d.input_batch, d.input_feature, *d.input_spatial),
        (d.kernel_input_feature, d.kernel_output_feature, *d.kernel_spatial),
        (d.output_batch, d.output_feature, *d.output_spatial),
    )


def window_of(inst: Instruction) -> Window:
    """Return the window, empty if the text has none."""
    found: Window | None = inst.attributes.window
    return found or Window()


def is_grouped(inst: Instruction) -> bool:
    """True if features or the batch are in groups."""
    a = inst.attributes
    return bool(a.feature_group_count > 1 or a.batch_group_count > 1)
