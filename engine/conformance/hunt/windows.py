"""Draws out of a network of the user's own: connected parts of it, with its weights."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from engine.chips import DEFAULT_MARCH, March
from engine.conformance.hunt.cutting import cut_out
from engine.conformance.hunt.draws import Draw, draw_options
from engine.conformance.hunt.shrinking import neighbours
from engine.conformance.questions.network import SAMPLES
from engine.errors import ModelError
from engine.frontend import load_network

LEAST_NODES, MOST_NODES = 3, 24
ATTEMPTS = 50
"""How many places are tried for a window before the network is said to have none."""


@dataclass(frozen=True)
class UserNetwork:
    """A network that windows are taken from.

    Attributes:
        name: of its file.
        whole: all of it, with data.
    """

    name: str
    whole: Draw

    @classmethod
    def read(cls, path: Path) -> UserNetwork:
        """The network ``path``, with normal numbers as data.

        Raises:
            ModelError: it cannot be read, or its inputs are no float32.
        """
        proto = ir.to_proto(load_network(path))
        rng, data = np.random.default_rng(0), {}
        constants = {each.name for each in proto.graph.initializer}
        for value in proto.graph.input:
            if value.name in constants:
                continue
            if value.type.tensor_type.elem_type != onnx.TensorProto.FLOAT:
                raise ModelError(f"{path}: input {value.name} is no float32; windows need numbers")
            shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            data[value.name] = rng.normal(size=(SAMPLES, *shape)).astype(np.float32)
        count = len(data)
        inputs = {
            "input_name": ";".join(data),
            **{key: ";".join(["featuremap"] * count) for key in ("input_type_train", "input_type_rt")},
            **{key: ";".join(["NCHW"] * count) for key in ("input_layout_train", "input_layout_rt")},
            "norm_type": ";".join(["no_preprocess"] * count),
        }
        parameters = {"model_parameters": {}, "input_parameters": inputs, "calibration_parameters": {}}
        parameters["compiler_parameters"] = {}
        return cls(path.name, Draw(path.stem, proto, data, DEFAULT_MARCH, (), (), parameters))

    def window(self, seed: int, index: int, marches: Sequence[March]) -> Draw:
        """The window number ``index``: a node, and what is connected with it up to a drawn number of nodes.

        Raises:
            ModelError: no part of the network can be converted by itself.
        """
        rng = random.Random(f"window-{seed}-{index}")
        names = [node.name for node in self.whole.model.graph.node]
        for _ in range(ATTEMPTS):
            part = cut_out(self.whole, self._around(rng, rng.choice(names)))
            if part is None or any(min(values.shape) < 1 for values in part.data.values()):
                continue
            options = draw_options(rng, part.model, marches, images=False)
            return replace(
                part,
                name=f"window_{seed}_{index}",
                march=options.march,
                options=options.labels,
                blocks=tuple(sorted({node.op_type for node in part.model.graph.node})),
                parameters=options.parameters,
            )
        raise ModelError(f"{self.name}: no part of it can be converted by itself ({ATTEMPTS} places tried)")

    def _around(self, rng: random.Random, centre: str) -> list[str]:
        """Names of up to :data:`MOST_NODES` nodes around ``centre``."""
        wanted, kept, radius = rng.randint(LEAST_NODES, MOST_NODES), [centre], 0
        while len(kept) < wanted and radius < wanted:
            radius += 1
            more = neighbours(self.whole.model, centre, radius)
            if len(more) > 2 * MOST_NODES or len(more) == len(kept):
                break
            kept = more
        return kept
