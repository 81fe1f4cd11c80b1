"""What every test may use: golden files, the passes' oracles switched on, a cache of its own on disk."""

from __future__ import annotations

import difflib
import gc
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from tests.share import leave_out

GOLDEN = Path(__file__).parent / "golden"

# No test measures time; where a change is judged (CI=true) the examples are the same in every run.
settings.register_profile("tc", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("tc")

# Set before tc is imported, so that child processes and xdist's workers have it too.
os.environ["TC_VERIFY"] = "1"

# Modules stay: until all tests are collected no garbage is looked for (pytest_collection_finish).
gc.disable()

# No test sees or fills the user's own kernels and records of measurements.
_CACHE = tempfile.TemporaryDirectory(prefix="tc-tests-")
os.environ["TC_CACHE_DIR"] = str(Path(_CACHE.name, "cache"))
os.environ["POCL_CACHE_DIR"] = str(Path(_CACHE.name, "pocl"))
os.environ["TC_TUNE_DIR"] = str(Path(_CACHE.name, "tuning"))
os.environ.pop("TC_TUNED", None)
os.environ.pop("TC_CACHE", None)
os.environ.pop("TC_CACHE_MIB", None)
os.environ.pop("TC_RESULT_POOL_MIB", None)
os.environ.pop("TC_OPENCL_DEVICE", None)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    leave_out(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Exclude from garbage collection the objects that live until the end: that saves a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.enable()
    # Modules may generate code while they are collected, to find out what the machine can run.
    if session.config.getoption("--no-code"):
        from tests.no_code import forbid

        forbid()


def pytest_unconfigure() -> None:
    _CACHE.cleanup()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-code", action="store_true", help="skip a test where it would generate code")
    parser.addoption(
        "--update-golden", action="store_true", help="write tests/golden/* from what the tests see now"
    )


@pytest.fixture(autouse=True)
def _oracles(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("unverified") is not None:
        monkeypatch.setenv("TC_VERIFY", "0")
        monkeypatch.setenv("TC_CACHE", "0")  # each pass still runs


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)`: `text` equals the file tests/golden/`name`, which --update-golden writes.

    Nothing is normalised here: a test gives a text without addresses, times and paths, ending in one newline.
    """

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if not path.resolve().is_relative_to(GOLDEN.resolve()):
            pytest.fail(f"the golden file {name} lies outside tests/golden")
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            return
        hint = "run `make golden` (pytest --update-golden), look at the diff and commit it"
        if not path.exists():
            pytest.fail(f"tests/golden/{name} does not exist: {hint}")
        expected = path.read_text(encoding="utf-8")
        if text != expected:
            diff = difflib.unified_diff(
                expected.splitlines(), text.splitlines(), f"tests/golden/{name}", "now", lineterm=""
            )
            lines = list(diff) or ["(they differ in line ends only)"]
            pytest.fail("\n".join([*lines, "", f"if that is meant: {hint}"]), pytrace=False)

    return check
