"""The client: devices, their memories, the topology."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from hloc import __version__
from hloc.pjrt.abi import structure
from hloc.pjrt.native import PjrtError, keep, named_values, state, text, words

PLATFORM = "cpu"
"""JAX chooses lowerings by this name; hloc supports the custom calls of JAX's CPU lowerings."""

DEVICES_VARIABLE = "HLOC_DEVICES"
MEMORY_KINDS = ("device", "pinned_host", "unpinned_host")

_MAX_DEVICES = 1024


def device_count() -> int:
    """Return the number of devices that the user requests.

    Raises:
        PjrtError: the variable is not a valid number of devices.
    """
    asked = os.environ.get(DEVICES_VARIABLE, "").strip() or "1"
    if not (asked.isascii() and asked.isdigit() and 1 <= int(asked) <= _MAX_DEVICES):
        raise PjrtError(
            "INVALID_ARGUMENT",
            f"{DEVICES_VARIABLE} must be a number of devices, 1 to {_MAX_DEVICES}, not {asked!r}",
        )
    return int(asked)


def new_client() -> int:
    """Return the address of a new client."""
    client = structure("PJRT_Client")()
    address = keep(client)
    devices, descriptions, memories = [], [], []
    for number in range(device_count()):
        device = structure("PJRT_Device")()
        description = structure("PJRT_DeviceDescription")()
        description.id = number
        _set_text(description, "kind", "cpu")
        _set_text(description, "text", f"HlocDevice(id={number})")
        own = [_memory(number, i, keep(device)) for i in range(len(MEMORY_KINDS))]
        device.description, device.client = keep(description), address
        device.memories, device.num_memories = keep(words(own)), len(own)
        devices.append(ctypes.addressof(device))
        descriptions.append(device.description)
        memories += own
    topology = structure("PJRT_TopologyDescription")()
    topology.descriptions = keep(words(descriptions))
    topology.num_descriptions = len(descriptions)
    client.devices, client.num_devices = keep(words(devices)), len(devices)
    client.memories, client.num_memories = keep(words(memories)), len(memories)
    client.topology = keep(topology)
    return address


def _memory(device: int, kind: int, device_address: int) -> int:
    memory = structure("PJRT_Memory")()
    memory.id = device * len(MEMORY_KINDS) + kind
    memory.kind_id, memory.device = kind, device_address
    _set_text(memory, "kind", MEMORY_KINDS[kind])
    _set_text(memory, "text", f"{MEMORY_KINDS[kind]} memory of HlocDevice(id={device})")
    return keep(memory)


def _set_text(thing: Any, field: str, value: str) -> None:
    setattr(thing, field, text(value))
    setattr(thing, f"{field}_size", len(value))


# ---------------------------------------------------------------- functions of the C API


def PJRT_Plugin_Initialize(args: Any) -> None:
    """Do nothing: initialisation is complete."""


def PJRT_Plugin_Attributes(args: Any) -> None:
    from jaxlib.mlir.dialects import stablehlo

    version = tuple(int(part) for part in stablehlo.get_current_version().split("."))
    oldest = tuple(int(part) for part in stablehlo.get_minimum_version().split("."))
    args.attributes, args.num_attributes = named_values(
        {
            "xla_version": 2,
            "stablehlo_current_version": version,
            "stablehlo_minimum_version": oldest,
        }
    )


def PJRT_Client_Create(args: Any) -> None:
    args.client = new_client()


def PJRT_Client_PlatformName(args: Any) -> None:
    _set_text(args, "platform_name", PLATFORM)


def PJRT_Client_PlatformVersion(args: Any) -> None:
    _set_text(args, "platform_version", f"hloc {__version__}")


PJRT_TopologyDescription_PlatformName = PJRT_Client_PlatformName
PJRT_TopologyDescription_PlatformVersion = PJRT_Client_PlatformVersion


def PJRT_TopologyDescription_Attributes(args: Any) -> None:
    args.attributes, args.num_attributes = None, 0


def PJRT_Client_LookupDevice(args: Any) -> None:
    args.device = _device(args.client, args.id)


def PJRT_Client_LookupAddressableDevice(args: Any) -> None:
    args.addressable_device = _device(args.client, args.local_hardware_id)


def _device(client_address: int, number: int) -> int:
    client = structure("PJRT_Client").from_address(client_address)
    if not 0 <= number < client.num_devices:
        raise PjrtError("INVALID_ARGUMENT", f"hloc has no device {number}")
    return devices_of(client_address)[number]


def devices_of(client_address: int) -> list[int]:
    """Return the addresses of the devices, by number."""
    client = structure("PJRT_Client").from_address(client_address)
    return list((ctypes.c_int64 * client.num_devices).from_address(client.devices))


def PJRT_Client_DefaultDeviceAssignment(args: Any) -> None:
    count = args.num_replicas * args.num_partitions
    present = structure("PJRT_Client").from_address(args.client).num_devices
    if count > present:
        raise PjrtError(
            "INVALID_ARGUMENT",
            f"{count} devices are requested, but hloc has {present}; "
            f"set {DEVICES_VARIABLE}={count}",
        )
    numbers = (ctypes.c_int32 * count)(*range(count))
    ctypes.memmove(args.default_assignment, numbers, ctypes.sizeof(numbers))


def PJRT_Device_MemoryStats(args: Any) -> None:
    for name, _ in type(args)._fields_[3:]:
        setattr(args, name, 0)
    values = {
        "bytes_in_use": state().bytes_in_use,
        "peak_bytes_in_use": state().peak_bytes,
        "num_allocs": state().allocations,
        "largest_alloc_size": state().largest_bytes,
    }
    for name, value in values.items():
        setattr(args, name, value)
        if name != "bytes_in_use":
            setattr(args, f"{name}_is_set", True)
