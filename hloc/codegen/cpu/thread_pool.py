"""The thread pool of a process, written in LLVM IR: a fork and join takes half a microsecond.

    void hloc_pool_run(void *context, void (*task)(void *data, int part), void *data, int count)
    void hloc_pool_forget(void)
    void hloc_pool_stop(void)

`run` calls the task for part 0 itself, while idle threads run the parts from 1 to `count - 1`. It
does not wait for threads that have not started when part 0 ends; a task must therefore distribute
its work dynamically, so that part 0 alone completes it. `data` begins with two i32: the first
counts the pieces of work that have been taken, the second is the estimated time of the work on one
thread in nanoseconds. If the pool is in use, by another thread or by a caller of this one, `run`
calls part 0 only.

To wake a thread takes the caller some microseconds, and the thread arrives later still. So threads
are woken, or created, once work worth 80 microseconds has been run without them.

A thread that is preempted in the middle of a piece keeps the caller waiting. If that takes much
longer than a piece, threads do not pay at present: `run` then calls part 0 only, for sixteen times
as long as it waited, longer each time that it happens again, at most for a second.

The word `state` holds the number of the run (32 bits), how many threads may enter (16) and how many
have entered (16). A thread enters by incrementing the last; the caller closes the run by exchanging
the word and then waits for the threads that entered. Idle threads poll the word for some
microseconds, then sleep. They are created by the first run that needs them.
"""

from __future__ import annotations

import re

from hloc.codegen.llvm.target import Target

RUN, FORGET, STOP = "hloc_pool_run", "hloc_pool_forget", "hloc_pool_stop"

MAX_THREADS = 256
"""Threads of a pool, the caller included."""

_IDLE_LOOKS = 1000
"""Polls of an idle thread before it sleeps."""

IDLE_NANOSECONDS = 40_000
"""About how long they take, on x86."""

_LOOKS_AWAKE = 750
"""Polls that an awakened thread has used up: it sleeps again sooner if it came too late."""

_JOIN_LOOKS = 4000
"""Polls of the waiting caller before it yields its core."""

WAKE_NANOSECONDS = 80_000
"""Work without sleeping threads after which they are woken: twice the time until they run."""

_LATE_NANOSECONDS = 100_000
"""Threads are late if the caller waits at least this long for them."""

_MOST_QUIET_NANOSECONDS = 1_000_000_000
_MOST_DOUBLINGS = 6

_PAUSES = {
    "x86_64": ("call void @llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()"),
    "aarch64": ("call void @llvm.aarch64.isb(i32 15)", "declare void @llvm.aarch64.isb(i32)"),
}
"""The spin-wait hint of each architecture, and its declaration."""


def pause_text(target: Target) -> tuple[str, str]:
    """Return the spin-wait hint of a machine, and its declaration; empty if it has none."""
    return _PAUSES.get(target.triple.split("-")[0], ("", ""))


def pool_text(target: Target, sig_setmask: int, clock: int, policy: int) -> str:
    """Return the LLVM text of the pool.

    Args:
        target: the machine; its spin-wait hint is used, if known.
        sig_setmask: the value of SIG_SETMASK on this system.
        clock: that of CLOCK_MONOTONIC.
        policy: the scheduling policy of the threads, SCHED_BATCH where there is one: threads that
            wake up then take idle cores, and interrupt nobody, least of all their caller.
    """
    pause, declaration = pause_text(target)
    return (
        _TEXT.replace("PAUSE_DECLARATION", declaration)
        .replace("PAUSE", pause)
        .replace("SIG_SETMASK", str(sig_setmask))
        .replace("CLOCK_MONOTONIC", str(clock))
        .replace("SCHED_POLICY", str(policy))
    )


_LOOKS = f"""[ 0, %entry ], [ %more.looks, %pause ], [ %looks, %enter ], [ 0, %work ],
           [ {_LOOKS_AWAKE}, %awake ]"""

_TEXT = f"""
PAUSE_DECLARATION
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(ptr, ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_setschedparam(ptr, i32, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sched_yield()
declare i32 @clock_gettime(i32, ptr)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.usub.sat.i64(i64, i64)

; Words that different threads write lie on lines of their own.
@state = internal global i64 0, align 64
@finished = internal global i32 0, align 64
@busy = internal global i32 0, align 64
@sleepers = internal global i32 0, align 64
; Until when threads do not pay, and how often it was so lately; for the caller that has the pool.
@quiet.until = internal global i64 0
@misses = internal global i64 0
; Work that sleeping threads missed, in nanoseconds; for the same caller.
@missed = internal global i64 0
@task = internal global ptr null, align 64
@data = internal global ptr null
@ready = internal global i1 false, align 64
@quit = internal global i1 false
@started = internal global i32 0
@no.priority = internal constant [16 x i32] zeroinitializer
@threads = internal global [{MAX_THREADS} x ptr] zeroinitializer
@mutex = internal global [16 x i64] zeroinitializer, align 64
@condition = internal global [16 x i64] zeroinitializer, align 64

define void @{RUN}(ptr %context, ptr %task, ptr %data, i32 %count) nounwind {{
entry:
  %taken = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %free = extractvalue {{ i32, i1 }} %taken, 1
  br i1 %free, label %mine, label %alone
alone:
  call void %task(ptr %data, i32 0)
  ret void
mine:
  %until = load i64, ptr @quiet.until
  %no.wait = icmp eq i64 %until, 0
  br i1 %no.wait, label %share, label %ask
ask:
  %moment = call i64 @now()
  %is.over = icmp sge i64 %moment, %until
  br i1 %is.over, label %try, label %give
give:
  store atomic i32 0, ptr @busy release, align 4
  br label %alone
try:
  store i64 0, ptr @quiet.until
  br label %share
share:
  %begun = call i64 @now()
  %others = sub i32 %count, 1
  %have = load i32, ptr @started
  %few = icmp ult i32 %have, %others
  %missed = load i64, ptr @missed
  %at.time = getelementptr i32, ptr %data, i32 1
  %time = load i32, ptr %at.time
  %wide.time = zext i32 %time to i64
  %more = add i64 %missed, %wide.time
  %is.much = icmp uge i64 %more, {WAKE_NANOSECONDS}
  %creates = and i1 %few, %is.much
  br i1 %creates, label %create, label %open
create:
  store i64 0, ptr @missed
  call void @create(i32 %others)
  br label %open
open:
  store ptr %task, ptr @task
  store ptr %data, ptr @data
  store atomic i32 0, ptr @finished monotonic, align 4
  %last = load atomic i64, ptr @state monotonic, align 8
  %number = add i64 %last, 4294967296
  %closed = and i64 %number, -4294967296
  %wanted = zext i32 %others to i64
  %places = shl i64 %wanted, 16
  %opened = or i64 %closed, %places
  store atomic i64 %opened, ptr @state seq_cst, align 8
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %some.sleep = icmp ne i32 %asleep, 0
  %some.miss = or i1 %few, %some.sleep
  br i1 %some.miss, label %ponder, label %work
ponder:
  %kept = select i1 %is.much, i64 0, i64 %more
  store i64 %kept, ptr @missed
  %must.wake = and i1 %some.sleep, %is.much
  br i1 %must.wake, label %wake, label %work
wake:
  call void @wake(i32 %others)
  br label %work
work:
  call void %task(ptr %data, i32 0)
  %final = atomicrmw xchg ptr @state, i64 %closed acq_rel
  %entered = trunc i64 %final to i16
  %expected = zext i16 %entered to i32
  %before = load atomic i32, ptr @finished acquire, align 4
  %none.late = icmp eq i32 %before, %expected
  br i1 %none.late, label %done, label %late
late:
  %worked = call i64 @now()
  br label %look
look:
  %looks = phi i32 [ 0, %late ], [ %more.looks, %again ]
  %ended = load atomic i32, ptr @finished acquire, align 4
  %all = icmp eq i32 %ended, %expected
  br i1 %all, label %judge, label %wait
judge:
  call void @judge(i64 %begun, i64 %worked, ptr %data, i32 %expected)
  br label %done
wait:
  %long = icmp ugt i32 %looks, {_JOIN_LOOKS}
  br i1 %long, label %yield, label %pause
yield:
  %yielded = call i32 @sched_yield()
  br label %again
pause:
  PAUSE
  br label %again
again:
  %more.looks = add i32 %looks, 1
  br label %look
done:
  store atomic i32 0, ptr @busy release, align 4
  ret void
}}

; The caller worked from `begun` to `worked` and has waited until now for `count` threads. A piece
; of work took it about (worked - begun) * (count + 1) / pieces; what the others did might have
; taken it `count` times as long as what it did.
define internal void @judge(i64 %begun, i64 %worked, ptr %data, i32 %count) nounwind {{
entry:
  %now = call i64 @now()
  %work = sub i64 %worked, %begun
  %wait = sub i64 %now, %worked
  %many = load i32, ptr %data
  %pieces = zext i32 %many to i64
  %threads = zext i32 %count to i64
  %shares = add i64 %threads, 1
  %is.long = icmp sgt i64 %wait, {_LATE_NANOSECONDS}
  %scaled = mul i64 %wait, %pieces
  %piece = mul i64 %work, %shares
  %pieces.2 = shl i64 %piece, 1
  %beyond.pieces = icmp sgt i64 %scaled, %pieces.2
  %wait.4 = shl i64 %wait, 2
  %all.work = mul i64 %work, %threads
  %no.gain = icmp sgt i64 %wait.4, %all.work
  %both = and i1 %beyond.pieces, %no.gain
  %is.late = and i1 %is.long, %both
  %misses = load i64, ptr @misses
  br i1 %is.late, label %late, label %fine
late:
  %factor = shl i64 16, %misses
  %much = mul i64 %wait, %factor
  %pause = call i64 @llvm.smin.i64(i64 %much, i64 {_MOST_QUIET_NANOSECONDS})
  %until = add i64 %now, %pause
  store i64 %until, ptr @quiet.until
  %more = add i64 %misses, 1
  %most = call i64 @llvm.smin.i64(i64 %more, i64 {_MOST_DOUBLINGS})
  store i64 %most, ptr @misses
  ret void
fine:
  %less = call i64 @llvm.usub.sat.i64(i64 %misses, i64 1)
  store i64 %less, ptr @misses
  ret void
}}

define internal i64 @now() nounwind {{
  %time = alloca {{ i64, i64 }}, align 8
  %fault = call i32 @clock_gettime(i32 CLOCK_MONOTONIC, ptr %time)
  %seconds = load i64, ptr %time
  %rest = getelementptr i64, ptr %time, i64 1
  %nanoseconds = load i64, ptr %rest
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %nanoseconds
  ret i64 %now
}}

define internal ptr @worker(ptr %unused) nounwind {{
entry:
  br label %look
look:
  %looks = phi i32 {_LOOKS}
  %now = load atomic i64, ptr @state acquire, align 8
  %open = call i1 @is_open(i64 %now)
  br i1 %open, label %enter, label %idle
idle:
  %tired = icmp ugt i32 %looks, {_IDLE_LOOKS}
  br i1 %tired, label %sleep, label %pause
pause:
  PAUSE
  %more.looks = add i32 %looks, 1
  br label %look
enter:
  %counted = add i64 %now, 1
  %taken = cmpxchg ptr @state, i64 %now, i64 %counted acq_rel monotonic
  %is.in = extractvalue {{ i64, i1 }} %taken, 1
  br i1 %is.in, label %work, label %look
work:
  %entered = trunc i64 %counted to i16
  %part = zext i16 %entered to i32
  %task = load ptr, ptr @task
  %data = load ptr, ptr @data
  call void %task(ptr %data, i32 %part)
  %before = atomicrmw add ptr @finished, i32 1 release
  br label %look
sleep:
  %locked = call i32 @pthread_mutex_lock(ptr @mutex)
  %slept = atomicrmw add ptr @sleepers, i32 1 seq_cst
  br label %check
check:
  %then = load atomic i64, ptr @state seq_cst, align 8
  %work.there = call i1 @is_open(i64 %then)
  %end = load i1, ptr @quit
  %rise = or i1 %work.there, %end
  br i1 %rise, label %awake, label %wait
wait:
  %waited = call i32 @pthread_cond_wait(ptr @condition, ptr @mutex)
  br label %check
awake:
  %woken = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  %unlocked = call i32 @pthread_mutex_unlock(ptr @mutex)
  br i1 %end, label %leave, label %look
leave:
  ret ptr null
}}

define internal i1 @is_open(i64 %state) alwaysinline {{
  %low = trunc i64 %state to i32
  %places = lshr i32 %low, 16
  %entered = and i32 %low, 65535
  %open = icmp ugt i32 %places, %entered
  ret i1 %open
}}

; Threads take no signals: those are for the threads of the program.
define internal void @create(i32 %count) nounwind {{
entry:
  %all = alloca [32 x i64], align 16
  %before = alloca [32 x i64], align 16
  %is.ready = load i1, ptr @ready
  br i1 %is.ready, label %mask, label %prepare
prepare:
  call void @prepare()
  br label %mask
mask:
  %filled = call i32 @sigfillset(ptr %all)
  %masked = call i32 @pthread_sigmask(i32 SIG_SETMASK, ptr %all, ptr %before)
  br label %next
next:
  %have = load i32, ptr @started
  %enough = icmp uge i32 %have, %count
  br i1 %enough, label %done, label %one
one:
  %place = getelementptr ptr, ptr @threads, i32 %have
  %fault = call i32 @pthread_create(ptr %place, ptr null, ptr @worker, ptr null)
  %fine = icmp eq i32 %fault, 0
  br i1 %fine, label %count.it, label %done
count.it:
  %thread = load ptr, ptr %place
  %set = call i32 @pthread_setschedparam(ptr %thread, i32 SCHED_POLICY, ptr @no.priority)
  %more = add i32 %have, 1
  store i32 %more, ptr @started
  br label %next
done:
  %restored = call i32 @pthread_sigmask(i32 SIG_SETMASK, ptr %before, ptr null)
  ret void
}}

define internal void @prepare() nounwind {{
  %a = call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  %b = call i32 @pthread_cond_init(ptr @condition, ptr null)
  store i1 true, ptr @ready
  ret void
}}

define internal void @wake(i32 %count) nounwind {{
entry:
  %locked = call i32 @pthread_mutex_lock(ptr @mutex)
  %unlocked = call i32 @pthread_mutex_unlock(ptr @mutex)
  %single = icmp eq i32 %count, 1
  br i1 %single, label %one, label %all
one:
  %a = call i32 @pthread_cond_signal(ptr @condition)
  ret void
all:
  %b = call i32 @pthread_cond_broadcast(ptr @condition)
  ret void
}}

; After a fork the child has none of the threads, and may have the words of a run under way.
define void @{FORGET}() nounwind {{
  store i64 0, ptr @state
  store i32 0, ptr @finished
  store i32 0, ptr @busy
  store i32 0, ptr @sleepers
  store i32 0, ptr @started
  store i1 false, ptr @ready
  store i1 false, ptr @quit
  store i64 0, ptr @quiet.until
  store i64 0, ptr @misses
  store i64 0, ptr @missed
  ret void
}}

; The pool stays in use for good, so later runs call part 0 only; nothing is done during a run.
define void @{STOP}() nounwind {{
entry:
  %taken = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %free = extractvalue {{ i32, i1 }} %taken, 1
  br i1 %free, label %mine, label %done
mine:
  %is.ready = load i1, ptr @ready
  br i1 %is.ready, label %tell, label %done
tell:
  %locked = call i32 @pthread_mutex_lock(ptr @mutex)
  store i1 true, ptr @quit
  %told = call i32 @pthread_cond_broadcast(ptr @condition)
  %unlocked = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %next
next:
  %i = phi i32 [ 0, %tell ], [ %more, %join ]
  %count = load i32, ptr @started
  %left = icmp ult i32 %i, %count
  br i1 %left, label %join, label %done
join:
  %place = getelementptr ptr, ptr @threads, i32 %i
  %thread = load ptr, ptr %place
  %joined = call i32 @pthread_join(ptr %thread, ptr null)
  %more = add i32 %i, 1
  br label %next
done:
  ret void
}}
"""

NEEDED = frozenset(re.findall(r"declare i32 @(\w+)\(", _TEXT))
"""Functions of the C library that the pool calls."""
