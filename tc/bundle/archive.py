"""The file of a bundle: a zip archive of a manifest and payloads, each with its digest.

Nothing in it is executed, or believed, before its digest was compared.  That finds what was altered by
chance; a bundle holds machine code and must come from someone who is trusted, as any program.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from tc.errors import ArgumentError

FORMAT, VERSION = "tc bundle", 1
_MANIFEST, _DIGEST = "manifest.json", "manifest.sha256"
_MOST_MANIFEST = 256 << 20  # bytes; what is larger was not written by this project
_WRITTEN = (1980, 1, 1, 0, 0, 0)  # the same content gives the same file
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError, NotImplementedError, RuntimeError)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def write(path: str | os.PathLike[str], manifest: Mapping[str, Any], payloads: Mapping[str, bytes]) -> None:
    """Write a bundle; the file appears whole or not at all.  ArgumentError, code TC0516, where it cannot."""
    known = {name: {"sha256": sha256(data), "bytes": len(data)} for name, data in payloads.items()}
    whole = {"format": FORMAT, "version": VERSION, **manifest, "payloads": known}
    text = json.dumps(whole, indent=1, sort_keys=False).encode()
    target = Path(path)
    temporary = target.with_name(f".{target.name}-{os.urandom(6).hex()}")
    try:
        try:
            with zipfile.ZipFile(temporary, "x", zipfile.ZIP_DEFLATED) as archive:
                files = {_MANIFEST: text, _DIGEST: sha256(text).encode(), **payloads}
                for name, data in files.items():
                    info = zipfile.ZipInfo(name, _WRITTEN)
                    info.external_attr = 0o644 << 16
                    archive.writestr(info, data, zipfile.ZIP_DEFLATED)
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as e:
        raise _unusable(path, e) from None


class Archive:
    """A bundle that was opened; `manifest` is its JSON object, of the version that is read here."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """ArgumentError: TC0516 for a file that cannot be read, TC0531 for one that is no bundle or is cut
        off, TC0532 for one that was altered, TC0533 for one of a later version."""
        self.path = os.fspath(path)
        try:
            with open(self.path, "rb") as file:
                first = file.read(4)
                if first != b"PK\x03\x04":
                    raise _no_bundle(self.path, "it is no zip archive" if first else "it is empty")
                self._open(file)
        except OSError as e:
            raise _unusable(self.path, e) from None

    def _open(self, file: Any) -> None:
        try:
            archive = zipfile.ZipFile(file)
        except _DAMAGE as e:
            raise _no_bundle(self.path, f"it is cut off or damaged ({e})") from None
        with archive:
            try:
                if archive.getinfo(_MANIFEST).file_size > _MOST_MANIFEST:
                    raise _no_bundle(self.path, "its manifest is too large")
                text, digest = archive.read(_MANIFEST), archive.read(_DIGEST).decode()
            except KeyError:
                raise _no_bundle(self.path, f"it is a zip archive without {_MANIFEST}") from None
            except _DAMAGE as e:
                raise altered(self.path, f"{_MANIFEST} cannot be read ({e})") from None
            if sha256(text) != digest.strip():
                raise altered(self.path, f"{_MANIFEST} is not what was written")
            self.manifest = self._read(text)
            self._names = frozenset(archive.namelist())

    def _read(self, text: bytes) -> dict[str, Any]:
        try:
            found = json.loads(text)
        except ValueError as e:
            raise _no_bundle(self.path, f"its manifest is no JSON ({e})") from None
        if not isinstance(found, dict) or cast("dict[str, Any]", found).get("format") != FORMAT:
            raise _no_bundle(self.path, "its manifest is that of something else")
        manifest = cast("dict[str, Any]", found)
        version = manifest.get("version")
        if not isinstance(version, int) or version < 1:
            raise malformed(self.path, f"version {version!r}")
        if version > VERSION:
            raise ArgumentError(
                f"{self.path} has version {version} of the format, and this tc reads up to {VERSION}",
                code="TC0533",
                help=f"it was written by tc {manifest.get('tc')}: install that, or export it with this one",
            )
        return manifest

    def payload(self, name: str) -> bytes:
        """A payload, whose digest is right; else ArgumentError, code TC0532."""
        known = self.manifest.get("payloads", {}).get(name)
        if known is None or name not in self._names:
            raise altered(self.path, f"{name} is missing")
        try:
            with zipfile.ZipFile(self.path) as archive:
                size = archive.getinfo(name).file_size
                data = archive.read(name) if size == known["bytes"] else b""
        except OSError as e:
            raise _unusable(self.path, e) from None
        except _DAMAGE as e:
            raise altered(self.path, f"{name} cannot be read ({e})") from None
        if sha256(data) != known["sha256"]:
            raise altered(self.path, f"{name} is not what was written")
        return data


def altered(path: str, what: str) -> ArgumentError:
    return ArgumentError(
        f"{path} was altered since it was written: {what}",
        code="TC0532",
        help="export the kernels again, or copy the file again",
    )


def malformed(path: str, what: str) -> ArgumentError:
    return _no_bundle(path, f"its manifest is malformed ({what})")


def _no_bundle(path: str, why: str) -> ArgumentError:
    return ArgumentError(
        f"{path} is not a bundle: {why}",
        code="TC0531",
        help="kernel.export(path) and python -m tc export write bundles",
    )


def _unusable(path: str | os.PathLike[str], e: OSError) -> ArgumentError:
    return ArgumentError(f"{e.filename or os.fspath(path)}: {e.strerror or e}", code="TC0516")
