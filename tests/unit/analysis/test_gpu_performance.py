"""The model of kernels on GPUs: more work never takes less time, and known cases are in order."""

import pytest

import hloc
from hloc.analysis.gpu_devices import DEVICE_SPECS, DeviceSpec, spec_of_chip, spec_of_device
from hloc.analysis.gpu_performance import (
    LAUNCH_SECONDS,
    ArrayRead,
    Pattern,
    Threads,
    operations_per_element,
)
from tests.gpu_estimate import KernelWork, kernel_seconds

CHIPS = ("sm_70", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "gfx90a", "gfx942")


def seconds(elements: int, device: DeviceSpec, pattern: Pattern = Pattern.NEIGHBOURS) -> float:
    """Return the time of an elementwise kernel of two arrays of f32."""
    read = ArrayRead(4 * elements, 4, elements, pattern)
    return kernel_seconds(
        KernelWork(Threads(elements / 4), elements, (read,), 4 * elements), device
    )


@pytest.mark.parametrize("chip", CHIPS)
def test_more_bytes_take_more_time(chip: str) -> None:
    times = [seconds(1 << power, spec_of_chip(chip)) for power in range(8, 30)]
    assert times == sorted(times)
    assert times[0] >= LAUNCH_SECONDS
    assert times[-1] > 1.9 * times[-2]


@pytest.mark.parametrize("chip", CHIPS)
def test_large_kernels_reach_the_bandwidth_and_small_ones_do_not(chip: str) -> None:
    device, size = spec_of_chip(chip), 8 << 26
    assert 0.8 < size / seconds(1 << 26, device) / device.bytes_per_second <= 1.0
    assert 0.1 * device.bytes_per_second * seconds(1 << 10, device) > 8 << 10


def test_reading_across_memory_wastes_most_of_what_it_hands_out() -> None:
    device = spec_of_chip("sm_90")
    large, cached = 1 << 26, 1 << 20
    assert seconds(large, device, Pattern.STRIDED) > 3 * seconds(large, device)
    assert seconds(cached, device, Pattern.STRIDED) < 3 * seconds(cached, device)
    assert seconds(large, device, Pattern.UNIFORM) <= seconds(large, device)


def test_what_is_read_again_comes_from_the_cache() -> None:
    device, threads = spec_of_chip("sm_80"), Threads(1 << 20)

    def read(asked: int) -> float:
        array = ArrayRead(4 << 20, 4, asked, Pattern.NEIGHBOURS)
        return kernel_seconds(KernelWork(threads, 0.0, (array,)), device) - LAUNCH_SECONDS

    once, twice = read(1 << 20), read(2 << 20)
    assert once < twice < 2 * once


def test_arithmetic_and_memory_run_beside_each_other() -> None:
    device, threads = spec_of_chip("sm_80"), Threads(1 << 20)
    read = (ArrayRead(64 << 20, 4, 16 << 20, Pattern.NEIGHBOURS),)
    memory = kernel_seconds(KernelWork(threads, 0.0, read), device)
    compute = kernel_seconds(KernelWork(threads, 1e8), device)
    both = kernel_seconds(KernelWork(threads, 1e8, read), device)
    assert max(memory, compute) < both < memory + compute - LAUNCH_SECONDS


def test_many_values_in_registers_leave_room_for_fewer_threads() -> None:
    device = spec_of_chip("sm_80")
    few, many = Threads(1e7, 10), Threads(1e7, 800)
    assert many.resident(device) < few.resident(device)
    assert many.bandwidth(device) <= few.bandwidth(device)


def test_doubles_are_dear_where_a_chip_has_few_units_for_them() -> None:
    text = "ENTRY e {\n  x = f64[8] parameter(0)\n  ROOT r = f64[8] add(x, x)\n}"
    root = hloc.parse("HloModule m\n" + text).entry.root
    server, graphics = (
        operations_per_element(root, spec_of_chip(chip)) for chip in ("sm_80", "sm_86")
    )
    assert 2 <= server <= 4
    assert graphics > 10 * server


def test_chips_are_products_of_the_table() -> None:
    assert all(spec_of_chip(chip) in DEVICE_SPECS.values() for chip in CHIPS)
    assert spec_of_chip("sm_90a") == spec_of_chip("sm_90") == spec_of_device("NVIDIA H100")
    assert spec_of_chip("native") == spec_of_chip("sm_80")
    assert spec_of_chip("sm_87") == spec_of_chip("sm_86")
