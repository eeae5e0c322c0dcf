"""The structures behind the handles of the C API; a handle is the address of one.

Machine code (`machine/`) and Python use the same structures. Python creates devices, memories and
executables, which live as long as the process or their `Program`; either creates buffers, events
and errors with `malloc`.

- `Storage` is reference-counted memory of buffers and runs. Memory of hloc's own follows its
  header; foreign memory has a function to call at the end, or an event to complete. `writers` are
  the references of queued runs that write it.
- `PJRT_Buffer`: `event` is null for a buffer that was ready when it was created. The dimensions
  follow the structure. `mark` is the number of the last run that took it.
- `PJRT_Layouts_MemoryLayout`: equal layouts are one object, which is never freed.
- `PJRT_Event`: `state` is 0 until it is complete; `code` other than 0 is an error.
- `PJRT_Executable` is the `PJRT_LoadedExecutable`, too. If `python` is not 0, Python handles runs.
- `Run` is one asynchronous execution in the worker's queue, with all references that it holds.
"""

from __future__ import annotations

OBJECTS = """\
struct Storage: int64_t refs, void* data, int64_t bytes, void* release, void* release_arg,
  PJRT_Event* done, int64_t writers, int64_t pad
struct PJRT_Buffer: Storage* storage, void* data, int type, int deleted, int64_t bytes,
  size_t rank, int64_t* dims, PJRT_Device* device, PJRT_Memory* memory, PJRT_Event* event,
  int64_t mark, int64_t holds,
  PJRT_Layouts_MemoryLayout* layout
struct PJRT_Event: int64_t refs, int64_t state, int64_t code, char* message, size_t message_size,
  Waiter* waiters
struct Waiter: Waiter* next, void* callback, void* user_arg
struct PJRT_Error: void* vtable, int64_t code, char* message, size_t message_size
struct PJRT_Memory: void* vtable, int64_t id, int64_t kind_id, char* kind, size_t kind_size,
  char* text, size_t text_size, PJRT_Device* device
struct PJRT_DeviceDescription: int64_t id, char* kind, size_t kind_size, char* text,
  size_t text_size
struct PJRT_Device: PJRT_DeviceDescription* description, PJRT_Memory** memories,
  size_t num_memories, PJRT_Client* client
struct PJRT_TopologyDescription: PJRT_DeviceDescription** descriptions, size_t num_descriptions
struct PJRT_Client: PJRT_Device** devices, size_t num_devices, PJRT_Memory** memories,
  size_t num_memories, PJRT_TopologyDescription* topology
struct PJRT_Executable: int64_t refs, int64_t id, void* entry, int64_t python, int64_t deleted,
  int64_t slots, int64_t* template, int64_t arena_bytes, void* arena, size_t num_parameters,
  Parameter* parameters, size_t num_outputs, Output* outputs, size_t num_aliases, Alias* aliases,
  PJRT_Device** devices, size_t num_devices, size_t num_replicas, size_t num_partitions,
  char* name, size_t name_size, void* team_run, int64_t team_workers, int64_t scratch_offset,
  int64_t asynchronous
struct Parameter: int64_t slot, int64_t bytes, PJRT_Layouts_MemoryLayout* layout
struct Output: int64_t slot, int64_t bytes, int64_t type, size_t rank, int64_t* dims,
  int64_t memory, PJRT_Layouts_MemoryLayout* layout
struct Alias: int64_t parameter, int64_t output, int64_t shared, int64_t copied
struct Threads: void* run, void* context, int workers, void* scratch
struct PJRT_ExecuteContext: int64_t type_id, void* data
struct PJRT_Layouts_MemoryLayout: char* text, size_t text_size, int64_t* minor_to_major,
  size_t rank
struct PJRT_Layouts_SerializedLayout: char* text
struct Run: Run* next, PJRT_Executable* executable, int64_t* table, void* arena,
  PJRT_Event* event, size_t num_inputs, Storage** inputs, PJRT_Event** events, size_t num_outputs,
  Storage** outputs
struct State: int64_t closed, int64_t forked, int stop, void* handler, int64_t clock, int64_t runs,
  int64_t bytes_in_use, int64_t peak_bytes, int64_t largest_bytes, int64_t allocations,
  int64_t* kept, int64_t next_kept, int64_t huge_page_bytes, int64_t huge_page_advice,
  void** fallbacks, void* retire,
  PJRT_Layouts_MemoryLayout* layouts, int64_t* element_bytes, PJRT_Event ready,
  Run* first_run, Run* last_run, int64_t running, int64_t ending,
  int64_t mutex0, int64_t mutex1, int64_t mutex2, int64_t mutex3, int64_t mutex4, int64_t mutex5,
  int64_t mutex6, int64_t mutex7, int64_t mutex8, int64_t mutex9,
  int64_t wake0, int64_t wake1, int64_t wake2, int64_t wake3, int64_t wake4, int64_t wake5,
  int64_t wake6, int64_t wake7, int64_t changed0, int64_t changed1, int64_t changed2,
  int64_t changed3, int64_t changed4, int64_t changed5, int64_t changed6, int64_t changed7
"""
