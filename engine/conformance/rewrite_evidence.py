"""What recorded conversions say of passes: how much further from the original's the float graph is without one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx_ir as ir

from engine.chips import load_chip
from engine.config import parse_config
from engine.conformance.cases import RecordedCase
from engine.conformance.pairing import graph_agreement
from engine.convert.items import DATA, ORIGINAL, REQUESTS
from engine.convert.pipeline import DEFAULTS, WITHOUT_DATA
from engine.convert.runner import Given, Run
from engine.convert.stages.source import READ
from engine.errors import PtqlabError
from engine.ir import load_model
from engine.optimize import pipeline, run_pipeline
from engine.place import PlacementOptions, decomposed, place
from engine.rulebook.rewrite import rewrite_id


@dataclass(frozen=True)
class RewriteSubject:
    """What passes work on, and what the original made of it.

    Attributes:
        original: the float model with preprocessing.
        march: the BPU.
        requests: what is asked of the placement.
        theirs: the original's calibrated model.
    """

    original: ir.Model
    march: str
    requests: PlacementOptions
    theirs: ir.Model

    @classmethod
    def of(cls, case: RecordedCase) -> RewriteSubject:
        """The subject made of ``case``, which has a calibrated model.

        Raises:
            PtqlabError: the case does not convert as far.
        """
        with TemporaryDirectory(prefix="ptqlab-rules-") as folder:
            config = parse_config(case.parameters(Path(folder) / "case"), case.config)
            run = Run((READ, *WITHOUT_DATA), config, {**DEFAULTS, DATA: Given(None)})
            return cls(run[ORIGINAL], config.march.value, run[REQUESTS], load_model(case.calibrated))

    @cached_property
    def agreed(self) -> int:
        """How far the graph is the original's with all passes."""
        return self._agreement()

    @property
    def passes(self) -> tuple[str, ...]:
        """Names of the passes that change the graph, in order."""
        known = pipeline(load_chip(self.march))
        _, changed = run_pipeline(known, self.original, self.march)
        return tuple(dict.fromkeys(name for item in known if (name := type(item).__name__) in changed))

    def gained(self) -> Mapping[str, int]:
        """By id of the rule of a pass that changes the graph: how much further from the original's it is without it."""
        return {rewrite_id(name): self.gained_by(name) for name in self.passes}

    def gained_by(self, name: str) -> int:
        """How much further from the original's the graph is without the pass ``name``."""
        return self.agreed - self._agreement(name)

    def _agreement(self, *left_out: str) -> int:
        """How far the graph is the original's without some passes; nothing agrees where none can be placed."""
        passes = pipeline(load_chip(self.march)).without(*left_out)
        try:
            optimized, _ = run_pipeline(passes, self.original, self.march)
            placed = place(decomposed(optimized, self.march, self.requests), self.march, self.requests).model
        except PtqlabError:
            placed = ir.Model(ir.Graph([], [], nodes=[]), ir_version=self.original.ir_version)
        return graph_agreement(self.theirs, placed)
