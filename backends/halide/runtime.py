# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
"""The run time that Halide's object code calls, as LLVM IR: memory, threads, errors.

Halide's own brings a thread pool and a global error handler of its own into every process; with `NoRuntime`
the kernel calls these instead.  The user context of a call is its error record (`int64_t[32]`):

* `halide_do_par_for` runs on tc's pool, `halide_malloc` gives what the vector loads need (128 bytes aligned);
* a failed `require` builds its message out of numbers (`tc.halide.expressions`): they become the record,
  which is claimed by compare and swap, because other threads may fail at the same time;
* every other error of Halide leaves 0 in the record's first word, `OUT_OF_MEMORY` or `OTHER` in the second, 0
  in the third, and its text, ended by NUL, in the rest.
"""

from __future__ import annotations

import llvmlite.binding as llvm

from tc.codegen import llvm_jit
from tc.support import locks

OUT_OF_MEMORY, OTHER = 1, 2

# Errors that carry nothing but what kind they are.
_PLAIN = (
    "bad_dimensions bad_extern_fold bad_fold bad_type bounds_inference_call_failed "
    "buffer_allocation_too_large buffer_argument_is_null buffer_extents_negative buffer_extents_too_large "
    "buffer_is_null constraints_make_required_region_smaller debug_to_file_failed device_crop_failed "
    "device_dirty_with_no_device_support device_interface_no_device extern_stage_failed "
    "fold_factor_too_small "
    "host_and_device_dirty host_is_null no_device_interface out_of_memory param_too_large_f "
    "param_too_large_i param_too_large_u param_too_small_f param_too_small_i param_too_small_u "
    "split_factor_not_positive storage_bound_too_small unaligned_host_ptr vscale_invalid"
)

_TEXT = r"""
declare i32 @posix_memalign(ptr, i64, i64)
declare ptr @calloc(i64, i64)
declare i32 @sched_yield()
declare void @free(ptr)
declare i32 @snprintf(ptr, i64, ptr, ...)
declare i64 @strtoll(ptr, ptr, i32)
declare void @tc_parallel_for(ptr, i64, ptr)

define ptr @halide_malloc(ptr %context, i64 %bytes) {
  %place = alloca ptr
  %code = call i32 @posix_memalign(ptr %place, i64 128, i64 %bytes)
  %failed = icmp ne i32 %code, 0
  %got = load ptr, ptr %place
  %result = select i1 %failed, ptr null, ptr %got
  ret ptr %result
}

define void @halide_free(ptr %context, ptr %memory) {
  call void @free(ptr %memory)
  ret void
}

; A parallel loop: { user context, task, first, closure, result }.  After a failure the rest is skipped.
%loop = type { ptr, ptr, i32, ptr, i32 }

define internal void @item(i64 %k, i64 %slot, ptr %loop) {
  %result.p = getelementptr %loop, ptr %loop, i32 0, i32 4
  %before = load atomic i32, ptr %result.p monotonic, align 4
  %ok = icmp eq i32 %before, 0
  br i1 %ok, label %run, label %done
run:
  %context.p = getelementptr %loop, ptr %loop, i32 0, i32 0
  %context = load ptr, ptr %context.p
  %task.p = getelementptr %loop, ptr %loop, i32 0, i32 1
  %task = load ptr, ptr %task.p
  %first.p = getelementptr %loop, ptr %loop, i32 0, i32 2
  %first = load i32, ptr %first.p
  %closure.p = getelementptr %loop, ptr %loop, i32 0, i32 3
  %closure = load ptr, ptr %closure.p
  %k32 = trunc i64 %k to i32
  %index = add i32 %first, %k32
  %code = call i32 %task(ptr %context, i32 %index, ptr %closure)
  %failed = icmp ne i32 %code, 0
  br i1 %failed, label %note, label %done
note:
  store atomic i32 %code, ptr %result.p monotonic, align 4
  br label %done
done:
  ret void
}

define i32 @halide_do_par_for(ptr %context, ptr %task, i32 %first, i32 %count, ptr %closure) {
  %loop = alloca %loop
  %v0 = insertvalue %loop zeroinitializer, ptr %context, 0
  %v1 = insertvalue %loop %v0, ptr %task, 1
  %v2 = insertvalue %loop %v1, i32 %first, 2
  %v3 = insertvalue %loop %v2, ptr %closure, 3
  store %loop %v3, ptr %loop
  %some = icmp sgt i32 %count, 0
  br i1 %some, label %run, label %done
run:
  %items = sext i32 %count to i64
  call void @tc_parallel_for(ptr @item, i64 %items, ptr %loop)
  br label %done
done:
  %result.p = getelementptr %loop, ptr %loop, i32 0, i32 4
  %result = load i32, ptr %result.p
  ret i32 %result
}

; Locks of atomic updates that no instruction does: one word each.
define ptr @halide_mutex_array_create(i64 %count) {
  %words = call ptr @calloc(i64 %count, i64 4)
  ret ptr %words
}

define void @halide_mutex_array_destroy(ptr %context, ptr %words) {
  call void @free(ptr %words)
  ret void
}

define i32 @halide_mutex_array_lock(ptr %words, i32 %k) {
  %word = getelementptr i32, ptr %words, i32 %k
  br label %try
try:
  %claim = cmpxchg ptr %word, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %claim, 1
  br i1 %mine, label %done, label %wait
wait:
  %yielded = call i32 @sched_yield()
  br label %try
done:
  ret i32 0
}

define i32 @halide_mutex_array_unlock(ptr %words, i32 %k) {
  %word = getelementptr i32, ptr %words, i32 %k
  store atomic i32 0, ptr %word release, align 4
  ret i32 0
}

; Messages, as Halide builds them: each call appends before `end` and returns where it stopped.
@decimal = private constant [5 x i8] c"%lld\00"
@text = private constant [3 x i8] c"%s\00"

define internal ptr @appended(ptr %from, ptr %end, i32 %length) {
  %from.i = ptrtoint ptr %from to i64
  %end.i = ptrtoint ptr %end to i64
  %room = sub i64 %end.i, %from.i
  %wide = sext i32 %length to i64
  %fits = icmp slt i64 %wide, %room
  %last = sub i64 %room, 1
  %step = select i1 %fits, i64 %wide, i64 %last
  %next = getelementptr i8, ptr %from, i64 %step
  ret ptr %next
}

define ptr @halide_int64_to_string(ptr %to, ptr %end, i64 %value, i32 %digits) {
  %full = icmp uge ptr %to, %end
  br i1 %full, label %stop, label %write
write:
  %to.i = ptrtoint ptr %to to i64
  %end.i = ptrtoint ptr %end to i64
  %room = sub i64 %end.i, %to.i
  %length = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %to, i64 %room, ptr @decimal, i64 %value)
  %next = call ptr @appended(ptr %to, ptr %end, i32 %length)
  ret ptr %next
stop:
  ret ptr %to
}

define ptr @halide_string_to_string(ptr %to, ptr %end, ptr %from) {
  %full = icmp uge ptr %to, %end
  br i1 %full, label %stop, label %write
write:
  %to.i = ptrtoint ptr %to to i64
  %end.i = ptrtoint ptr %end to i64
  %room = sub i64 %end.i, %to.i
  %length = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %to, i64 %room, ptr @text, ptr %from)
  %next = call ptr @appended(ptr %to, ptr %end, i32 %length)
  ret ptr %next
stop:
  ret ptr %to
}

define i32 @halide_error_requirement_failed(ptr %record, ptr %condition, ptr %message) {
entry:
  %rest = alloca ptr
  %index = call i64 @strtoll(ptr %message, ptr %rest, i32 10)
  %second = load ptr, ptr %rest
  %site = call i64 @strtoll(ptr %second, ptr %rest, i32 10)
  %claim = cmpxchg ptr %record, i64 0, i64 %site monotonic monotonic
  %mine = extractvalue { i64, i1 } %claim, 1
  br i1 %mine, label %start, label %done
start:
  %index.p = getelementptr i64, ptr %record, i64 1
  store i64 %index, ptr %index.p
  br label %next
next:
  %k = phi i64 [ 2, %start ], [ %after, %word ]
  %full = icmp uge i64 %k, 32
  br i1 %full, label %done, label %read
read:
  %from = load ptr, ptr %rest
  %value = call i64 @strtoll(ptr %from, ptr %rest, i32 10)
  %stopped = load ptr, ptr %rest
  %nothing = icmp eq ptr %stopped, %from
  br i1 %nothing, label %done, label %word
word:
  %place = getelementptr i64, ptr %record, i64 %k
  store i64 %value, ptr %place
  %after = add i64 %k, 1
  br label %next
done:
  ret i32 1
}
"""


# Errors with details: {name: (parameters after the record, format)}.
_DETAILED = {
    "constraint_violated": ("ptr i32 ptr i32", "constraint violated: %s (%d) == %s (%d)"),
    "access_out_of_bounds": (
        "ptr i32 i32 i32 i32 i32",
        "%s, dimension %d: %d to %d read, %d to %d there",
    ),
    "explicit_bounds_too_small": ("ptr ptr i32 i32 i32 i32", "%s, %s: bounds %d to %d do not cover %d to %d"),
    "specialize_fail": ("ptr", "a specialization failed: %s"),
}


def _error(name: str, parameters: str, message: str) -> str:
    """An error that leaves its kind and its message in the record, unless a failed check is there."""
    types = [f"{t} %a{k}" for k, t in enumerate(parameters.split())]
    kind = OUT_OF_MEMORY if name == "out_of_memory" else OTHER
    return f"""
@{name} = private constant [{len(message) + 1} x i8] c"{message}\\00"
define i32 @halide_error_{name}({", ".join(["ptr %record", *types])}) {{
  %first = load atomic i64, ptr %record monotonic, align 8
  %free = icmp eq i64 %first, 0
  br i1 %free, label %write, label %done
write:
  %kind = getelementptr i64, ptr %record, i64 1
  store i64 {kind}, ptr %kind
  %count = getelementptr i64, ptr %record, i64 2
  store i64 0, ptr %count
  %to = getelementptr i64, ptr %record, i64 3
  %n = call i32 (ptr, i64, ptr, ...) @snprintf({", ".join(["ptr %to, i64 232, ptr @" + name, *types])})
  br label %done
done:
  ret i32 2
}}
"""


def _errors() -> str:
    # What a plain error is called with besides the record stays where the caller put it.
    plain = "".join(_error(name, "", name.replace("_", " ")) for name in _PLAIN.split())
    return plain + "".join(_error(name, *how) for name, how in _DETAILED.items())


_lock = locks.lock()
_code: llvm_jit.MachineCode | None = None


def install() -> None:
    """Compile the run time, once, and make its functions known to what is linked in this process."""
    global _code
    with _lock:
        if _code is not None:
            return
        text = _TEXT + _errors()
        names = [line.split("@")[1].split("(")[0] for line in text.splitlines() if line.startswith("define")]
        names = [n for n in names if n.startswith("halide_")]
        code = llvm_jit.compile_text(text, *names, verify=True)
        for name, address in code.addresses.items():
            llvm.add_symbol(name, address)
        _code = code
