"""IR that runs without the interpreter's lock: the thread pool that shares the units of a kernel,
and the check for signals in long loops.

The threads wait in Python's portable locks and touch no Python object. They claim units from an
atomic counter. The calling thread opens a job, wakes the others, works too, closes the job, and
waits only for the threads in it: a late one goes back to sleep. A caller that finds the pool busy
works alone. A forked child starts new threads; at the end of the process the threads exit.
"""

from __future__ import annotations

import atexit
import ctypes
import sys
import threading

from fungrad.compiler.native.machine_code import once, symbol
from fungrad.compiler.native.symbols import lasting
from fungrad.runtime import thread_pool
from fungrad.support import forks

MOST = 255
"""The most threads besides the caller's."""

_SIGNALS = """
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()
declare LONG @PyThread_get_thread_ident()
declare i32 @clock()
@fg_main = global LONG 0                   ; the thread that signals go to
@last = internal global i32 0              ; when it looked
define i32 @fg_signalled() {
entry:
  %main = load LONG, ptr @fg_main
  %this = call LONG @PyThread_get_thread_ident()
  %here = icmp eq LONG %main, %this
  br i1 %here, label %time, label %no
time:                                      ; the interpreter's lock may be long in coming
  %now = call i32 @clock()
  %before = load i32, ptr @last
  %passed = sub i32 %now, %before
  %soon = icmp ult i32 %passed, CLOCKS
  br i1 %soon, label %no, label %look
look:
  store i32 %now, ptr @last
  %state = call i32 @PyGILState_Ensure()
  %found = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 %state)
  ret i32 %found
no:
  ret i32 0
}
"""
_POOL = """
%job = type { ptr, ptr, ptr, i64, i64 }    ; kernel, arrays, scratch, units, how many at once
@job = internal global %job zeroinitializer
@next = internal global i64 0              ; the unit to be claimed
@busy = internal global i32 0
@size = internal global i32 0              ; threads that were started
@state = internal global i32 0             ; the sign bit: open; below it: who is in the job
@ending = internal global i32 0
@fg_wanted = global i32 0
@posted = internal global [256 x i32] zeroinitializer
@start = internal global [256 x ptr] zeroinitializer
@done = internal global ptr null
declare i32 @PyThread_acquire_lock(ptr, i32)
declare i32 @PyThread_acquire_lock_timed(ptr, i64, i32)
declare void @PyThread_release_lock(ptr)
declare ptr @PyThread_allocate_lock()
declare LONG @PyThread_start_new_thread(ptr, ptr)

define internal void @claim() {
entry:
  %k = load ptr, ptr @job
  %a = load ptr, ptr getelementptr (%job, ptr @job, i64 0, i32 1)
  %p = load ptr, ptr getelementptr (%job, ptr @job, i64 0, i32 2)
  %n = load i64, ptr getelementptr (%job, ptr @job, i64 0, i32 3)
  %c = load i64, ptr getelementptr (%job, ptr @job, i64 0, i32 4)
  br label %loop
loop:
  %i = atomicrmw add ptr @next, i64 %c acq_rel
  %more = icmp slt i64 %i, %n
  br i1 %more, label %work, label %end
work:
  %j = add i64 %i, %c
  %over = icmp slt i64 %j, %n
  %stop = select i1 %over, i64 %j, i64 %n
  call void %k(ptr %a, i64 %i, i64 %stop, ptr %p)
  br label %loop
end:
  ret void
}
define internal void @worker(ptr %place) {
entry:
  %i = ptrtoint ptr %place to i64
  %sp = getelementptr ptr, ptr @start, i64 %i
  %s = load ptr, ptr %sp
  %pp = getelementptr i32, ptr @posted, i64 %i
  br label %sleep
sleep:
  %got = call i32 @PyThread_acquire_lock(ptr %s, i32 1)
  store atomic i32 0, ptr %pp seq_cst, align 4
  %e = load atomic i32, ptr @ending acquire, align 4
  %leave = icmp ne i32 %e, 0
  br i1 %leave, label %last, label %join
last:
  %left0 = atomicrmw sub ptr @size, i32 1 acq_rel
  %nobody = icmp eq i32 %left0, 1
  br i1 %nobody, label %farewell, label %end
farewell:
  %dl0 = load ptr, ptr @done
  call void @PyThread_release_lock(ptr %dl0)
  br label %end
end:
  ret void
join:
  %v = load atomic i32, ptr @state seq_cst, align 4
  %open = icmp slt i32 %v, 0
  br i1 %open, label %enter, label %sleep
enter:
  %v1 = add i32 %v, 1
  %x = cmpxchg ptr @state, i32 %v, i32 %v1 acq_rel monotonic
  %in = extractvalue { i32, i1 } %x, 1
  br i1 %in, label %work, label %join
work:
  call void @claim()
  %left = atomicrmw sub ptr @state, i32 1 acq_rel
  %out = icmp eq i32 %left, 1              ; closed, and the last to leave
  br i1 %out, label %tell, label %sleep
tell:
  %dl = load ptr, ptr @done
  call void @PyThread_release_lock(ptr %dl)
  br label %sleep
}
define internal i1 @grow() {               ; one more thread; false where there is none to be had
entry:
  %n = load i32, ptr @size
  %i = zext i32 %n to i64
  %sp = getelementptr ptr, ptr @start, i64 %i
  %d0 = load ptr, ptr @done
  %first = icmp eq ptr %d0, null
  br i1 %first, label %make, label %go
make:
  %d = call ptr @PyThread_allocate_lock()
  %nolock = icmp eq ptr %d, null
  br i1 %nolock, label %fail, label %hold
hold:
  store ptr %d, ptr @done
  %b = call i32 @PyThread_acquire_lock(ptr %d, i32 1)
  br label %go
go:
  %s = call ptr @PyThread_allocate_lock()
  %none = icmp eq ptr %s, null
  br i1 %none, label %fail, label %begin
begin:
  store ptr %s, ptr %sp
  %a = call i32 @PyThread_acquire_lock(ptr %s, i32 1)
  %pp = getelementptr i32, ptr @posted, i64 %i
  store i32 0, ptr %pp
  %place = inttoptr i64 %i to ptr
  %t = call LONG @PyThread_start_new_thread(ptr @worker, ptr %place)
  %failed = icmp eq LONG %t, -1
  br i1 %failed, label %fail, label %started
started:
  %m = add i32 %n, 1
  store atomic i32 %m, ptr @size release, align 4
  ret i1 true
fail:
  ret i1 false
}
define internal void @wake(i64 %i) {
entry:
  %pp = getelementptr i32, ptr @posted, i64 %i
  %was = atomicrmw xchg ptr %pp, i32 1 seq_cst
  %asleep = icmp eq i32 %was, 0
  br i1 %asleep, label %post, label %end
post:
  %sp = getelementptr ptr, ptr @start, i64 %i
  %s = load ptr, ptr %sp
  call void @PyThread_release_lock(ptr %s)
  br label %end
end:
  ret void
}
define void @fg_share(ptr %k, ptr %a, i64 %n, ptr %p) {
entry:
  %w = load i32, ptr @fg_wanted
  %wide = zext i32 %w to i64
  %others = sub i64 %n, 1
  %less = icmp slt i64 %others, %wide
  %m = select i1 %less, i64 %others, i64 %wide
  %some = icmp sgt i64 %m, 0
  br i1 %some, label %try, label %alone
try:
  %old = cmpxchg ptr @busy, i32 0, i32 1 acq_rel monotonic
  %mine = extractvalue { i32, i1 } %old, 1
  br i1 %mine, label %more, label %alone
alone:
  call void %k(ptr %a, i64 0, i64 %n, ptr %p)
  ret void
more:
  %have = load i32, ptr @size
  %have64 = zext i32 %have to i64
  %few = icmp slt i64 %have64, %m
  br i1 %few, label %grown, label %go
grown:
  %ok = call i1 @grow()
  br i1 %ok, label %more, label %go
go:
  %mm = phi i64 [ %m, %more ], [ %have64, %grown ]
  %parts = add i64 %mm, 1
  %fine = mul i64 %parts, 8
  %c0 = sdiv i64 %n, %fine
  %c = call i64 @llvm.smax.i64(i64 %c0, i64 1)
  store ptr %k, ptr @job
  store ptr %a, ptr getelementptr (%job, ptr @job, i64 0, i32 1)
  store ptr %p, ptr getelementptr (%job, ptr @job, i64 0, i32 2)
  store i64 %n, ptr getelementptr (%job, ptr @job, i64 0, i32 3)
  store i64 %c, ptr getelementptr (%job, ptr @job, i64 0, i32 4)
  store atomic i64 0, ptr @next release, align 8
  store atomic i32 -2147483648, ptr @state seq_cst, align 4
  br label %waking
waking:
  %i = phi i64 [ 0, %go ], [ %i1, %woken ]
  %over = icmp slt i64 %i, %mm
  br i1 %over, label %woken, label %own
woken:
  call void @wake(i64 %i)
  %i1 = add i64 %i, 1
  br label %waking
own:
  call void @claim()
  %in = atomicrmw and ptr @state, i32 2147483647 acq_rel
  %within = and i32 %in, 2147483647
  %wait = icmp ne i32 %within, 0
  br i1 %wait, label %block, label %end
block:
  %d = load ptr, ptr @done
  %got = call i32 @PyThread_acquire_lock(ptr %d, i32 1)
  br label %end
end:
  store atomic i32 0, ptr @busy release, align 4
  ret void
}
declare i64 @llvm.smax.i64(i64, i64)
define void @fg_stop() {                   ; the threads leave; at most a second is waited for them
entry:
  store i32 0, ptr @fg_wanted
  %old = cmpxchg ptr @busy, i32 0, i32 1 acq_rel monotonic
  %mine = extractvalue { i32, i1 } %old, 1
  br i1 %mine, label %go, label %end
go:
  store atomic i32 1, ptr @ending release, align 4
  %n = load atomic i32, ptr @size acquire, align 4
  %m = zext i32 %n to i64
  %none = icmp eq i32 %n, 0
  br i1 %none, label %end, label %waking
waking:
  %i = phi i64 [ 0, %go ], [ %i1, %waking ]
  call void @wake(i64 %i)
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %m
  br i1 %more, label %waking, label %wait
wait:
  %d = load ptr, ptr @done
  %got = call i32 @PyThread_acquire_lock_timed(ptr %d, i64 1000000, i32 0)
  br label %end
end:
  ret void
}
define void @fg_forget() {                 ; in a forked child, where no thread of the pool is
entry:
  store i32 0, ptr @size
  store i32 0, ptr @state
  store i32 0, ptr @busy
  store i32 0, ptr @ending
  store ptr null, ptr @done
  ret void
}
"""


def of_system(text: str, system: str) -> str:
    """IR with the type of C's `unsigned long`, and 20 ms in units of C's `clock`.

    Args:
      text: IR that names them LONG and CLOCKS.
      system: `sys.platform`.
    """
    long, clocks = ("i32", "20") if system == "win32" else ("i64", "20000")
    return text.replace("LONG", long).replace("CLOCKS", clocks)


@once
def signals() -> None:
    """Defines `i32 @fg_signalled()` for kernels: not 0 if a signal handler raised an error.

    Only the main thread checks, and takes the interpreter's lock for it every 20 ms of work.
    """
    built = lasting(of_system(_SIGNALS, sys.platform))
    symbol("fg_signalled", built.address("fg_signalled"))
    main = ctypes.c_ulong.from_address(built.address("fg_main"))

    def become_main() -> None:
        main.value = threading.get_ident()

    main.value = threading.main_thread().ident or 0
    forks.in_child(become_main)


@once
def pool() -> None:
    """Defines `fg_share` for entries, which runs the units of a kernel in
    `fungrad.config.num_threads` threads. The first job starts them.
    """
    built = lasting(of_system(_POOL, sys.platform))
    symbol("fg_share", built.address("fg_share"))
    wanted = ctypes.c_int32.from_address(built.address("fg_wanted"))

    def want(count: int) -> None:
        wanted.value = min(count - 1, MOST)

    thread_pool.listeners.append(want)
    want(thread_pool.num_threads())
    forks.in_child(ctypes.CFUNCTYPE(None)(built.address("fg_forget")))
    atexit.register(ctypes.CFUNCTYPE(None)(built.address("fg_stop")))


FUNCTIONS = {" @fg_share(": pool, " @fg_signalled(": signals}
"""By the calls in the IR of a program: what defines the functions of this module."""
