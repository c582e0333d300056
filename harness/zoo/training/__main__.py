"""Command ``python -m harness.zoo.training [names...]``: train, export and measure bundled models again."""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial

from engine.errors import PtqlabError
from harness.files import paths
from harness.zoo.training.recipes import RECIPES
from harness.zoo.training.training import make


def main() -> int:
    """Exit status 0, or a PtqlabError's."""
    parser = argparse.ArgumentParser(prog="python -m harness.zoo.training", description=__doc__)
    parser.add_argument("names", nargs="*", default=list(RECIPES), help=f"of {', '.join(RECIPES)}; default: all")
    for name in parser.parse_args().names:
        started = time.monotonic()
        try:
            card = make(name, paths.bundled("suites") / "zoo", partial(_say_of, name))
        except PtqlabError as error:
            _say(f"ERROR {error}")
            return error.exit_code
        score = card.float_score
        _say(f"{name}: {card.metric.name} {score.value:.4f} ± {score.stderr:.4f}, {time.monotonic() - started:.0f} s")
    return 0


def _say_of(name: str, line: str) -> None:
    _say(f"{name}: {line}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
