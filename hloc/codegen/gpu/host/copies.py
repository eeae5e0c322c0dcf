"""Asynchronous copies, executed as late as possible: when their thread waits for them.

A kernel that reads the data too early, or waits for too few groups, therefore computes with the old
contents.
"""

from __future__ import annotations

from hloc.codegen.gpu.host.scheduler import MOST_THREADS, TOO_MANY_COPIES

_MOST_COPIES = 128
"""Copies of one thread that may be on their way: a warp that fills 48 KB has 96."""

COPY_DECLARATIONS = (
    "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
    "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
)

COPIES = f"""
%host.copy = type {{ptr, ptr, i64, i32}}
%host.queue = type [{_MOST_COPIES} x %host.copy]
@host.copies = internal global [{MOST_THREADS} x %host.queue] zeroinitializer
@host.first.copy = internal global [{MOST_THREADS} x i32] zeroinitializer
@host.next.copy = internal global [{MOST_THREADS} x i32] zeroinitializer
@host.groups = internal global [{MOST_THREADS} x i32] zeroinitializer

define internal void @host.forget.copies(i32 %thread) alwaysinline {{
  %a = getelementptr i32, ptr @host.first.copy, i32 %thread
  store i32 0, ptr %a
  %b = getelementptr i32, ptr @host.next.copy, i32 %thread
  store i32 0, ptr %b
  %c = getelementptr i32, ptr @host.groups, i32 %thread
  store i32 0, ptr %c
  ret void
}}

define internal ptr @host.entry(i32 %thread, i32 %number) alwaysinline {{
  %place = urem i32 %number, {_MOST_COPIES}
  %queue = getelementptr %host.queue, ptr @host.copies, i32 %thread
  %entry = getelementptr %host.copy, ptr %queue, i32 %place
  ret ptr %entry
}}

define internal void @host.copy(i32 %thread, ptr %target, ptr %source, i64 %bytes) noinline {{
  %first.place = getelementptr i32, ptr @host.first.copy, i32 %thread
  %first = load i32, ptr %first.place
  %next.place = getelementptr i32, ptr @host.next.copy, i32 %thread
  %next = load i32, ptr %next.place
  %pending = sub i32 %next, %first
  %fits = icmp ult i32 %pending, {_MOST_COPIES}
  br i1 %fits, label %good, label %bad
good:
  %entry = call ptr @host.entry(i32 %thread, i32 %next)
  store ptr %target, ptr %entry
  %b = getelementptr %host.copy, ptr %entry, i32 0, i32 1
  store ptr %source, ptr %b
  %c = getelementptr %host.copy, ptr %entry, i32 0, i32 2
  store i64 %bytes, ptr %c
  %group.place = getelementptr i32, ptr @host.groups, i32 %thread
  %group = load i32, ptr %group.place
  %d = getelementptr %host.copy, ptr %entry, i32 0, i32 3
  store i32 %group, ptr %d
  %after = add i32 %next, 1
  store i32 %after, ptr %next.place
  ret void
bad:
  store i32 {TOO_MANY_COPIES}, ptr @host.fault
  ret void
}}

define internal void @host.commit(i32 %thread) alwaysinline {{
  %place = getelementptr i32, ptr @host.groups, i32 %thread
  %group = load i32, ptr %place
  %next = add i32 %group, 1
  store i32 %next, ptr %place
  ret void
}}

define internal void @host.wait(i32 %thread, i32 %left) noinline {{
entry:
  %group.place = getelementptr i32, ptr @host.groups, i32 %thread
  %groups = load i32, ptr %group.place
  %limit = sub i32 %groups, %left
  %first.place = getelementptr i32, ptr @host.first.copy, i32 %thread
  %next.place = getelementptr i32, ptr @host.next.copy, i32 %thread
  %next = load i32, ptr %next.place
  br label %look
look:
  %first = load i32, ptr %first.place
  %any = icmp ne i32 %first, %next
  br i1 %any, label %check, label %end
check:
  %entry.place = call ptr @host.entry(i32 %thread, i32 %first)
  %d = getelementptr %host.copy, ptr %entry.place, i32 0, i32 3
  %group = load i32, ptr %d
  %due = icmp slt i32 %group, %limit
  br i1 %due, label %copy, label %end
copy:
  %target = load ptr, ptr %entry.place
  %b = getelementptr %host.copy, ptr %entry.place, i32 0, i32 1
  %source = load ptr, ptr %b
  %c = getelementptr %host.copy, ptr %entry.place, i32 0, i32 2
  %bytes = load i64, ptr %c
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %bytes, i1 false)
  %rest = getelementptr i8, ptr %target, i64 %bytes
  %zeros = sub i64 16, %bytes
  call void @llvm.memset.p0.i64(ptr %rest, i8 0, i64 %zeros, i1 false)
  %after = add i32 %first, 1
  store i32 %after, ptr %first.place
  br label %look
end:
  ret void
}}
"""
