"""``python -m engine.compat script.py [arguments]``: run a script written for the original toolchain."""

from __future__ import annotations

import os
import runpy
import sys

from engine.compat import install


def main() -> None:
    """Run the script that the first argument names, with the others as its own."""
    if len(sys.argv) < 2:
        sys.exit("usage: python -m engine.compat script.py [arguments]")
    install()
    sys.argv = sys.argv[1:]
    sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
