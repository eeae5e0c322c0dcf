"""The structures of the local engine; Python initialises them, machine code uses them.

- `Device` is the state of a device for generated code (`codegen/plan/exchange.py`).
  `waits_at` is the number of the exchange it waits in, counted from 1, 0 while it runs, or -1.
- `World` is all devices of one run at a time. `idle` counts devices that have finished or wait for
  members that have not arrived; `stopped` is the reason why the run was stopped, a `Stop`, and
  `stops` counts attempts to stop it. The `fault_*` describe the error of an exchange.
- `Exchange`: `rendezvous_of`, `rank_of` and `combiners_of` are by device; -1 is the rendezvous of a
  device that is in no group. `source_of`, of a permute, is the rank whose data a device gets, or
  -1. Exchanges of the same `kind` may share a rendezvous.
- `Rendezvous`: where the members of a group wait for each other; exchanges with the same opcode,
  group and channel share it. `phase` is even while members arrive, odd while all are there and
  share the work, and two more than before when the work is done. `arrays` and `exchanges` are by
  rank. `next` is the next piece of work to be taken, `left` the number of pieces not done. For a
  transfer it is a mailbox: the list of messages from `first` to `last`, and whether the receiver
  is `waiting`.
- `Message`: the header of a transfer, with the exchange that sent it; the data follow.
- `Run` is one call of a program; `left` counts the devices that have not finished.
- `Worker` is a thread that runs a device; it sleeps until `called` is 1.
"""

from __future__ import annotations

from hloc.codegen.llvm.structures import Structures

STRUCTURES = Structures("""\
enum Opcode: all_reduce=0, reduce_scatter=1, all_gather=2, all_to_all=3, collective_broadcast=4,
  collective_permute=5, ragged_all_to_all=6, send=7, recv=8
enum Stop: NONE=0, DEADLOCK=1, ROWS=2, MISMATCH=3, ASKED=4, MEMORY=5
struct Device: void* exchange, uint32_t replica, uint32_t partition, World* world, int64_t number,
  int32_t* stop, int64_t waits_at, int64_t* nanoseconds
struct World: int64_t devices, Device** states, Exchange* exchange, int64_t rendezvous_count,
  Rendezvous* rendezvous,
  int64_t spins, int64_t helpers, int64_t clock, int64_t stopped, int64_t fault_exchange,
  int64_t fault_device, int64_t fault_count, int64_t fault_start, int64_t fault_target,
  int64_t pad0, int64_t pad1, int64_t stops, int64_t idle, int64_t finished
struct Pieces: int64_t outer, int64_t count, int64_t inner_bytes, int64_t element_bytes,
  int64_t is_signed
struct Exchange: int64_t opcode, int64_t operands, int64_t results, Pieces* operand, Pieces* result,
  int64_t is_tuple, int64_t* rendezvous_of, int64_t* rank_of, int64_t* source_of,
  int64_t** combiners_of, int64_t kind
struct Rendezvous: int64_t members, int64_t** arrays, int64_t* exchanges, int64_t* combiners,
  int64_t* devices,
  int64_t pieces, int64_t pad0, int64_t pad1, int64_t arrived, int64_t sleepers,
  int64_t next, int64_t left, int64_t phase, int64_t lock, Message* first, Message* last,
  int64_t waiting
struct Message: Message* next, int64_t exchange
struct Run: int64_t devices, void* entry, int64_t** tables, Device** states, int64_t left
struct Worker: Worker* next, Run* run, int64_t place, int64_t called, void* thread
struct State: int64_t lock, Worker* idle, int64_t sig_setmask
""")
