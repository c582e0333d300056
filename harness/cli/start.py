"""The console scripts of the harness; see :mod:`engine.cli.start`."""

from __future__ import annotations

from engine.cli.start import command

ptqlab = command("harness.cli.main")
hb_eval_preprocess = command("harness.cli.eval_preprocess")
