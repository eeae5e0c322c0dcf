"""The PJRT C API as data, written by `abi_from_header.py`; not edited by hand."""

HEADER_MINOR_VERSION = 114

TABLE = """\
enum PJRT_Buffer_MemoryLayout_Type: Tiled=0, Strides=1
enum PJRT_Buffer_Type: INVALID=0, PRED=1, S8=2, S16=3, S32=4, S64=5, U8=6, U16=7, U32=8, U64=9,
  F16=10, F32=11, F64=12, BF16=13, C64=14, C128=15, F8E5M2=16, F8E4M3FN=17, F8E4M3B11FNUZ=18,
  F8E5M2FNUZ=19, F8E4M3FNUZ=20, S4=21, U4=22, TOKEN=23, S2=24, U2=25, F8E4M3=26, F8E3M4=27,
  F8E8M0FNU=28, F4E2M1FN=29, S1=30, U1=31, F6E2M3FN=32, F6E3M2FN=33
enum PJRT_Error_Code: OK=0, CANCELLED=1, UNKNOWN=2, INVALID_ARGUMENT=3, DEADLINE_EXCEEDED=4,
  NOT_FOUND=5, ALREADY_EXISTS=6, PERMISSION_DENIED=7, RESOURCE_EXHAUSTED=8, FAILED_PRECONDITION=9,
  ABORTED=10, OUT_OF_RANGE=11, UNIMPLEMENTED=12, INTERNAL=13, UNAVAILABLE=14, DATA_LOSS=15,
  UNAUTHENTICATED=16
enum PJRT_Extension_Type: Gpu_Custom_Call=0, Profiler=1, Custom_Partitioner=2, Stream=3,
  Layouts=4, FFI=5, MemoryDescriptions=6, Triton=7, RawBuffer=8, PhaseCompile=9, Example=10,
  Unknown=11, CrossHostTransfers=12, ExecutableMetadata=13, Callback=14, HostAllocator=15,
  TpuTopology=16, TpuExecutable=17, Megascale=18, Shardings=19, AbiVersion=20, Collectives=21,
  MultiSlice=22, HostMemoryAllocator=23, XlaTransform=24
enum PJRT_FFI_Handler_TraitsBits: PJRT_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE=1
enum PJRT_HostBufferSemantics: kImmutableOnlyDuringCall=0, kImmutableUntilTransferCompletes=1,
  kImmutableZeroCopy=2, kMutableZeroCopy=3
enum PJRT_NamedValue_Type: PJRT_NamedValue_kString=0, PJRT_NamedValue_kInt64=1,
  PJRT_NamedValue_kInt64List=2, PJRT_NamedValue_kFloat=3, PJRT_NamedValue_kBool=4
enum PJRT_ProcessState: kUnspecified=0, kUninitialized=1, kDisconnected=2, kConnected=3, kError=4
struct PJRT_Api: ..., PJRT_Api_Version pjrt_api_version, PJRT_Error_Destroy, PJRT_Error_Message,
  PJRT_Error_GetCode, PJRT_Plugin_Initialize, PJRT_Plugin_Attributes, PJRT_Event_Destroy,
  PJRT_Event_IsReady, PJRT_Event_Error, PJRT_Event_Await, PJRT_Event_OnReady, PJRT_Client_Create,
  PJRT_Client_Destroy, PJRT_Client_PlatformName, PJRT_Client_ProcessIndex,
  PJRT_Client_PlatformVersion, PJRT_Client_Devices, PJRT_Client_AddressableDevices,
  PJRT_Client_LookupDevice, PJRT_Client_LookupAddressableDevice, PJRT_Client_AddressableMemories,
  PJRT_Client_Compile, PJRT_Client_DefaultDeviceAssignment, PJRT_Client_BufferFromHostBuffer,
  PJRT_DeviceDescription_Id, PJRT_DeviceDescription_ProcessIndex,
  PJRT_DeviceDescription_Attributes, PJRT_DeviceDescription_Kind,
  PJRT_DeviceDescription_DebugString, PJRT_DeviceDescription_ToString, PJRT_Device_GetDescription,
  PJRT_Device_IsAddressable, PJRT_Device_LocalHardwareId, PJRT_Device_AddressableMemories,
  PJRT_Device_DefaultMemory, PJRT_Device_MemoryStats, PJRT_Memory_Id, PJRT_Memory_Kind,
  PJRT_Memory_DebugString, PJRT_Memory_ToString, PJRT_Memory_AddressableByDevices,
  PJRT_Executable_Destroy, PJRT_Executable_Name, PJRT_Executable_NumReplicas,
  PJRT_Executable_NumPartitions, PJRT_Executable_NumOutputs,
  PJRT_Executable_SizeOfGeneratedCodeInBytes, PJRT_Executable_GetCostAnalysis,
  PJRT_Executable_OutputMemoryKinds, PJRT_Executable_OptimizedProgram, PJRT_Executable_Serialize,
  PJRT_LoadedExecutable_Destroy, PJRT_LoadedExecutable_GetExecutable,
  PJRT_LoadedExecutable_AddressableDevices, PJRT_LoadedExecutable_Delete,
  PJRT_LoadedExecutable_IsDeleted, PJRT_LoadedExecutable_Execute,
  PJRT_Executable_DeserializeAndLoad, PJRT_LoadedExecutable_Fingerprint, PJRT_Buffer_Destroy,
  PJRT_Buffer_ElementType, PJRT_Buffer_Dimensions, PJRT_Buffer_UnpaddedDimensions,
  PJRT_Buffer_DynamicDimensionIndices, PJRT_Buffer_GetMemoryLayout,
  PJRT_Buffer_OnDeviceSizeInBytes, PJRT_Buffer_Device, PJRT_Buffer_Memory, PJRT_Buffer_Delete,
  PJRT_Buffer_IsDeleted, PJRT_Buffer_CopyToDevice, PJRT_Buffer_ToHostBuffer, PJRT_Buffer_IsOnCpu,
  PJRT_Buffer_ReadyEvent, PJRT_Buffer_UnsafePointer, PJRT_Buffer_IncreaseExternalReferenceCount,
  PJRT_Buffer_DecreaseExternalReferenceCount, PJRT_Buffer_OpaqueDeviceMemoryDataPointer,
  PJRT_CopyToDeviceStream_Destroy, PJRT_CopyToDeviceStream_AddChunk,
  PJRT_CopyToDeviceStream_TotalBytes, PJRT_CopyToDeviceStream_GranuleSize,
  PJRT_CopyToDeviceStream_CurrentBytes, PJRT_TopologyDescription_Create,
  PJRT_TopologyDescription_Destroy, PJRT_TopologyDescription_PlatformName,
  PJRT_TopologyDescription_PlatformVersion, PJRT_TopologyDescription_GetDeviceDescriptions,
  PJRT_TopologyDescription_Serialize, PJRT_TopologyDescription_Attributes, PJRT_Compile,
  PJRT_Executable_OutputElementTypes, PJRT_Executable_OutputDimensions, PJRT_Buffer_CopyToMemory,
  PJRT_Client_CreateViewOfDeviceBuffer, PJRT_Executable_Fingerprint,
  PJRT_Client_TopologyDescription, PJRT_Executable_GetCompiledMemoryStats, PJRT_Memory_Kind_Id,
  PJRT_ExecuteContext_Create, PJRT_ExecuteContext_Destroy, PJRT_Buffer_CopyRawToHost,
  PJRT_AsyncHostToDeviceTransferManager_Destroy,
  PJRT_AsyncHostToDeviceTransferManager_TransferData,
  PJRT_Client_CreateBuffersForAsyncHostToDevice,
  PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer,
  PJRT_AsyncHostToDeviceTransferManager_Device, PJRT_AsyncHostToDeviceTransferManager_BufferCount,
  PJRT_AsyncHostToDeviceTransferManager_BufferSize,
  PJRT_AsyncHostToDeviceTransferManager_SetBufferError,
  PJRT_AsyncHostToDeviceTransferManager_AddMetadata, PJRT_Client_DmaMap, PJRT_Client_DmaUnmap,
  PJRT_Client_CreateUninitializedBuffer, PJRT_Client_UpdateGlobalProcessInfo,
  PJRT_TopologyDescription_Deserialize, PJRT_Client_CreateAliasBuffer,
  PJRT_Client_FulfillAliasBuffer, PJRT_LoadedExecutable_GetDeviceAssignment,
  PJRT_Client_CreateErrorBuffer, PJRT_AsyncHostToDeviceTransferManager_TransferLiteral,
  PJRT_Buffer_CopyRawToHostFuture, PJRT_Device_PoisonExecution,
  PJRT_Device_CreateAsyncTrackingEvent, PJRT_AsyncTrackingEvent_Destroy,
  PJRT_Executable_GetCompileOptions, PJRT_Buffer_DonateWithControlDependency, PJRT_Event_Create,
  PJRT_Event_Set, PJRT_Device_GetAttributes, PJRT_Client_Load,
  PJRT_LoadedExecutable_AddressableDeviceLogicalIds, PJRT_Buffer_Bitcast,
  PJRT_Error_ForEachPayload, PJRT_TopologyDescription_Fingerprint,
  PJRT_Executable_ParameterMemoryKinds, PJRT_Device_ClearMemoryStats,
  PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace,
  PJRT_TopologyDescription_GetMemorySpaceKindIds
struct PJRT_Api_Version: ..., int major_version, int minor_version
struct PJRT_Buffer_CopyRawToHost_Args: ..., PJRT_Buffer* buffer, void* dst, int64_t offset,
  int64_t transfer_size, PJRT_Event* event
struct PJRT_Buffer_CopyToDevice_Args: ..., PJRT_Buffer* buffer, PJRT_Device* dst_device,
  PJRT_Buffer* dst_buffer
struct PJRT_Buffer_CopyToMemory_Args: ..., PJRT_Buffer* buffer, PJRT_Memory* dst_memory,
  PJRT_Buffer* dst_buffer
struct PJRT_Buffer_DecreaseExternalReferenceCount_Args: ..., PJRT_Buffer* buffer
struct PJRT_Buffer_Delete_Args: ..., PJRT_Buffer* buffer
struct PJRT_Buffer_Destroy_Args: ..., PJRT_Buffer* buffer
struct PJRT_Buffer_Device_Args: ..., PJRT_Buffer* buffer, PJRT_Device* device
struct PJRT_Buffer_Dimensions_Args: ..., PJRT_Buffer* buffer, int64_t* dims, size_t num_dims
struct PJRT_Buffer_DynamicDimensionIndices_Args: ..., PJRT_Buffer* buffer, size_t*
  dynamic_dim_indices, size_t num_dynamic_dims
struct PJRT_Buffer_ElementType_Args: ..., PJRT_Buffer* buffer, int type
struct PJRT_Buffer_GetMemoryLayout_Args: ..., PJRT_Buffer* buffer, PJRT_Buffer_MemoryLayout layout
struct PJRT_Buffer_IncreaseExternalReferenceCount_Args: ..., PJRT_Buffer* buffer
struct PJRT_Buffer_IsDeleted_Args: ..., PJRT_Buffer* buffer, bool is_deleted
struct PJRT_Buffer_IsOnCpu_Args: ..., PJRT_Buffer* buffer, bool is_on_cpu
struct PJRT_Buffer_MemoryLayout: ..., PJRT_Buffer_MemoryLayout_Tiled tiled, int type
struct PJRT_Buffer_MemoryLayout_Tiled: ..., int64_t* minor_to_major, size_t minor_to_major_size,
  int64_t* tile_dims, size_t* tile_dim_sizes, size_t num_tiles
struct PJRT_Buffer_Memory_Args: ..., PJRT_Buffer* buffer, PJRT_Memory* memory
struct PJRT_Buffer_OnDeviceSizeInBytes_Args: ..., PJRT_Buffer* buffer, size_t
  on_device_size_in_bytes
struct PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args: ..., PJRT_Buffer* buffer, void*
  device_memory_ptr
struct PJRT_Buffer_ReadyEvent_Args: ..., PJRT_Buffer* buffer, PJRT_Event* event
struct PJRT_Buffer_ToHostBuffer_Args: ..., PJRT_Buffer* src, PJRT_Buffer_MemoryLayout*
  host_layout, void* dst, size_t dst_size, PJRT_Event* event
struct PJRT_Buffer_UnpaddedDimensions_Args: ..., PJRT_Buffer* buffer, int64_t* unpadded_dims,
  size_t num_dims
struct PJRT_Buffer_UnsafePointer_Args: ..., PJRT_Buffer* buffer, uintptr_t buffer_pointer
struct PJRT_Client_AddressableDevices_Args: ..., PJRT_Client* client, PJRT_Device**
  addressable_devices, size_t num_addressable_devices
struct PJRT_Client_AddressableMemories_Args: ..., PJRT_Client* client, PJRT_Memory**
  addressable_memories, size_t num_addressable_memories
struct PJRT_Client_BufferFromHostBuffer_Args: ..., PJRT_Client* client, void* data, int type,
  int64_t* dims, size_t num_dims, int64_t* byte_strides, size_t num_byte_strides, int
  host_buffer_semantics, PJRT_Device* device, PJRT_Memory* memory, PJRT_Buffer_MemoryLayout*
  device_layout, PJRT_Event* done_with_host_buffer, PJRT_Buffer* buffer
struct PJRT_Client_Compile_Args: ..., PJRT_Client* client, PJRT_Program* program, char*
  compile_options, size_t compile_options_size, PJRT_LoadedExecutable* executable
struct PJRT_Client_CreateUninitializedBuffer_Args: ..., PJRT_Client* client, int64_t* shape_dims,
  size_t shape_num_dims, int shape_element_type, PJRT_Buffer_MemoryLayout* shape_layout,
  PJRT_Device* device, PJRT_Memory* memory, PJRT_Buffer* buffer
struct PJRT_Client_CreateViewOfDeviceBuffer_Args: ..., PJRT_Client* client, void*
  device_buffer_ptr, int64_t* dims, size_t num_dims, int element_type, PJRT_Buffer_MemoryLayout*
  layout, PJRT_Device* device, on_delete_callback, void* on_delete_callback_arg, intptr_t stream,
  PJRT_Buffer* buffer, PJRT_Memory* memory
struct PJRT_Client_Create_Args: ..., PJRT_NamedValue* create_options, size_t num_options, void*
  kv_get_callback, void* kv_get_user_arg, void* kv_put_callback, void* kv_put_user_arg,
  PJRT_Client* client, void* kv_try_get_callback, void* kv_try_get_user_arg
struct PJRT_Client_DefaultDeviceAssignment_Args: ..., PJRT_Client* client, int num_replicas, int
  num_partitions, size_t default_assignment_size, int* default_assignment
struct PJRT_Client_Destroy_Args: ..., PJRT_Client* client
struct PJRT_Client_Devices_Args: ..., PJRT_Client* client, PJRT_Device** devices, size_t
  num_devices
struct PJRT_Client_LookupAddressableDevice_Args: ..., PJRT_Client* client, int local_hardware_id,
  PJRT_Device* addressable_device
struct PJRT_Client_LookupDevice_Args: ..., PJRT_Client* client, int id, PJRT_Device* device
struct PJRT_Client_PlatformName_Args: ..., PJRT_Client* client, char* platform_name, size_t
  platform_name_size
struct PJRT_Client_PlatformVersion_Args: ..., PJRT_Client* client, char* platform_version, size_t
  platform_version_size
struct PJRT_Client_ProcessIndex_Args: ..., PJRT_Client* client, int process_index
struct PJRT_Client_TopologyDescription_Args: ..., PJRT_Client* client, PJRT_TopologyDescription*
  topology
struct PJRT_DeviceDescription_Attributes_Args: ..., PJRT_DeviceDescription* device_description,
  size_t num_attributes, PJRT_NamedValue* attributes
struct PJRT_DeviceDescription_DebugString_Args: ..., PJRT_DeviceDescription* device_description,
  char* debug_string, size_t debug_string_size
struct PJRT_DeviceDescription_Id_Args: ..., PJRT_DeviceDescription* device_description, int id
struct PJRT_DeviceDescription_Kind_Args: ..., PJRT_DeviceDescription* device_description, char*
  device_kind, size_t device_kind_size
struct PJRT_DeviceDescription_ProcessIndex_Args: ..., PJRT_DeviceDescription* device_description,
  int process_index
struct PJRT_DeviceDescription_ToString_Args: ..., PJRT_DeviceDescription* device_description,
  char* to_string, size_t to_string_size
struct PJRT_Device_AddressableMemories_Args: ..., PJRT_Device* device, PJRT_Memory** memories,
  size_t num_memories
struct PJRT_Device_DefaultMemory_Args: ..., PJRT_Device* device, PJRT_Memory* memory
struct PJRT_Device_GetDescription_Args: ..., PJRT_Device* device, PJRT_DeviceDescription*
  device_description
struct PJRT_Device_IsAddressable_Args: ..., PJRT_Device* device, bool is_addressable
struct PJRT_Device_LocalHardwareId_Args: ..., PJRT_Device* device, int local_hardware_id
struct PJRT_Device_MemoryStats_Args: ..., PJRT_Device* device, int64_t bytes_in_use, int64_t
  peak_bytes_in_use, bool peak_bytes_in_use_is_set, int64_t num_allocs, bool num_allocs_is_set,
  int64_t largest_alloc_size, bool largest_alloc_size_is_set, int64_t bytes_limit, bool
  bytes_limit_is_set, int64_t bytes_reserved, bool bytes_reserved_is_set, int64_t
  peak_bytes_reserved, bool peak_bytes_reserved_is_set, int64_t bytes_reservable_limit, bool
  bytes_reservable_limit_is_set, int64_t largest_free_block_bytes, bool
  largest_free_block_bytes_is_set, int64_t pool_bytes, bool pool_bytes_is_set, int64_t
  peak_pool_bytes, bool peak_pool_bytes_is_set, int64_t peak_allocated_bytes, bool
  peak_allocated_bytes_is_set
struct PJRT_Error: PJRT_Error_FunctionTable* vtable
struct PJRT_Error_Destroy_Args: ..., PJRT_Error* error
struct PJRT_Error_FunctionTable: size_t struct_size, size_t instance_size, PJRT_Extension_Base*
  extension_start, destroy, message, get_code, for_each_payload
struct PJRT_Error_GetCode_Args: ..., PJRT_Error* error, int code
struct PJRT_Error_Message_Args: ..., PJRT_Error* error, char* message, size_t message_size
struct PJRT_Event_Await_Args: ..., PJRT_Event* event
struct PJRT_Event_Create_Args: ..., PJRT_Event* event
struct PJRT_Event_Destroy_Args: ..., PJRT_Event* event
struct PJRT_Event_Error_Args: ..., PJRT_Event* event
struct PJRT_Event_IsReady_Args: ..., PJRT_Event* event, bool is_ready
struct PJRT_Event_OnReady_Args: ..., PJRT_Event* event, void* callback, void* user_arg
struct PJRT_Event_Set_Args: ..., PJRT_Event* event, int error_code, char* error_message, size_t
  error_message_size
struct PJRT_Executable_DeserializeAndLoad_Args: ..., PJRT_Client* client, char*
  serialized_executable, size_t serialized_executable_size, PJRT_LoadedExecutable*
  loaded_executable, char* overridden_serialized_compile_options, size_t
  overridden_serialized_compile_options_size, PJRT_LoadOptions* load_options
struct PJRT_Executable_Destroy_Args: ..., PJRT_Executable* executable
struct PJRT_Executable_Fingerprint_Args: ..., PJRT_Executable* executable, char*
  executable_fingerprint, size_t executable_fingerprint_size
struct PJRT_Executable_GetCompileOptions_Args: ..., PJRT_Executable* executable, char*
  serialized_bytes, size_t serialized_bytes_size, PJRT_SerializedCompileOptions*
  serialized_compile_options, serialized_compile_options_deleter
struct PJRT_Executable_GetCompiledMemoryStats_Args: ..., PJRT_Executable* executable, int64_t
  generated_code_size_in_bytes, int64_t argument_size_in_bytes, int64_t output_size_in_bytes,
  int64_t alias_size_in_bytes, int64_t temp_size_in_bytes, int64_t
  host_generated_code_size_in_bytes, int64_t host_argument_size_in_bytes, int64_t
  host_output_size_in_bytes, int64_t host_alias_size_in_bytes, int64_t host_temp_size_in_bytes,
  int64_t peak_memory_in_bytes, int64_t total_size_in_bytes, int64_t total_allocation_bytes,
  int64_t indefinite_allocations, int64_t peak_unpadded_heap_bytes
struct PJRT_Executable_GetCostAnalysis_Args: ..., PJRT_Executable* executable, size_t
  num_properties, PJRT_NamedValue* properties
struct PJRT_Executable_Name_Args: ..., PJRT_Executable* executable, char* executable_name, size_t
  executable_name_size
struct PJRT_Executable_NumOutputs_Args: ..., PJRT_Executable* executable, size_t num_outputs
struct PJRT_Executable_NumPartitions_Args: ..., PJRT_Executable* executable, size_t num_partitions
struct PJRT_Executable_NumReplicas_Args: ..., PJRT_Executable* executable, size_t num_replicas
struct PJRT_Executable_OptimizedProgram_Args: ..., PJRT_Executable* executable, PJRT_Program*
  program
struct PJRT_Executable_OutputDimensions_Args: ..., PJRT_Executable* executable, size_t
  num_outputs, int64_t* dims, size_t* dim_sizes
struct PJRT_Executable_OutputElementTypes_Args: ..., PJRT_Executable* executable,
  PJRT_Buffer_Type* output_types, size_t num_output_types
struct PJRT_Executable_OutputMemoryKinds_Args: ..., PJRT_Executable* executable, size_t
  num_outputs, char** memory_kinds, size_t* memory_kind_sizes
struct PJRT_Executable_Serialize_Args: ..., PJRT_Executable* executable, char* serialized_bytes,
  size_t serialized_bytes_size, PJRT_SerializedExecutable* serialized_executable,
  serialized_executable_deleter
struct PJRT_Executable_SizeOfGeneratedCodeInBytes_Args: ..., PJRT_Executable* executable, int64_t
  size_in_bytes
struct PJRT_ExecuteContext_Create_Args: ..., PJRT_ExecuteContext* context
struct PJRT_ExecuteContext_Destroy_Args: ..., PJRT_ExecuteContext* context
struct PJRT_ExecuteOptions: ..., PJRT_SendCallbackInfo** send_callbacks, PJRT_RecvCallbackInfo**
  recv_callbacks, size_t num_send_ops, size_t num_recv_ops, int launch_id, int64_t*
  non_donatable_input_indices, size_t num_non_donatable_input_indices, PJRT_ExecuteContext*
  context, char* call_location, size_t num_tasks, int* task_ids, int64_t* incarnation_ids,
  PJRT_MultiSlice_Config* multi_slice_config, bool use_major_to_minor_data_layout_for_callbacks,
  PJRT_HloOutputCallbackInfo* hlo_output_callbacks, size_t num_hlo_output_callbacks
struct PJRT_Extension_Base: size_t struct_size, int type, PJRT_Extension_Base* next
struct PJRT_FFI_Extension: PJRT_Extension_Base base, PJRT_FFI_Type_Register* type_register,
  PJRT_FFI_UserData_Add* user_data_add, PJRT_FFI_Register_Handler* register_handler
struct PJRT_FFI_Register_Handler_Args: size_t struct_size, char* target_name, size_t
  target_name_size, void* handler, char* platform_name, size_t platform_name_size, int traits
struct PJRT_FFI_Type_Info: deleter, serialize, deserialize
struct PJRT_FFI_Type_Register_Args: ..., char* type_name, size_t type_name_size, int64_t type_id,
  PJRT_FFI_Type_Info* type_info
struct PJRT_FFI_UserData: int64_t type_id, void* data
struct PJRT_FFI_UserData_Add_Args: ..., PJRT_ExecuteContext* context, PJRT_FFI_UserData user_data
struct PJRT_HloOutputCallbackInfo: void* user_arg, void* callback, int64_t callback_id, size_t
  num_operands
struct PJRT_Layouts_Extension: PJRT_Extension_Base base, PJRT_Layouts_MemoryLayout_Destroy*
  PJRT_Layouts_MemoryLayout_Destroy, PJRT_Layouts_MemoryLayout_Serialize*
  PJRT_Layouts_MemoryLayout_Serialize, PJRT_Layouts_PJRT_Client_GetDefaultLayout*
  PJRT_Layouts_PJRT_Client_GetDefaultLayout, PJRT_Layouts_PJRT_Buffer_MemoryLayout*
  PJRT_Layouts_PJRT_Buffer_MemoryLayout, PJRT_Layouts_PJRT_Topology_GetDefaultLayout*
  PJRT_Layouts_PJRT_Topology_GetDefaultLayout, PJRT_Layouts_PJRT_Executable_GetOutputLayouts*
  PJRT_Layouts_PJRT_Executable_GetOutputLayouts, PJRT_Layouts_PJRT_Executable_GetParameterLayouts*
  PJRT_Layouts_PJRT_Executable_GetParameterLayouts
struct PJRT_Layouts_MemoryLayout_Destroy_Args: ..., PJRT_Layouts_MemoryLayout* layout
struct PJRT_Layouts_MemoryLayout_Serialize_Args: ..., PJRT_Layouts_MemoryLayout* layout, char*
  serialized_bytes, size_t serialized_bytes_size, PJRT_Layouts_SerializedLayout*
  serialized_layout, serialized_layout_deleter
struct PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args: ..., PJRT_Buffer* buffer,
  PJRT_Layouts_MemoryLayout* layout
struct PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args: ..., PJRT_Client* client, int type,
  int64_t* dims, size_t num_dims, PJRT_Layouts_MemoryLayout* layout
struct PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args: ..., PJRT_Executable* executable,
  size_t num_outputs, PJRT_Layouts_MemoryLayout** layouts
struct PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args: ..., PJRT_Executable* executable,
  size_t num_parameters, PJRT_Layouts_MemoryLayout** layouts
struct PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args: ..., PJRT_TopologyDescription*
  topology_description, int type, int64_t* dims, size_t num_dims, PJRT_Layouts_MemoryLayout*
  layout
struct PJRT_LoadOptions: size_t struct_size, int32_t* computation_origin, size_t
  computation_origin_size, PJRT_MultiSlice_Config* multi_slice_config
struct PJRT_LoadedExecutable_AddressableDevices_Args: ..., PJRT_LoadedExecutable* executable,
  PJRT_Device** addressable_devices, size_t num_addressable_devices
struct PJRT_LoadedExecutable_Delete_Args: ..., PJRT_LoadedExecutable* executable
struct PJRT_LoadedExecutable_Destroy_Args: ..., PJRT_LoadedExecutable* executable
struct PJRT_LoadedExecutable_Execute_Args: ..., PJRT_LoadedExecutable* executable,
  PJRT_ExecuteOptions* options, PJRT_Buffer*** argument_lists, size_t num_devices, size_t
  num_args, PJRT_Buffer*** output_lists, PJRT_Event** device_complete_events, PJRT_Device*
  execute_device
struct PJRT_LoadedExecutable_Fingerprint_Args: ..., PJRT_LoadedExecutable* executable, char*
  executable_fingerprint, size_t executable_fingerprint_size
struct PJRT_LoadedExecutable_GetDeviceAssignment_Args: ..., PJRT_LoadedExecutable* executable,
  char* serialized_bytes, size_t serialized_bytes_size, PJRT_DeviceAssignmentSerialized*
  serialized_device_assignment, serialized_device_assignment_deleter
struct PJRT_LoadedExecutable_GetExecutable_Args: ..., PJRT_LoadedExecutable* loaded_executable,
  PJRT_Executable* executable
struct PJRT_LoadedExecutable_IsDeleted_Args: ..., PJRT_LoadedExecutable* executable, bool
  is_deleted
struct PJRT_Memory: PJRT_Memory_FunctionTable* vtable
struct PJRT_Memory_AddressableByDevices_Args: ..., PJRT_Memory* memory, PJRT_Device** devices,
  size_t num_devices
struct PJRT_Memory_DebugString_Args: ..., PJRT_Memory* memory, char* debug_string, size_t
  debug_string_size
struct PJRT_Memory_FunctionTable: ..., size_t instance_struct_size, get_user_data, set_user_data
struct PJRT_Memory_Id_Args: ..., PJRT_Memory* memory, int id
struct PJRT_Memory_Kind_Args: ..., PJRT_Memory* memory, char* kind, size_t kind_size
struct PJRT_Memory_Kind_Id_Args: ..., PJRT_Memory* memory, int kind_id
struct PJRT_Memory_ToString_Args: ..., PJRT_Memory* memory, char* to_string, size_t to_string_size
struct PJRT_NamedValue: ..., char* name, size_t name_size, int type, char* string_value, size_t
  value_size
struct PJRT_Plugin_Attributes_Args: ..., PJRT_NamedValue* attributes, size_t num_attributes
struct PJRT_Plugin_Initialize_Args: ...
struct PJRT_Program: ..., char* code, size_t code_size, char* format, size_t format_size
struct PJRT_RecvCallbackInfo: int64_t channel_id, void* user_arg, void* recv_callback
struct PJRT_SendCallbackInfo: int64_t channel_id, void* user_arg, void* send_callback
struct PJRT_TopologyDescription_Attributes_Args: ..., PJRT_TopologyDescription* topology,
  PJRT_NamedValue* attributes, size_t num_attributes
struct PJRT_TopologyDescription_Destroy_Args: ..., PJRT_TopologyDescription* topology
struct PJRT_TopologyDescription_GetDeviceDescriptions_Args: ..., PJRT_TopologyDescription*
  topology, PJRT_DeviceDescription** descriptions, size_t num_descriptions
struct PJRT_TopologyDescription_PlatformName_Args: ..., PJRT_TopologyDescription* topology, char*
  platform_name, size_t platform_name_size
struct PJRT_TopologyDescription_PlatformVersion_Args: ..., PJRT_TopologyDescription* topology,
  char* platform_version, size_t platform_version_size
"""
