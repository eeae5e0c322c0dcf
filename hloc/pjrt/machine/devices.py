"""`PJRT_Memory_*`, `PJRT_Device_*` and `PJRT_Client_*` that are called often or at the very end."""

from __future__ import annotations

from hloc.pjrt.machine.words import Args, PJRT_Error, at


def PJRT_Memory_Kind(args: Args) -> PJRT_Error:
    args.kind = args.memory.kind
    args.kind_size = args.memory.kind_size
    return None


def PJRT_Memory_Kind_Id(args: Args) -> PJRT_Error:
    args.kind_id = args.memory.kind_id
    return None


def PJRT_Memory_Id(args: Args) -> PJRT_Error:
    args.id = args.memory.id
    return None


def PJRT_Memory_DebugString(args: Args) -> PJRT_Error:
    args.debug_string = args.memory.text
    args.debug_string_size = args.memory.text_size
    return None


def PJRT_Memory_ToString(args: Args) -> PJRT_Error:
    args.to_string = args.memory.text
    args.to_string_size = args.memory.text_size
    return None


def PJRT_Memory_AddressableByDevices(args: Args) -> PJRT_Error:
    args.devices = at(args.memory.device)
    args.num_devices = 1
    return None


def PJRT_Device_GetDescription(args: Args) -> PJRT_Error:
    args.device_description = args.device.description
    return None


def PJRT_Device_IsAddressable(args: Args) -> PJRT_Error:
    args.is_addressable = 1
    return None


def PJRT_Device_LocalHardwareId(args: Args) -> PJRT_Error:
    args.local_hardware_id = args.device.description.id
    return None


def PJRT_Device_AddressableMemories(args: Args) -> PJRT_Error:
    args.memories = args.device.memories
    args.num_memories = args.device.num_memories
    return None


def PJRT_Device_DefaultMemory(args: Args) -> PJRT_Error:
    args.memory = args.device.memories[0]
    return None


def PJRT_DeviceDescription_Id(args: Args) -> PJRT_Error:
    args.id = args.device_description.id
    return None


def PJRT_DeviceDescription_ProcessIndex(args: Args) -> PJRT_Error:
    args.process_index = 0
    return None


def PJRT_DeviceDescription_Attributes(args: Args) -> PJRT_Error:
    args.attributes = None
    args.num_attributes = 0
    return None


def PJRT_DeviceDescription_Kind(args: Args) -> PJRT_Error:
    args.device_kind = args.device_description.kind
    args.device_kind_size = args.device_description.kind_size
    return None


def PJRT_DeviceDescription_DebugString(args: Args) -> PJRT_Error:
    args.debug_string = args.device_description.text
    args.debug_string_size = args.device_description.text_size
    return None


def PJRT_DeviceDescription_ToString(args: Args) -> PJRT_Error:
    args.to_string = args.device_description.text
    args.to_string_size = args.device_description.text_size
    return None


def PJRT_Client_Devices(args: Args) -> PJRT_Error:
    args.devices = args.client.devices
    args.num_devices = args.client.num_devices
    return None


def PJRT_Client_AddressableDevices(args: Args) -> PJRT_Error:
    args.addressable_devices = args.client.devices
    args.num_addressable_devices = args.client.num_devices
    return None


def PJRT_Client_AddressableMemories(args: Args) -> PJRT_Error:
    args.addressable_memories = args.client.memories
    args.num_addressable_memories = args.client.num_memories
    return None


def PJRT_Client_TopologyDescription(args: Args) -> PJRT_Error:
    args.topology = args.client.topology
    return None


def PJRT_Client_ProcessIndex(args: Args) -> PJRT_Error:
    args.process_index = 0
    return None


def PJRT_TopologyDescription_GetDeviceDescriptions(args: Args) -> PJRT_Error:
    args.descriptions = args.topology.descriptions
    args.num_descriptions = args.topology.num_descriptions
    return None


def PJRT_Client_Destroy(args: Args) -> PJRT_Error:
    return None


def PJRT_TopologyDescription_Destroy(args: Args) -> PJRT_Error:
    return None
