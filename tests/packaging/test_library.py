"""tc.halide.load_library: what it says when halide does not fit."""

from __future__ import annotations

import importlib.util
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

from tc import halide
from tc.errors import BackendError

BUILT = metadata.version("halide")


@pytest.fixture(autouse=True)
def fresh() -> None:
    halide.load_library.cache_clear()


def refusal() -> BackendError:
    with pytest.raises(BackendError) as caught:
        halide.load_library()
    assert caught.value.code == "TC0807"
    return caught.value


def pretend(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let `folder` be where the import system finds halide."""
    (folder / "halide").mkdir()
    (folder / "halide/__init__.py").touch()
    spec = importlib.util.spec_from_file_location(
        "halide", folder / "halide/__init__.py", submodule_search_locations=[str(folder / "halide")]
    )
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)


def test_the_installed_halide_is_found() -> None:
    assert (halide.load_library() / "lib64/libHalide.so").exists()


def test_another_version_is_refused_before_it_is_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(monkeypatch, tmp_path)
    (tmp_path / "halide-19.0.0.dist-info").mkdir()
    error = refusal()
    assert error.message == f"tc was built against halide {BUILT}, but 19.0.0 is installed"
    assert error.help is not None
    assert error.help.endswith(f"pip install halide=={BUILT}")


def test_a_halide_without_metadata_has_an_unknown_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(monkeypatch, tmp_path)

    def nothing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", nothing)
    assert "an unknown version is installed" in refusal().message


def test_metadata_elsewhere_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pretend(monkeypatch, tmp_path)
    monkeypatch.setattr(metadata, "version", lambda name: "21.9.9")
    assert "but 21.9.9 is installed" in refusal().message


def test_a_missing_halide_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    error = refusal()
    assert error.message == "halide is not installed"
    assert error.help is not None
    assert f"pip install halide=={BUILT}" in error.help


def test_a_halide_without_its_library_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pretend(monkeypatch, tmp_path)
    (tmp_path / f"halide-{BUILT}.dist-info").mkdir()
    error = refusal()
    assert error.message.startswith("libHalide cannot be loaded: ")
    assert error.help is not None
    assert "--force-reinstall" in error.help


def test_an_extension_that_was_not_built_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tc._build_info", None)
    error = refusal()
    assert error.message == "the extension tc._halide has not been built"
    assert error.help == "run: pip install -e ."


def test_the_build_info_names_the_halide_that_is_installed() -> None:
    info: ModuleType = importlib.import_module("tc._build_info")
    from tc.halide.solve import simplify

    assert simplify(("+", "x", 0)) == "x"
    assert importlib.import_module("tc._halide").HALIDE_VERSION == info.HALIDE_VERSION == BUILT
