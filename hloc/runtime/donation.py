"""Arguments that the caller donates: outputs that the module aliases with them use their memory."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from hloc.codegen.plan.pointer_table import TableLayout
from hloc.dtypes import Array
from hloc.memory.allocation import AliasedOutput
from hloc.runtime.arena import Frame
from hloc.runtime.array_spec import ArraySpec


class Donation:
    """Stores donated arrays, and results that alias arguments, into the table of a call."""

    def __init__(
        self,
        aliases: Sequence[AliasedOutput],
        parameters: Sequence[ArraySpec],
        outputs: Sequence[ArraySpec],
        table: TableLayout,
    ) -> None:
        """Begin.

        Args:
            aliases: outputs that may alias parameters.
            parameters: specs of all arguments.
            outputs: specs of all results.
            table: of the program.
        """
        self._aliases, self._parameters, self._outputs = aliases, parameters, outputs
        self._table = table
        self._alias_of = {alias.output: alias for alias in aliases}
        self.always = any(alias.how == "in place" for alias in aliases)

    def usable(
        self, table: Any, arrays: Sequence[Any], donate: Collection[int]
    ) -> dict[int, Array]:
        """Return the usable donated array of each output, by number of the output.

        `table` has the addresses of all arguments, which show copies and overlaps.
        """
        result = {}
        for alias in self._aliases:
            number = alias.parameter
            if number not in donate or alias.how == "apart":
                continue
            array = arrays[number]
            if (
                type(array) is np.ndarray
                and array.flags.writeable
                and array.ctypes.data == self._parameter_address(table, alias.output)
                and self._alone(table, number)
            ):
                spec = self._outputs[alias.output]
                result[alias.output] = spec.over(array, self._parameters[number])
        left_out = {alias.group for alias in self._aliases if alias.output not in result}
        return {o: array for o, array in result.items() if self._alias_of[o].group not in left_out}

    def _alone(self, table: Any, number: int) -> bool:
        """True if no other argument shares memory with argument `number`."""
        first = self._table.first_parameter
        start = table[first + number] or 0
        end = start + self._parameters[number].shape.size_bytes
        return all(
            i == number
            or (table[first + i] or 0) >= end
            or (table[first + i] or 0) + spec.shape.size_bytes <= start
            for i, spec in enumerate(self._parameters)
        )

    def _parameter_address(self, table: Any, output: int) -> int:
        """Return the address of the argument that `output` is aliased with."""
        address = table[self._table.first_parameter + self._alias_of[output].parameter]
        return int(address or 0)

    def results(self, frame: Frame, given: dict[int, Array]) -> list[Array]:
        """Return the arrays of the outputs: those in `given`, and new ones.

        For outputs in place, new arrays are initialised with the bytes of the argument.
        """
        table, results = frame.table, []
        for number, (slot, axes, recycler) in enumerate(frame.outputs):
            alias = self._alias_of.get(number)
            if alias is not None and alias.is_shared and number in given:
                table[slot] = self._parameter_address(table, number)
                results.append(given[number])
                continue
            array, table[slot] = recycler.take()
            results.append(array if axes is None else array.transpose(axes))
            if alias is not None and alias.how == "in place":
                source = self._parameter_address(table, number)
                ctypes.memmove(table[slot], source, alias.size_bytes)
        return results

    def copy_out(self, table: Any, given: dict[int, Array], results: list[Array]) -> None:
        """Copy results into the arguments that must alias them."""
        for output, array in given.items():
            alias = self._alias_of[output]
            if alias.how == "copied":
                source = table[self._table.first_output + output]
                ctypes.memmove(self._parameter_address(table, output), source, alias.size_bytes)
                results[output] = array
