"""Headless Chromium, driven through its own protocol over a pipe: no driver and no port is needed."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """Path of the browser; None if there is none."""
    return os.environ.get("QML_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Tab:
    """A page: what it says on the console, what it asks from the network, and a way to use it."""

    def __init__(self, process: subprocess.Popen[bytes], to: int, come: int) -> None:
        self._process, self._to, self._come = process, to, come
        self._buffer, self._n = b"", 0
        self.session = ""
        self.problems: list[str] = []  # errors on the console, and exceptions
        self.requests: list[str] = []  # addresses asked for, besides the page itself and data inside it

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Answer of the browser."""
        self._n += 1
        message: dict[str, Any] = {"id": self._n, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            told = self._next(120.0)
            assert told is not None, f"the browser did not answer {method}"
            if told.get("id") == self._n:
                assert "error" not in told, f"{method}: {told['error']}"
                return dict(told["result"])

    def _next(self, seconds: float) -> dict[str, Any] | None:
        end = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._come], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                return None
            self._buffer += os.read(self._come, 1 << 16)
        text, _, self._buffer = self._buffer.partition(b"\0")
        told: dict[str, Any] = json.loads(text)
        self._note(told)
        return told

    def _note(self, told: dict[str, Any]) -> None:
        method, values = told.get("method"), told.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(str(values["exceptionDetails"].get("exception", values["exceptionDetails"])))
        elif method == "Runtime.consoleAPICalled" and values["type"] in ("error", "assert"):
            self.problems.append(str([one.get("value", one.get("description")) for one in values["args"]]))
        elif method == "Log.entryAdded" and values["entry"]["level"] == "error":
            self.problems.append(values["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            address = values["request"]["url"]
            if not address.startswith(("data:", "blob:")) and values.get("type") != "Document":
                self.requests.append(address)

    def open(
        self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False, scale: float = 1.0
    ) -> float:
        """Open a file and wait until it is loaded; seconds that it took. `scale`: pixels of a picture per pixel."""
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        started = time.monotonic()
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait("document.readyState === 'complete'")
        return time.monotonic() - started

    def value(self, script: str) -> Any:
        """Value of a JavaScript expression; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, f"{script}: {answer}"
        return answer["result"].get("value")

    def wait(self, script: str, seconds: float = 120.0) -> None:
        """Wait until a JavaScript expression is true."""
        end = time.monotonic() + seconds
        while not self.value(script):
            assert time.monotonic() < end, f"never true: {script}; {self.problems}"
            time.sleep(0.05)

    def click(self, x: float, y: float) -> None:
        """Click at a place of the window."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str) -> None:
        """Press a key, such as ArrowRight."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Write what is seen as .png; `whole`: all of the page."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Tab]:
    """A browser with one tab; its profile is in `folder`."""
    program = chromium()
    assert program is not None
    ours, its_out = os.pipe()
    its_in, to = os.pipe()
    # the browser reads from descriptor 3 and writes to descriptor 4
    shell = f'exec "$0" "$@" 3<&{its_in} 4>&{its_out}'
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader", "--no-first-run",
               "--remote-debugging-pipe", f"--user-data-dir={folder}", "--disable-dev-shm-usage", "--mute-audio",
               "--disable-background-networking", "--disable-component-update", "about:blank"]  # fmt: skip
    process = subprocess.Popen(
        ["bash", "-c", shell, program, *options],
        pass_fds=(its_in, its_out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(its_in)
    os.close(its_out)
    try:
        tab = Tab(process, to, ours)
        targets = tab.call("Target.getTargets")["targetInfos"]
        page = next(one for one in targets if one["type"] == "page")
        tab.session = tab.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        tab.call("Emulation.setScrollbarsHidden", hidden=True)
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.call(f"{domain}.enable")
        yield tab
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(to)
        os.close(ours)
