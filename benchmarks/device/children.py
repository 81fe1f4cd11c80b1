"""What a child process does: a phase, a JSON line for each finding.

    python -m benchmarks.device.children PHASE --pack FILE --out FILE [--keys K,…] [--until SECONDS]

`--out` is appended to, and a key that it has is not done again, so a phase goes on where it was cut off.  The
key in progress stands in the file `OUT.current`: a process that ends without a line crashed on it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.device.blob import Blob, Pack
from benchmarks.device.runner import verdict

Line = Mapping[str, Any]


def driver_of(name: str) -> Any:
    """The driver of cuda-bindings, or the stand-in of the tests."""
    if name == "stand-in":
        return importlib.import_module("tests.simt.driver").StandIn()
    bindings = importlib.import_module("backends.cuda.with_bindings")
    bindings.count()
    return bindings.BindingsDriver(0)


def image(driver: Any, pack: Pack, blob: Blob) -> bytes:
    return pack.text(blob).encode() if getattr(driver, "takes_text", False) else pack.image(blob)


def conformance(driver: Any, pack: Pack, blob: Blob) -> Line:
    """Two runs of a program against what is stored."""
    start = time.perf_counter()
    with driver.entered():
        wrong = verdict(driver, blob, image(driver, pack, blob), pack.data(blob))
    return {"ok": wrong is None, "wrong": wrong, "ms": 1e3 * (time.perf_counter() - start)}


def once(driver: Any, pack: Pack, blob: Blob) -> Line:
    """One run of a timed program on random arrays, for a profiler to look at."""
    from benchmarks.device.runner import Program, buffer_of
    from benchmarks.workloads import find

    arrays = find(blob.workload).workload().arrays(1)
    with driver.entered():
        program = Program(driver, blob, image(driver, pack, blob))
        buffers = {
            a.name: buffer_of(driver, a, arrays.get(a.name) if a.role == "input" else None, 0)
            for a in blob.arrays
        }
        arguments = program.arguments(buffers)
        program.launch(arguments)
        driver.synchronize()
    return {"ok": True}


def timing(driver: Any, pack: Pack, blob: Blob) -> Line:
    from benchmarks.device.timing import program_line

    return program_line(driver, pack, blob)


def race(driver: Any, pack: Pack, blob: Blob) -> Line:
    from benchmarks.device.timing import race_line

    return race_line(driver, pack, blob)


def warm(driver: Any, pack: Pack, blob: Blob) -> Line:
    from benchmarks.device.timing import warm_line

    return warm_line(blob.workload)


def sanity(driver: Any, pack: Pack, blob: Blob) -> Line:
    from benchmarks.device.peaks import peak_line

    return peak_line(driver, pack, blob)


PHASES: dict[str, tuple[str, Callable[[Any, Pack, Blob], Line]]] = {
    "sanity": ("micro", sanity),
    "conformance": ("conformance", conformance),
    "timing": ("timing", timing),
    "race": ("timing", race),
    "warm": ("timing", warm),
    "once": ("timing", once),
}


def chosen(pack: Pack, phase: str, keys: list[str]) -> Iterator[Blob]:
    """The blobs of a phase; of workloads that others run, one blob each."""
    kind, _ = PHASES[phase]
    for blob in pack.of_phase(kind):
        if phase in ("race", "warm") and (blob.map or blob.group == "odd"):
            continue
        if not keys or blob.key in keys:
            yield blob


def done(out: Path) -> set[str]:
    """The keys of the lines of a file."""
    if not out.exists():
        return set()
    return {json.loads(line)["key"] for line in out.read_text(encoding="utf-8").splitlines() if line}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("phase", choices=tuple(PHASES))
    parser.add_argument("--pack", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--keys", default="", help="separated by commas (default: all)")
    parser.add_argument("--driver", default="cuda", choices=("cuda", "stand-in"))
    parser.add_argument("--until", type=float, default=float("inf"), help="time.time() to stop at")
    parser.add_argument("--share", default="0/1", help="K/N: every N-th key from K on")
    args = parser.parse_args(argv)
    pack, have = Pack(args.pack), done(args.out)
    current = Path(f"{args.out}.current")
    first, every = map(int, args.share.split("/"))
    blobs = list(chosen(pack, args.phase, [k for k in args.keys.split(",") if k]))[first::every]
    driver: Any = None
    with args.out.open("a", encoding="utf-8", buffering=1) as out:
        for blob in blobs:
            if blob.key in have:
                continue
            if time.time() > args.until:
                break
            current.write_text(blob.key, encoding="utf-8")
            driver = driver or driver_of(args.driver)
            # A failing launch leaves a context that no later call can use: the process ends with it.
            broken = False
            try:
                line = PHASES[args.phase][1](driver, pack, blob)
            except Exception as error:
                text = " ".join(str(error).split())
                broken = type(error).__name__ in ("DriverError", "AcceleratorError")
                line = {"ok": False, "wrong": f"{type(error).__name__}: {text[:500]}"}
                traceback.print_exc()
            out.write(json.dumps({"key": blob.key, "program": blob.program[:80], **line}) + "\n")
            if broken:
                return 3
    current.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
