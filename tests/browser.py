"""A page in Chromium, over the DevTools protocol: its elements, keys, pictures, and what its console says."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")

needs_browser = pytest.mark.skipif(BROWSER is None, reason="needs chromium")

_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--hide-scrollbars",
    "--disable-gpu",
    "--remote-debugging-pipe",
    "--no-first-run",
)


class Browser:
    """One tab. It is closed at the end of a ``with`` block.

    Attributes:
        problems: what the console reported as errors, and what the content security policy refused.
    """

    def __init__(self) -> None:
        if BROWSER is None:
            raise FileNotFoundError("chromium: is not installed")
        self.problems: list[str] = []
        self._profile = tempfile.mkdtemp(prefix="browser-")
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        command = [BROWSER, *_FLAGS, f"--user-data-dir={self._profile}", "about:blank"]
        wrapped = ["bash", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "browser", *command]
        self._process = subprocess.Popen(
            wrapped, pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_browser)
        os.close(from_browser)
        self._left, self._count, self._session = b"", 0, ""
        (target,) = [each for each in self._ask("Target.getTargets")["targetInfos"] if each["type"] == "page"]
        attached = self._ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._ask(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
        shutil.rmtree(self._profile, ignore_errors=True)

    def open(self, address: str, width: int = 1400, height: int = 1000, *, dark: bool = False) -> None:
        """Show ``address`` in a window of this size and wait until all of it is loaded and drawn."""
        self._ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", features=[scheme])
        self._ask("Page.navigate", url=address)
        loaded = "location.href.split('#')[0] !== 'about:blank' && document.readyState === 'complete'"
        self.wait(f"{loaded} && (!document.getElementById('main-script') || document.documentElement.dataset.drawn)")

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        found = self._ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"]["exception"].get("description", "no description"))
        return found["result"].get("value")

    def metrics(self) -> dict[str, float]:
        """Chromium's figures of the page; durations are seconds of CPU time of its main thread."""
        self._ask("Performance.enable", timeDomain="threadTicks")
        return {each["name"]: each["value"] for each in self._ask("Performance.getMetrics")["metrics"]}

    def wait(self, expression: str, seconds: float = 60.0) -> None:
        """Until a JavaScript expression is true.

        Raises:
            AssertionError: it does not become so.
        """
        end = time.monotonic() + seconds
        while not self.run(f"Boolean({expression})"):
            if time.monotonic() > end:
                raise AssertionError(f"{expression}: is still false after {seconds} s; console: {self.problems}")
            time.sleep(0.05)

    def press(self, key: str, code: str = "", text: str = "") -> None:
        """A key, as ``KeyboardEvent.key`` names it."""
        codes = {"Tab": 9, "Enter": 13, " ": 32, "ArrowDown": 40, "ArrowRight": 39}
        for kind in ("keyDown", "keyUp"):
            self._ask(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=code or key,
                windowsVirtualKeyCode=codes.get(key, ord(key[0])),
                **({"text": "\r" if key == "Enter" else text or key} if len(key) == 1 or key == "Enter" else {}),
            )

    def picture(self, selector: str = "", *, whole: bool = False) -> bytes:
        """A PNG of what is to be seen, of the element ``selector``, or of the whole page."""
        options: dict[str, Any] = {}
        if selector:
            box = self.run(
                f"(r => r && {{x: r.x + scrollX, y: r.y + scrollY, width: r.width, height: r.height}})"
                f"(document.querySelector({json.dumps(selector)})?.getBoundingClientRect())"
            )
            if not box or not box["width"] or not box["height"]:
                raise AssertionError(f"{selector}: is not on the page")
            options = {"clip": {**box, "scale": 1}, "captureBeyondViewport": True}
        elif whole:
            size = self._ask("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 12000), "scale": 1}
            options = {"clip": clip, "captureBeyondViewport": True}
        return base64.b64decode(self._ask("Page.captureScreenshot", format="png", **options)["data"])

    def overflow(self) -> list[str]:
        """Elements that reach beyond the window's right side and are not scrolled within another one."""
        return list(
            self.run(
                """[...document.querySelectorAll("main *")].filter(each => {
                  if (each.getBoundingClientRect().right <= innerWidth + 1) return false;
                  for (let above = each.parentElement; above; above = above.parentElement) {
                    if (["auto", "scroll", "hidden"].includes(getComputedStyle(above).overflowX)) return false;
                  }
                  return !each.closest("svg");
                }).map(each => each.tagName + "#" + each.id + "." + each.getAttribute("class"))"""
            )
        )

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']['message']}")
                return dict(answer["result"])
            self._note(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            chunk = os.read(self._read, 1 << 20)
            if not chunk:
                raise AssertionError("the browser is gone")
            self._left += chunk
        line, _, self._left = self._left.partition(b"\0")
        return dict(json.loads(line))

    def _note(self, event: dict[str, Any]) -> None:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(parameters["exceptionDetails"]["exception"].get("description", "an exception"))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.problems.append(parameters["entry"]["text"])


@contextmanager
def opened(page: Path, width: int = 1400, height: int = 1000, *, dark: bool = False) -> Iterator[Browser]:
    """A browser that shows the file ``page``."""
    with Browser() as browser:
        browser.open(page.resolve().as_uri(), width, height, dark=dark)
        yield browser
