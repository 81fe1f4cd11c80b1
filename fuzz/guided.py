"""Malformed texts that coverage guides, where atheris is installed (`pip install atheris`).

    python -m fuzz.guided [FOLDER …] [-max_total_time=60] [-runs=100000]

Arguments are libFuzzer's; without a folder the seeds' programs are the corpus to begin with.  Half of the
changes are libFuzzer's own, of bytes, and half those of `fuzz.malformed`, of tokens.  An exception other than
`tc.Error` ends the run, and its text is left in a file `crash-…`.
"""

from __future__ import annotations

import importlib
import random
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any


def _tokens_changed(data: bytes, longest: int, seed: int) -> bytes:
    """The text with tokens changed as `fuzz.malformed` does, or another one of its."""
    from fuzz import malformed

    rng = random.Random(seed)
    text = data.decode("utf-8", errors="replace")
    made = malformed.changed(text, rng) if text and rng.random() < 0.9 else malformed.text(rng)
    return made.encode("utf-8", errors="replace")[:longest]


def main(argv: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    try:
        atheris: Any = importlib.import_module("atheris")
    except ImportError:
        sys.stderr.write("fuzz.guided needs atheris: pip install atheris\n")
        return 2
    with atheris.instrument_imports(include=["tc.lang", "tc.ranges", "tc.ir", "tc.pipeline"]):
        importlib.import_module("tc.api")  # and all that it needs: `tc` alone imports on demand
    malformed: ModuleType = importlib.import_module("fuzz.malformed")

    def once(data: bytes) -> None:
        malformed.attempt(data.decode("utf-8", errors="surrogateescape"))

    def mutated(data: bytes, longest: int, seed: int) -> bytes:
        if seed % 2:
            return bytes(atheris.Mutate(data, longest))
        return _tokens_changed(data, longest, seed)

    with tempfile.TemporaryDirectory(prefix="tc-guided-") as name:
        folders = [a for a in arguments if not a.startswith("-")]
        if not folders:
            for i, source in enumerate(malformed.SEEDS):
                (Path(name) / str(i)).write_text(source, encoding="utf-8")
            folders = [name]
        options = [a for a in arguments if a.startswith("-")]
        atheris.Setup([sys.argv[0], *options, *folders], once, custom_mutator=mutated)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
