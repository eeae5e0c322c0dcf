"""LLVM text that runs the threads of a launch one after another, on one thread of the host.

A thread runs until it ends or waits for others. The lanes of a warp resume when all of them wait at
the same call; the threads of a block when all wait at a barrier. A thread passes values to its warp
through two slots in turn, so that a fast lane does not overwrite what a slow one has yet to read.
Blocks, warps and lanes run in order, or all in reverse: code without races computes the same bits
either way.
"""

from __future__ import annotations

from hloc.codegen.gpu.helpers import WARP_THREADS

RUN = "host_run"
"""Name of the function that runs a launch."""

LAUNCH_WORDS = 12
"""Words of 64 bits that describe a launch: kernel, arguments, frames, bytes of a frame, blocks
along x, y and z, threads, whether in reverse; then come those of the report."""

REPORT = 9
"""First word of the report: bytes that a frame needs, the place in the text, the block."""

WAITS_FOR_WARP, WAITS_FOR_BLOCK, ENDED = 1, 2, 3
"""States of a thread that does not run."""

FRAMES_TOO_SMALL, WARP_PARTED, BLOCK_PARTED, TOO_MANY_COPIES = 1, 2, 3, 4
"""What `RUN` returns if not all went well."""

MOST_THREADS = 1024
_ABSENT = 0xFFFFFFFF
"""What a lane that does not exist holds: not a number, in any type of float."""

DECLARATIONS = (
    "declare token @llvm.coro.id(i32, ptr, ptr, ptr)",
    "declare i64 @llvm.coro.size.i64()",
    "declare ptr @llvm.coro.begin(token, ptr)",
    "declare i8 @llvm.coro.suspend(token, i1)",
    "declare void @llvm.coro.end(ptr, i1, token)",
    "declare void @llvm.coro.resume(ptr)",
    "declare i32 @llvm.umin.i32(i32, i32)",
)

SCHEDULER = f"""
%host.slots = type [{MOST_THREADS} x [8 x i32]]
@host.launch = internal global ptr null
@host.state = internal global [{MOST_THREADS} x i8] zeroinitializer
@host.site = internal global [{MOST_THREADS} x i32] zeroinitializer
@host.handle = internal global [{MOST_THREADS} x ptr] zeroinitializer
@host.turn = internal global [{MOST_THREADS} x i32] zeroinitializer
@host.slots = internal global [2 x %host.slots] zeroinitializer, align 64
@host.block.x = internal global i32 0
@host.block.y = internal global i32 0
@host.block.z = internal global i32 0
@host.fault = internal global i32 0
define internal i64 @host.word(i32 %number) alwaysinline {{
  %launch = load ptr, ptr @host.launch
  %place = getelementptr i64, ptr %launch, i32 %number
  %word = load i64, ptr %place
  ret i64 %word
}}

define internal void @host.report(i32 %number, i64 %word) alwaysinline {{
  %launch = load ptr, ptr @host.launch
  %at = add i32 %number, {REPORT}
  %place = getelementptr i64, ptr %launch, i32 %at
  store i64 %word, ptr %place
  ret void
}}

define internal i32 @host.threads() alwaysinline {{
  %word = call i64 @host.word(i32 7)
  %threads = trunc i64 %word to i32
  ret i32 %threads
}}

define internal i32 @host.ordered(i32 %number, i32 %count) alwaysinline {{
  %word = call i64 @host.word(i32 8)
  %reverse = icmp ne i64 %word, 0
  %last = sub i32 %count, 1
  %mirrored = sub i32 %last, %number
  %chosen = select i1 %reverse, i32 %mirrored, i32 %number
  ret i32 %chosen
}}

define internal ptr @host.frame(i32 %thread, i64 %size) noinline {{
  %given = call i64 @host.word(i32 3)
  %fits = icmp ule i64 %size, %given
  br i1 %fits, label %good, label %bad
good:
  %first = call i64 @host.word(i32 2)
  %number = zext i32 %thread to i64
  %offset = mul i64 %number, %given
  %address = add i64 %first, %offset
  %frame = inttoptr i64 %address to ptr
  ret ptr %frame
bad:
  call void @host.report(i32 0, i64 %size)
  store i32 {FRAMES_TOO_SMALL}, ptr @host.fault
  ret ptr null
}}

define internal void @host.stop(i32 %thread, i8 %state, i32 %site) alwaysinline {{
  %a = getelementptr i8, ptr @host.state, i32 %thread
  store i8 %state, ptr %a
  %b = getelementptr i32, ptr @host.site, i32 %thread
  store i32 %site, ptr %b
  ret void
}}

define internal ptr @host.slot(i32 %thread, i32 %owner) alwaysinline {{
  %place = getelementptr i32, ptr @host.turn, i32 %thread
  %turn = load i32, ptr %place
  %slot = getelementptr [2 x %host.slots], ptr @host.slots, i32 0, i32 %turn, i32 %owner
  ret ptr %slot
}}

define internal ptr @host.next.slot(i32 %thread) alwaysinline {{
  %place = getelementptr i32, ptr @host.turn, i32 %thread
  %turn = load i32, ptr %place
  %next = xor i32 %turn, 1
  store i32 %next, ptr %place
  %slot = call ptr @host.slot(i32 %thread, i32 %thread)
  ret ptr %slot
}}

define internal i32 @host.word.of(i32 %thread, i32 %owner, i32 %number) alwaysinline {{
  %threads = call i32 @host.threads()
  %exists = icmp ult i32 %owner, %threads
  %slot = call ptr @host.slot(i32 %thread, i32 %owner)
  %place = getelementptr i32, ptr %slot, i32 %number
  %word = load i32, ptr %place
  %found = select i1 %exists, i32 %word, i32 {_ABSENT}
  ret i32 %found
}}

define internal void @host.resume(i32 %thread) {{
  %place = getelementptr ptr, ptr @host.handle, i32 %thread
  %handle = load ptr, ptr %place
  call void @llvm.coro.resume(ptr %handle)
  ret void
}}

define internal void @host.start(i32 %thread) {{
  %kernel.word = call i64 @host.word(i32 0)
  %kernel = inttoptr i64 %kernel.word to ptr
  %arguments.word = call i64 @host.word(i32 1)
  %arguments = inttoptr i64 %arguments.word to ptr
  call void @host.forget.copies(i32 %thread)
  %d = getelementptr i32, ptr @host.turn, i32 %thread
  store i32 0, ptr %d
  %handle = call ptr %kernel(ptr %arguments, i32 %thread)
  %place = getelementptr ptr, ptr @host.handle, i32 %thread
  store ptr %handle, ptr %place
  ret void
}}

; Runs the lanes of a warp until none waits for the others.
define internal i32 @host.settle(i32 %warp) {{
entry:
  %first = mul i32 %warp, {WARP_THREADS}
  %threads = call i32 @host.threads()
  %rest = sub i32 %threads, %first
  %lanes = call i32 @llvm.umin.i32(i32 %rest, i32 {WARP_THREADS})
  %site.of.first = getelementptr i32, ptr @host.site, i32 %first
  br label %look
look:
  %wanted = load i32, ptr %site.of.first
  br label %count
count:
  %i = phi i32 [ 0, %look ], [ %i.next, %count ]
  %waiting = phi i32 [ 0, %look ], [ %waiting.next, %count ]
  %together = phi i1 [ true, %look ], [ %together.next, %count ]
  %t = add i32 %first, %i
  %state.place = getelementptr i8, ptr @host.state, i32 %t
  %state = load i8, ptr %state.place
  %waits = icmp eq i8 %state, {WAITS_FOR_WARP}
  %one = zext i1 %waits to i32
  %waiting.next = add i32 %waiting, %one
  %site.place = getelementptr i32, ptr @host.site, i32 %t
  %site = load i32, ptr %site.place
  %here = icmp eq i32 %site, %wanted
  %together.next = and i1 %together, %here
  %i.next = add i32 %i, 1
  %more = icmp ult i32 %i.next, %lanes
  br i1 %more, label %count, label %counted
counted:
  %none = icmp eq i32 %waiting.next, 0
  br i1 %none, label %good, label %check
check:
  %all = icmp eq i32 %waiting.next, %lanes
  %fine = and i1 %all, %together.next
  br i1 %fine, label %go, label %bad
go:
  %j = phi i32 [ 0, %check ], [ %j.next, %go ]
  %lane = call i32 @host.ordered(i32 %j, i32 %lanes)
  %next = add i32 %first, %lane
  call void @host.resume(i32 %next)
  %j.next = add i32 %j, 1
  %again = icmp ult i32 %j.next, %lanes
  br i1 %again, label %go, label %look
good:
  ret i32 0
bad:
  %word = zext i32 %wanted to i64
  call void @host.report(i32 1, i64 %word)
  ret i32 {WARP_PARTED}
}}

; Runs one block to its end.
define internal i32 @host.run.block() {{
entry:
  %threads = call i32 @host.threads()
  %more.threads = add i32 %threads, {WARP_THREADS - 1}
  %warps = udiv i32 %more.threads, {WARP_THREADS}
  br label %start
start:
  %s = phi i32 [ 0, %entry ], [ %s.next, %started ]
  %starting = call i32 @host.ordered(i32 %s, i32 %threads)
  call void @host.start(i32 %starting)
  %fault = load i32, ptr @host.fault
  %failed = icmp ne i32 %fault, 0
  br i1 %failed, label %bad, label %started
started:
  %s.next = add i32 %s, 1
  %starts = icmp ult i32 %s.next, %threads
  br i1 %starts, label %start, label %settle
settle:
  br label %warp
warp:
  %w = phi i32 [ 0, %settle ], [ %w.next, %settled ]
  %number = call i32 @host.ordered(i32 %w, i32 %warps)
  %parted = call i32 @host.settle(i32 %number)
  %apart = icmp ne i32 %parted, 0
  br i1 %apart, label %bad, label %settled
settled:
  %w.next = add i32 %w, 1
  %warps.left = icmp ult i32 %w.next, %warps
  br i1 %warps.left, label %warp, label %look
look:
  %i = phi i32 [ 0, %settled ], [ %i.next, %look ]
  %ended = phi i32 [ 0, %settled ], [ %ended.next, %look ]
  %together = phi i1 [ true, %settled ], [ %together.next, %look ]
  %site = phi i32 [ 0, %settled ], [ %site.next, %look ]
  %state.place = getelementptr i8, ptr @host.state, i32 %i
  %state = load i8, ptr %state.place
  %has.ended = icmp eq i8 %state, {ENDED}
  %one = zext i1 %has.ended to i32
  %ended.next = add i32 %ended, %one
  %leader = and i32 %i, {-WARP_THREADS}
  %site.place = getelementptr i32, ptr @host.site, i32 %i
  %my.site = load i32, ptr %site.place
  %leader.place = getelementptr i32, ptr @host.site, i32 %leader
  %its.site = load i32, ptr %leader.place
  %same = icmp eq i32 %my.site, %its.site
  %together.next = and i1 %together, %same
  %site.next = select i1 %has.ended, i32 %site, i32 %my.site
  %i.next = add i32 %i, 1
  %looks = icmp ult i32 %i.next, %threads
  br i1 %looks, label %look, label %looked
looked:
  %late.fault = load i32, ptr @host.fault
  %late = icmp ne i32 %late.fault, 0
  br i1 %late, label %bad, label %sound
sound:
  %all.ended = icmp eq i32 %ended.next, %threads
  br i1 %all.ended, label %good, label %check
check:
  %none.ended = icmp eq i32 %ended.next, 0
  %fine = and i1 %none.ended, %together.next
  br i1 %fine, label %go, label %lonely
go:
  %g = phi i32 [ 0, %check ], [ %g.next, %go ]
  %next = call i32 @host.ordered(i32 %g, i32 %threads)
  call void @host.resume(i32 %next)
  %g.next = add i32 %g, 1
  %goes = icmp ult i32 %g.next, %threads
  br i1 %goes, label %go, label %settle
good:
  ret i32 0
lonely:
  %word = zext i32 %site.next to i64
  call void @host.report(i32 1, i64 %word)
  ret i32 {BLOCK_PARTED}
bad:
  %what = phi i32 [ %fault, %start ], [ %parted, %warp ], [ %late.fault, %looked ]
  ret i32 %what
}}

define i32 @{RUN}(ptr %launch) {{
entry:
  store ptr %launch, ptr @host.launch
  store i32 0, ptr @host.fault
  %x64 = call i64 @host.word(i32 4)
  %y64 = call i64 @host.word(i32 5)
  %z64 = call i64 @host.word(i32 6)
  %columns = trunc i64 %x64 to i32
  %rows = trunc i64 %y64 to i32
  %layers = trunc i64 %z64 to i32
  %area = mul i32 %columns, %rows
  %blocks = mul i32 %area, %layers
  br label %block
block:
  %i = phi i32 [ 0, %entry ], [ %i.next, %ran ]
  %b = call i32 @host.ordered(i32 %i, i32 %blocks)
  %x = urem i32 %b, %columns
  %line = udiv i32 %b, %columns
  %y = urem i32 %line, %rows
  %z = udiv i32 %line, %rows
  store i32 %x, ptr @host.block.x
  store i32 %y, ptr @host.block.y
  store i32 %z, ptr @host.block.z
  %fault = call i32 @host.run.block()
  %failed = icmp ne i32 %fault, 0
  br i1 %failed, label %bad, label %ran
ran:
  %i.next = add i32 %i, 1
  %more = icmp ult i32 %i.next, %blocks
  br i1 %more, label %block, label %good
good:
  ret i32 0
bad:
  %number = zext i32 %b to i64
  call void @host.report(i32 2, i64 %number)
  ret i32 %fault
}}
"""
