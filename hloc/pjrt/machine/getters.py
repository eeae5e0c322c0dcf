"""`PJRT_*` functions that copy fields into their arguments, as a table: called often or at the end.

A row is the function's name and what it stores: `id=memory.id` is `args.id = args.memory.id`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_TABLE = """
PJRT_Buffer_Device device=buffer.device
PJRT_Buffer_Dimensions dims=buffer.dims num_dims=buffer.rank
PJRT_Buffer_DynamicDimensionIndices dynamic_dim_indices=None num_dynamic_dims=0
PJRT_Buffer_ElementType type=buffer.type
PJRT_Buffer_IsDeleted is_deleted=buffer.deleted
PJRT_Buffer_IsOnCpu is_on_cpu=1
PJRT_Buffer_Memory memory=buffer.memory
PJRT_Buffer_OnDeviceSizeInBytes on_device_size_in_bytes=buffer.bytes
PJRT_Buffer_UnpaddedDimensions unpadded_dims=buffer.dims num_dims=buffer.rank
PJRT_Client_AddressableDevices addressable_devices=client.devices
  num_addressable_devices=client.num_devices
PJRT_Client_AddressableMemories addressable_memories=client.memories
  num_addressable_memories=client.num_memories
PJRT_Client_Destroy
PJRT_Client_Devices devices=client.devices num_devices=client.num_devices
PJRT_Client_ProcessIndex process_index=0
PJRT_Client_TopologyDescription topology=client.topology
PJRT_DeviceDescription_Attributes attributes=None num_attributes=0
PJRT_DeviceDescription_DebugString debug_string=device_description.text
  debug_string_size=device_description.text_size
PJRT_DeviceDescription_Id id=device_description.id
PJRT_DeviceDescription_Kind device_kind=device_description.kind
  device_kind_size=device_description.kind_size
PJRT_DeviceDescription_ProcessIndex process_index=0
PJRT_DeviceDescription_ToString to_string=device_description.text
  to_string_size=device_description.text_size
PJRT_Device_AddressableMemories memories=device.memories num_memories=device.num_memories
PJRT_Device_DefaultMemory memory=device.memories[0]
PJRT_Device_GetDescription device_description=device.description
PJRT_Device_IsAddressable is_addressable=1
PJRT_Device_LocalHardwareId local_hardware_id=device.description.id
PJRT_Error_GetCode code=error.code
PJRT_Executable_Name executable_name=executable.name executable_name_size=executable.name_size
PJRT_Executable_NumOutputs num_outputs=executable.num_outputs
PJRT_Executable_NumPartitions num_partitions=executable.num_partitions
PJRT_Executable_NumReplicas num_replicas=executable.num_replicas
PJRT_Layouts_MemoryLayout_Destroy
PJRT_Layouts_PJRT_Buffer_MemoryLayout layout=buffer.layout
PJRT_LoadedExecutable_AddressableDevices addressable_devices=executable.devices
  num_addressable_devices=executable.num_devices
PJRT_LoadedExecutable_IsDeleted is_deleted=executable.deleted
PJRT_Memory_AddressableByDevices devices=at(memory.device) num_devices=1
PJRT_Memory_DebugString debug_string=memory.text debug_string_size=memory.text_size
PJRT_Memory_Id id=memory.id
PJRT_Memory_Kind kind=memory.kind kind_size=memory.kind_size
PJRT_Memory_Kind_Id kind_id=memory.kind_id
PJRT_Memory_ToString to_string=memory.text to_string_size=memory.text_size
PJRT_TopologyDescription_Destroy
PJRT_TopologyDescription_GetDeviceDescriptions descriptions=topology.descriptions
  num_descriptions=topology.num_descriptions
"""
_OBJECT = re.compile(r"\w+(?=[.)])")


def getter_sources() -> Iterator[str]:
    """Yield the functions in the subset of Python that `load.py` translates."""
    for name, *stores in map(str.split, re.findall(r"PJRT_.*(?:\n  .*)?", _TABLE)):
        yield f"def {name}(args: Args) -> PJRT_Error:"
        for field, _, value in (store.partition("=") for store in stores):
            stored = _OBJECT.sub(r"args.\g<0>", value, count=1)
            yield f"    args.{field} = {stored}"
        yield "    return None"
