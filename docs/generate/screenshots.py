"""Draws the pictures of the documentation: runs what they show and photographs it in Chromium.

Usage: python docs/generate/screenshots.py

Fails where a page is gone or Chromium is not installed.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

IMAGES = Path(__file__).resolve().parents[1] / "images"
COLOURS = 64
"""Of the palette: pages have few, and the pictures stay small."""


def photograph(page: Path, name: str, width: int, height: int) -> Path:
    """A picture of the top of ``page``, ``docs/images/NAME.png``.

    Raises:
        FileNotFoundError: there is no such page, or no Chromium.
    """
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None or not page.is_file():
        raise FileNotFoundError(f"{page if browser else 'chromium'}: is not there")
    IMAGES.mkdir(exist_ok=True)
    target = IMAGES / f"{name}.png"
    options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=8000"]
    command = [browser, *options, f"--window-size={width},{height}", f"--screenshot={target}", page.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    with Image.open(target) as picture:
        picture.convert("RGB").quantize(COLOURS).save(target, optimize=True)
    return target


def main() -> None:
    """Draw all pictures."""
    with TemporaryDirectory() as folder:
        subprocess.run([shutil.which("ptqlab") or "ptqlab", "run", "smoke", "--workdir", folder], check=True)
        print(photograph(Path(folder) / "sweeps" / "smoke" / "report.html", "sweep", 1400, 1000))


if __name__ == "__main__":
    sys.exit(main())
