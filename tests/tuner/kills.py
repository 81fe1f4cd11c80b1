"""kill -9 at random moments of a search, resumed: `PYTHONPATH=. python -m tests.tuner.kills [MOMENTS]`."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tc.tuned.records import Records


def killed(folder: Path, where: Path, start: Callable[..., Any], moments: int) -> None:
    """Searches that are killed leave whole records, no process, and lose at most the candidate that ran."""
    rng = random.Random(moments)
    records, before, failed = Records(where), 0, set[str]()
    for seed in range(moments):
        running = start(folder, seed, budget=60.0)
        wanted = rng.randrange(1, 12)
        for _ in range(wanted):
            running.stdout.readline()
        time.sleep(rng.random() * 0.1)
        running.kill()
        running.communicate()
        found = records.scan()
        assert found.foreign <= seed + 1, "at most one torn line a kill"
        assert len(found.records) >= before
        mine = [r for r in found.records if r.status not in ("ok", "pruned")]
        names = [str(dict(r.options)) for r in mine]
        assert len(names) == len(set(names)), "what failed is not tried again"
        assert failed <= set(names)
        before, failed = len(found.records), set(names)
    last = start(folder, 99, trials=3)
    assert "done" in last.communicate()[0] and last.returncode == 0
    assert len(records.scan().records) > before


if __name__ == "__main__":
    import json
    import os
    import shutil
    import sys
    import tempfile

    from tests.tuner.test_tune import program

    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        entry = home / "plugin" / "faulty-1.0.dist-info"
        entry.mkdir(parents=True)
        shutil.copy(Path(__file__).parent / "faulty.py", home / "plugin" / "faulty_backend.py")
        (entry / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n")
        (entry / "entry_points.txt").write_text("[tc.backends]\nfaulty = faulty_backend:Backend\n")
        faults = {"1": "crash", "16": "wrong", "256": "leak", "1024": "hang"}
        (home / "plan.json").write_text(json.dumps({"faults": faults, "base_us": 100}))
        os.environ["FAULTY_PLAN"] = str(home / "plan.json")
        os.environ["TC_TUNE_DIR"] = str(home / "records")
        moments = int(sys.argv[1]) if len(sys.argv) > 1 else 50
        killed(home / "plugin", home / "records", program, moments)
        sys.stdout.write(f"{moments} kills, {len(Records(home / 'records').scan().records)} records whole\n")
