# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportMissingImports=false
"""What a device does at best: copies, multiply-adds, matrix products, launches."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any

import torch

from benchmarks.device.blob import Blob, Pack
from benchmarks.device.micro import BLOCKS, TERMS, THREADS
from benchmarks.device.timing import DEVICE, ON_GPU, clock, host_seconds, tune_torch


def peak_line(driver: Any, pack: Pack, blob: Blob) -> Mapping[str, Any]:
    """Rates in 10^9 bytes or operations a second, times in microseconds."""
    tune_torch()
    small = not ON_GPU
    found: dict[str, Any] = {"torch": torch.__version__}
    if ON_GPU:
        p = torch.cuda.get_device_properties(0)
        found |= {
            "device": p.name, "units": p.multi_processor_count, "memory": p.total_memory,
            "l2": p.L2_cache_size, "cuda": torch.version.cuda,
        }  # fmt: skip

    def seconds(call: Callable[[], Any]) -> float:
        return statistics.median(clock().cold([clock().graph(call)])[0])

    n = 1 << (12 if small else 28)
    a, b = (torch.ones(n, device=DEVICE) for _ in range(2))
    found["copy"] = 8 * n / seconds(lambda: b.copy_(a)) / 1e9
    found["read"] = 4 * n / seconds(lambda: a.sum()) / 1e9
    found["write"] = 4 * n / seconds(lambda: b.zero_()) / 1e9
    m = 64 if small else 8192
    for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16), ("float16", torch.float16)):
        x, y = (torch.randn(m, m, device=DEVICE).to(dtype) for _ in range(2))
        found[f"matmul_{name}"] = 2 * m**3 / seconds(lambda x=x, y=y: x @ y) / 1e9
    torch.backends.cuda.matmul.allow_tf32 = True
    x, y = (torch.randn(m, m, device=DEVICE) for _ in range(2))
    found["matmul_tf32"] = 2 * m**3 / seconds(lambda: x @ y) / 1e9
    torch.backends.cuda.matmul.allow_tf32 = False
    o = torch.ones(64, device=DEVICE)
    found["torch_add_host_us"] = 1e6 * host_seconds(lambda: torch.add(o, o), 200)
    with driver.entered():
        text = getattr(driver, "takes_text", False)
        module = driver.load(pack.text(blob).encode() if text else pack.image(blob))
        functions = {x.name: driver.function(module, x.name, 0) for x in blob.launches}
        if small:
            driver.adopt(o.numpy().view("u1"))

        def launch(name: str, blocks: int, threads: int) -> None:
            stream = torch.cuda.current_stream().cuda_stream if ON_GPU else 0
            driver.launch(functions[name], [o.data_ptr()], blocks, threads, 0, stream)

        found["empty_us"] = 1e6 * seconds(lambda: launch("empty", 1, 32))
        found["empty_after_empty_us"] = 1e6 * clock().hot(lambda: launch("empty", 1, 32), 1e-9)
        if not small:
            stream, given = torch.cuda.current_stream().cuda_stream, driver.pack([o.data_ptr()])
            f = functions["empty"]
            found["launch_host_us"] = 1e6 * host_seconds(
                lambda: driver.start(f, given, 1, 32, 0, stream), 200
            )
        if not small:
            taken = seconds(lambda: launch("multiply_adds", BLOCKS, THREADS))
            found["multiply_adds"] = 2 * TERMS * BLOCKS * THREADS / taken / 1e9
    return {"ok": True, **found}
