"""Draws the pictures of the documentation: runs what they show and photographs it in Chromium.

Usage: python -m docs.generate.screenshots [FOLDER]

FOLDER keeps what is run; a sweep that is in it already is not run again, unless a template of a page has changed since.

Fails where a page, or an element that a picture shows, is gone, where a page reports an error or reaches beyond the
window, and where Chromium is not installed.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from engine.chips import March
from engine.convert import Draft, check
from engine.perf.report import write_report
from harness.gates.nights import read_nights
from harness.zoo.cards import load_card
from tests.browser import Browser

IMAGES = Path(__file__).resolve().parents[1] / "images"
COLOURS = 64
"""Of the palette: pages have few, and the pictures stay small."""
NARROW = 390


@dataclass(frozen=True)
class Shot:
    """One picture.

    Attributes:
        name: of the file, without ``.png``.
        page: below the folder that :func:`make` fills; an address of ``ptqlab serve`` where it begins with ``/``.
        needs: selectors of elements that must be on the page and have a size.
        width, height: of the window, in pixels; a picture is no higher.
        of: selector of the element that the picture shows; the top of the page where it is empty.
        dark: whether the page is dark.
    """

    name: str
    page: str
    needs: tuple[str, ...]
    width: int = 1400
    height: int = 1000
    of: str = ""
    dark: bool = False


SUITE = Path(__file__).with_name("scenes.yaml")
SWEEP = "work/sweeps/scenes/report.html"
SHOTS = (
    Shot(
        "sweep",
        SWEEP,
        ("#scatter .main-svg", "#chosen", "#effects .main-svg", "#trials tbody tr", "#classes"),
        height=1400,
    ),
    Shot("sweep_narrow", SWEEP, ("#scatter .main-svg", "#night", ".contents a"), NARROW, 844, dark=True),
    Shot("sweep_nodes", SWEEP, ("#depth .main-svg", "#profile .main-svg", "#depth-model"), of="#depth"),
    Shot("sweep_graph", SWEEP, ("#graph svg g.node", "#graph input[type=search]", "#graph-trial"), of="#graph"),
    Shot("sweep_samples", SWEEP, ("#worst", "#worst ~ details img"), height=400, of="#worst ~ details img"),
    Shot("trial", "work/trials/*/trial.html", ("#graph svg g.node", "img[src='worst.png']", "tr#node-1"), height=900),
    Shot(
        "explain", "explain.html", ("#graph svg g.node", "#graph input[type=search]", "tr#node-1 td.on-BPU"), height=900
    ),
    Shot("hb_perf", "perf/net/net.html", ("#structure svg g.node", "table.keys td"), height=900),
    Shot("serve", "/", ("article#suite-scenes .badge", "article#suite-scenes details"), height=320),
)


def photograph(browser: Browser, shot: Shot, address: str, folder: Path) -> Path:
    """Take ``shot`` of the page at ``address``.

    Returns:
        ``docs/images/NAME.png`` where the documentation shows it, else ``NAME.png`` in ``folder``: the page is checked.

    Raises:
        AssertionError: the page is not as ``shot`` needs it.
    """
    browser.open(address, shot.width, shot.height, dark=shot.dark)
    for selector in shot.needs:
        browser.picture(selector)
    if browser.problems or browser.overflow():
        raise AssertionError(f"{address}: {browser.problems or browser.overflow()}")
    texts = [IMAGES.parents[1] / "README.md", *IMAGES.parent.rglob("*.md")]
    is_shown = any(f"images/{shot.name}.png" in text.read_text("utf-8") for text in texts)
    target = (IMAGES if is_shown else folder) / f"{shot.name}.png"
    with Image.open(io.BytesIO(browser.picture(shot.of))) as picture:
        cut = picture.convert("RGB").crop((0, 0, picture.width, min(picture.height, shot.height)))
        cut.quantize(COLOURS, dither=Image.Dither.NONE).save(target, optimize=True)
    return target


def make(folder: Path) -> None:
    """Run what the pictures show: a sweep of two nights, and the tools on one of its networks."""
    drawn_with, templates = folder / "templates.sha256", templates_digest()
    if not drawn_with.is_file() or drawn_with.read_text("utf-8") != templates:
        shutil.rmtree(folder / "work", ignore_errors=True)
        drawn_with.write_text(templates, "utf-8")
    while len(read_nights(folder / "work" / "sweeps" / "scenes")) < 2:
        run("ptqlab", "nightly", str(SUITE), "--workdir", "work", folder=folder)
    model = load_card("scene_yolo").model_path()
    run("ptqlab", "explain", str(model), "--html", "explain.html", folder=folder)
    compiled = check(model, Draft(March("bayes-e"))).compiled
    write_report(replace(compiled, name="net"), folder / "perf")


def templates_digest() -> str:
    """SHA-256 of all templates of pages; those of a trial are drawn once, when the trial runs."""
    root = IMAGES.parents[1]
    files = sorted(path for place in ("engine", "reports") for path in (root / place).rglob("*.j2"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def run(*command: str, folder: Path) -> None:
    """Run a command of this installation in ``folder``."""
    program = Path(sys.executable).parent / command[0]
    subprocess.run([str(program), *command[1:]], check=True, cwd=folder)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of ``ptqlab serve`` on ``folder``."""
    program = Path(sys.executable).parent / "ptqlab"
    command = [str(program), "serve", "--workdir", str(folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split()[0].rstrip("/")
        finally:
            server.terminate()


def page_of(folder: Path, name: str) -> Path:
    """The page ``name``, of which a part may be ``*``, the last written of several.

    Raises:
        FileNotFoundError: there is none.
    """
    found = sorted(folder.glob(name), key=lambda path: path.stat().st_mtime)
    if not found:
        raise FileNotFoundError(f"{folder / name}: is not there")
    return found[-1]


def main() -> None:
    """Draw all pictures."""
    with TemporaryDirectory() as scratch:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else scratch).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        make(folder)
        with served(folder / "work") as server, Browser() as browser:
            for shot in SHOTS:
                page = server + shot.page if shot.page.startswith("/") else page_of(folder, shot.page).as_uri()
                print(photograph(browser, shot, page, folder))


if __name__ == "__main__":
    sys.exit(main())
