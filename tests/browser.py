"""A browser without a window that tests look at pages with: Debian's chromium, by its DevTools protocol.

The protocol runs over two pipes (https://chromedevtools.github.io/devtools-protocol): no port is opened, and
no package is needed.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from fcntl import F_DUPFD_CLOEXEC, fcntl
from pathlib import Path
from select import select
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb", "--remote-debugging-pipe",
)  # fmt: skip
_PATIENCE = 60.0  # seconds for an answer, after which the browser is taken for dead


def program() -> str:
    """The browser; a test is skipped without one."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip("there is no browser: apt-get install --no-install-recommends chromium")
    return found


class Page:
    """A page in a browser: `problems` are what the console and the loader complained of, `requests` the
    addresses that were asked for."""

    def __init__(self, writes: int, reads: int) -> None:
        self._writes, self._reads = writes, reads
        self._count, self._bytes = 0, b""
        self.at = [0.0, 0.0]  # where the mouse is
        self._events: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self.requests: list[str] = []
        target = self._send("Target.createTarget", {"url": "about:blank"}, session=None)["targetId"]
        attach = {"targetId": target, "flatten": True}
        self._session: str | None = self._send("Target.attachToTarget", attach, session=None)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the protocol, and wait for its answer."""
        return self._send(method, parameters, session=self._session)

    def open(self, path: Path, width: int = 1500, height: int = 1000) -> None:
        """Open a file, and wait until it is loaded."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        self._events.clear()
        self.send("Page.navigate", url=path.resolve().as_uri())
        while not any(e["method"] == "Page.loadEventFired" for e in self._events):
            self._take(self._receive())

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def point_at(self, selector: str) -> None:
        """Move the mouse to the middle of the first line of an element."""
        self.at = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'nearest'}); const b = e.getClientRects()[0];"
            "return [b.x + b.width / 2, b.y + b.height / 2] })()"
        )
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=self.at[0], y=self.at[1])

    def click(self) -> None:
        """Click where the mouse is."""
        for kind in ("mousePressed", "mouseReleased"):
            where = {"x": self.at[0], "y": self.at[1], "button": "left", "clickCount": 1}
            self.send("Input.dispatchMouseEvent", type=kind, **where)

    def press(self, key: str) -> None:
        """Press a key and release it."""
        codes = {"Tab": 9, "Escape": 27, "Enter": 13}
        more = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        self.send("Input.dispatchKeyEvent", type="keyDown", **more)
        self.send("Input.dispatchKeyEvent", type="keyUp", **more)

    def screenshot(self, path: Path) -> bytes:
        """The whole page as a PNG, also written to a file."""
        found = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(data := base64.b64decode(found["data"]))
        return data

    def _send(self, method: str, parameters: dict[str, Any], session: str | None) -> dict[str, Any]:
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._writes, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._count:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self._take(answer)

    def _receive(self) -> dict[str, Any]:
        end = time.monotonic() + _PATIENCE
        while b"\0" not in self._bytes:
            ready, _, _ = select([self._reads], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            got = os.read(self._reads, 1 << 20)
            assert got, "the browser has ended"
            self._bytes += got
        message, _, self._bytes = self._bytes.partition(b"\0")
        return json.loads(message)

    def _take(self, event: dict[str, Any]) -> None:
        if "method" not in event:
            return
        self._events.append(event)
        details = event["params"]
        match event["method"]:
            case "Runtime.exceptionThrown":
                self.problems.append(json.dumps(details["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if details["type"] in ("error", "warning", "assert"):
                self.problems.append(json.dumps(details["args"]))
            case "Log.entryAdded" if details["entry"]["level"] in ("error", "warning"):
                self.problems.append(details["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(details["request"]["url"])
            case _:
                pass


@contextmanager
def browser() -> Generator[Page]:
    """A page in a browser of its own, which ends with the context."""
    command = program()
    to_read, writes = os.pipe()
    reads, to_write = os.pipe()
    ends = [fcntl(end, F_DUPFD_CLOEXEC, 10) for end in (to_read, to_write)]

    # Not by `subprocess`: its `preexec_fn` forks, of which JAX complains.
    with tempfile.TemporaryDirectory(prefix="tc-browser-", ignore_cleanup_errors=True) as profile:
        nothing = [(os.POSIX_SPAWN_OPEN, n, os.devnull, os.O_RDWR, 0) for n in range(3)]
        pipes = [(os.POSIX_SPAWN_DUP2, ends[0], 3), (os.POSIX_SPAWN_DUP2, ends[1], 4)]
        arguments = [command, *_FLAGS, f"--user-data-dir={profile}"]
        process = os.posix_spawn(command, arguments, os.environ, file_actions=[*nothing, *pipes], setpgroup=0)
        for end in (to_read, to_write, *ends):
            os.close(end)
        try:
            yield Page(writes, reads)
        finally:
            os.close(writes)  # which ends the browser
            os.close(reads)
            _wait(process)


def _wait(process: int) -> None:
    """Wait until the browser has ended, and end it if it does not."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if os.waitpid(process, os.WNOHANG)[0]:
            return
        time.sleep(0.02)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
