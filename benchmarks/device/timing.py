# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportMissingParameterType=false
# pyright: reportMissingImports=false
"""Times on a device: a program's kernels, and its race with PyTorch, Inductor and Triton.

What is timed is a CUDA graph of one call, between two events, after a buffer of twice the L2 cache was
written (`cold`), and a graph of many calls by their number (`hot`).  All contestants of a race are in one
process and take turns.  Without a device the same code runs on the CPU with clocks of the host, which checks
the code and measures nothing.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.device.blob import Blob, Pack
from benchmarks.device.runner import Program
from benchmarks.peers import spelled
from benchmarks.spellings import families, with_torch
from benchmarks.workloads import find
from benchmarks.workloads.model import Workload

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
ROUNDS = 15
_HOT_SECONDS = 1e-3  # of a graph of many calls
_MOST_CALLS = 50
# Families for which max-autotune has something to choose.
AUTOTUNED = frozenset(("tmm", "gemm", "gemm_tn", "hgemm", "tbmm", "bmm", "mlp1", "mlp3", "chain3"))


def tune_torch() -> None:
    """float32 is float32: no tf32 for anyone."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    torch.set_grad_enabled(False)


def tensors(workload: Workload, seed: int = 1) -> list[Any]:
    """The inputs, made where they are used."""
    made: list[Any] = []
    for k, a in enumerate(workload.inputs):
        generator = torch.Generator(DEVICE).manual_seed(seed + k)
        dtype = getattr(torch, a.dtype)
        if dtype.is_floating_point:
            wide = torch.float64 if dtype == torch.float64 else torch.float32
            x = torch.rand(a.shape, generator=generator, device=DEVICE, dtype=wide).mul_(2).sub_(1).to(dtype)
        else:
            low, high = (-8, 8) if a.below is None else (0, a.below)
            x = torch.randint(low, high, a.shape, generator=generator, device=DEVICE, dtype=dtype)
        made.append(x)
    return made


def truth(workload: Workload, inputs: Sequence[Any]) -> list[Any]:
    """The results in float64."""
    call = with_torch.TRUTH.get(workload.family) or spelled("torch", workload)
    return _list(call(*(x.double() if x.is_floating_point() else x for x in inputs)))


def _list(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple | list) else [found]


def compare(found: Sequence[Any], wanted: Sequence[Any], terms: int) -> str | None:
    """What is wrong with results, or None; see `benchmarks.agreement.compare`."""
    if len(found) != len(wanted):
        return f"{len(found)} results, not {len(wanted)}"
    for k, (r, w) in enumerate(zip(found, wanted, strict=True)):
        if tuple(r.shape) != tuple(w.shape):
            return f"result {k} has the shape {tuple(r.shape)}, not {tuple(w.shape)}"
        if not r.numel():
            continue
        if not r.is_floating_point():
            bad = int((r.to(torch.int64) != w.to(torch.int64)).sum())
            if bad:
                return f"result {k} differs in {bad} of {r.numel()} elements"
            continue
        scale = max(float(w.abs().max()), math.sqrt(terms) if r.numel() == 1 else 0.0, 1e-30)
        allowed = 16 * torch.finfo(r.dtype).eps * math.sqrt(terms) * scale
        off = float((r.double() - w.double()).abs().max())
        if not off <= allowed:
            return f"result {k} is off by {off:.3g}; {allowed:.3g} is allowed"
    return None


@dataclass(frozen=True, slots=True)
class Given:
    """A workload with its inputs and what is wanted."""

    key: str
    workload: Workload
    inputs: list[Any]
    wanted: list[Any]


_last: list[Given] = []


def given(key: str) -> Given:
    """The last workload is kept, as its maps follow one another."""
    if not _last or _last[0].key != key:
        _last.clear()
        gc.collect()
        if ON_GPU:
            torch.cuda.empty_cache()
        tune_torch()
        workload = find(key).workload()
        inputs = tensors(workload)
        _last.append(Given(key, workload, inputs, truth(workload, inputs)))
    return _last[0]


class Clock:
    """Captures calls and times them; `flush` is written between cold ones."""

    def __init__(self) -> None:
        size = 2 * torch.cuda.get_device_properties(0).L2_cache_size if ON_GPU else 1 << 16
        self.flush = torch.empty(size, dtype=torch.uint8, device=DEVICE)

    def graph(self, call: Callable[[], Any], calls: int = 1) -> Callable[[], Any]:
        """What replays so many calls."""
        if not ON_GPU:
            return lambda: [call() for _ in range(calls)]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                call()
        torch.cuda.current_stream().wait_stream(side)
        made = torch.cuda.CUDAGraph()
        with torch.cuda.graph(made):
            for _ in range(calls):
                call()
        return made.replay

    def cold(self, replays: Sequence[Callable[[], Any]], rounds: int = ROUNDS) -> list[list[float]]:
        """Seconds of each in each round; they take turns."""
        pairs: list[list[tuple[Any, Any]]] = [[] for _ in replays]
        found: list[list[float]] = [[] for _ in replays]
        for number in range(rounds + 1):  # the first one warms up
            turn = number % max(1, len(replays))
            for k in [*range(turn, len(replays)), *range(turn)]:
                self.flush.zero_()
                if not ON_GPU:
                    start = time.perf_counter()
                    replays[k]()
                    found[k].append(time.perf_counter() - start)
                    continue
                before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                before.record()
                replays[k]()
                after.record()
                pairs[k].append((before, after))
        synchronize()
        for k, events in enumerate(pairs):
            found[k] += [1e-3 * a.elapsed_time(b) for a, b in events]
        return [x[1:] for x in found]

    def hot(self, call: Callable[[], Any], seconds: float) -> float:
        """Seconds of a call among many."""
        calls = max(1, min(_MOST_CALLS, round(_HOT_SECONDS / max(seconds, 1e-7))))
        replay = self.graph(call, calls)
        return statistics.median(self.cold([replay], 5)[0]) / calls


_clock: list[Clock] = []


def clock() -> Clock:
    if not _clock:
        _clock.append(Clock())
    return _clock[0]


def synchronize() -> None:
    if ON_GPU:
        torch.cuda.synchronize()


def percentiles(times: Sequence[float]) -> dict[str, float]:
    """In microseconds."""
    ordered = sorted(times)

    def at(share: float) -> float:
        return 1e6 * ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]

    return {"p0": at(0.0), "p50": at(0.5), "p90": at(0.9)}


class Ours:
    """A program of the pack on tensors."""

    def __init__(self, driver: Any, pack: Pack, blob: Blob, it: Given) -> None:
        text = getattr(driver, "takes_text", False)
        self.program = Program(driver, blob, pack.text(blob).encode() if text else pack.image(blob))
        names = [a.name for a in blob.arrays if a.role == "input"]
        held = dict(zip(names, it.inputs, strict=True))
        for a in blob.outputs:
            held[a.name] = torch.full(a.shape, 77, dtype=getattr(torch, a.dtype), device=DEVICE)
        # Kernels may have loops collapsed, and arrays with them.
        found = [held[a.name] for a in blob.outputs]
        self.outputs = [x.view(w.shape) for x, w in zip(found, it.wanted, strict=True)]
        self.held = {n: x.contiguous() for n, x in held.items()}
        if not ON_GPU:
            for x in self.held.values():
                driver.adopt(x.reshape(-1).view(torch.uint8).numpy())
        packed = [
            driver.pack(x) if ON_GPU else x
            for x in self.program.arguments({n: x.data_ptr() for n, x in self.held.items()})
        ]
        self.driver, self.packed = driver, packed

    def one(self, k: int) -> None:
        """The k-th kernel, on the current stream."""
        x = self.program.blob.launches[k]
        stream = torch.cuda.current_stream().cuda_stream if ON_GPU else 0
        start = self.driver.start if ON_GPU else self.driver.launch
        start(self.program.functions[k], self.packed[k], x.blocks, x.threads, x.shared, stream)

    def __call__(self) -> list[Any]:
        for k in range(len(self.packed)):
            self.one(k)
        return self.outputs


def program_line(driver: Any, pack: Pack, blob: Blob) -> Mapping[str, Any]:
    """Whether a program is right, and the times of its kernels."""
    it = given(blob.workload)
    with driver.entered():
        ours = Ours(driver, pack, blob, it)
        found = ours()
        synchronize()
        record = ours.program.failed()
        if record[0]:
            return {"ok": False, "wrong": f"check {int(record[0]) - 1} fails"}
        wrong = compare(found, it.wanted, it.workload.terms)
        if wrong:
            return {"ok": False, "wrong": wrong}
        count = len(blob.launches)
        calls: list[Callable[[], Any]] = [
            ours,
            *(partial(ours.one, k) for k in range(count if count > 1 else 0)),
        ]
        cold = [statistics.median(x) for x in clock().cold([clock().graph(c) for c in calls])]
        hot = clock().hot(ours, cold[0])
    kernels = cold[1:] if count > 1 else cold
    return {
        "ok": True, "map": blob.map, "map_name": blob.map_name, "cold_us": 1e6 * cold[0], "hot_us": 1e6 * hot,
        "predicted_us": 1e6 * blob.seconds,
        "kernels": [
            {
                "cold_us": 1e6 * t, "predicted_us": 1e6 * x.seconds, "bound": x.bound, "blocks": x.blocks,
                "threads": x.threads, "registers": x.registers, "shared": x.shared + x.static_shared,
            }
            for x, t in zip(blob.launches, kernels, strict=True)
        ],
    }  # fmt: skip


# ---- peers


def _prepared(workload: Workload, inputs: Sequence[Any]) -> tuple[Any, ...]:
    prepare = with_torch.PREPARE.get(workload.family)
    return tuple(prepare(*inputs)) if prepare else tuple(inputs)


def contestants(workload: Workload, inputs: Sequence[Any]) -> dict[str, Callable[[], Any]]:
    """The others, each made callable; a compile happens at the first call."""
    from benchmarks.spellings import alternatives

    found: dict[str, Callable[[], Any]] = {}

    def add(name: str, call: Callable[..., Any], args: Sequence[Any]) -> None:
        found[name] = lambda: call(*args)

    plain = spelled("torch", workload)
    modes = {"inductor": None} | (
        {"inductor-max": "max-autotune-no-cudagraphs"} if workload.family in AUTOTUNED else {}
    )
    add("torch", plain, inputs)
    if workload.family in alternatives("torch"):
        add("torch+", spelled("torch", workload, "_alt"), _prepared(workload, inputs))
    for name, mode in modes.items():
        add(name, torch.compile(plain, dynamic=False, mode=mode), inputs)
    if workload.family in alternatives("torch"):
        other = torch.compile(spelled("torch", workload, "_alt"), dynamic=False)
        add("inductor+", other, _prepared(workload, inputs))
    if ON_GPU and has_triton() and workload.family in families("triton"):
        add("triton", spelled("triton", workload), inputs)
    return found


def host_seconds(call: Callable[[], Any], calls: int = 20) -> float:
    """Seconds of a call without a graph, what the host does included."""
    for _ in range(3):
        call()
    synchronize()
    times: list[float] = []
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        synchronize()
        times.append((time.perf_counter() - start) / calls)
    return min(times)


def race_line(driver: Any, pack: Pack, blob: Blob) -> Mapping[str, Any]:
    """The program beside the others: who is right, and how long each takes."""
    it = given(blob.workload)
    torch._dynamo.reset()
    rows: dict[str, dict[str, Any]] = {}
    calls: dict[str, Callable[[], Any]] = {}
    replays: dict[str, Callable[[], Any]] = {}
    with driver.entered():
        everyone: dict[str, Callable[[], Any]] = {"tc": Ours(driver, pack, blob, it)}
        for name, call in {**everyone, **contestants(it.workload, it.inputs)}.items():
            try:
                start = time.perf_counter()
                found = _list(call())
                synchronize()
                first = time.perf_counter() - start
                wrong = compare(found, it.wanted, it.workload.terms)
                rows[name] = {"first_s": first} | ({"wrong": wrong} if wrong else {})
                if not wrong:
                    replays[name], calls[name] = clock().graph(call), call
            except Exception as error:
                rows[name] = {"wrong": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
        names = list(replays)
        for name, times in zip(names, clock().cold([replays[n] for n in names]), strict=True):
            rows[name] |= {"cold_us": percentiles(times)}
            seconds = statistics.median(times)
            try:
                rows[name] |= {"hot_us": 1e6 * clock().hot(calls[name], seconds)}
                rows[name] |= {"host_us": 1e6 * host_seconds(calls[name], 5 if seconds > 1e-3 else 20)}
            except Exception as error:
                rows[name] |= {"hot_wrong": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
    ours = rows["tc"]
    return {
        "ok": "wrong" not in ours, "wrong": ours.get("wrong"), "predicted_us": 1e6 * blob.seconds,
        "kernels": len(blob.launches), "flops": it.workload.flops, "rows": rows,
        "bytes": it.workload.read_bytes() + sum(x.numel() * x.element_size() for x in it.wanted),
    }  # fmt: skip


def warm_line(key: str) -> Mapping[str, Any]:
    """Compiles what Inductor and Triton need for a race, so that it lies in their caches."""
    it = given(key)
    torch._dynamo.reset()
    for name, call in contestants(it.workload, it.inputs).items():
        if name not in ("torch", "torch+"):
            start = time.perf_counter()
            try:
                call()
                synchronize()
            except Exception as error:
                return {"ok": False, "wrong": f"{name}: {' '.join(str(error).split())[:200]}"}
            del start
    return {"ok": True}


def has_triton() -> bool:
    return (Path(__file__).parents[1] / "spellings" / "with_triton.py").exists()
