"""What the scale of a quantised tensor follows from: one record on its ``HzCalibration``, written by the placement."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import onnx_ir as ir

from engine.errors import ModelError

MARK_SCALE = "hz.scale"


@dataclass(frozen=True)
class ScaleSource:
    """Where the threshold of a tensor comes from; by default from its own values.

    Attributes:
        of: name of the float tensor whose threshold it takes.
        values: name of the tensor whose values give the threshold, where it is a moved form of that one.
        largest: tensors, or thresholds that are fixed: the largest of their thresholds is the one.
        factor: what the threshold that data give is multiplied by.
        fixed: the threshold, where it does not depend on data.
        rules: ids of the rules that decided it.
    """

    of: str | None = None
    values: str | None = None
    largest: tuple[str | float, ...] | None = None
    factor: float = 1.0
    fixed: float | None = None
    rules: tuple[str, ...] = ()

    @property
    def follows(self) -> bool:
        """Whether the threshold is that of another tensor, or the largest of several."""
        return self.of is not None or self.largest is not None


OWN = ScaleSource()
"""The threshold is that of the tensor's own values."""


def scale_source(node: ir.Node) -> ScaleSource:
    """What ``node`` carries; :data:`OWN` where it carries nothing.

    Raises:
        ModelError: what it carries was not written by :func:`set_scale_source`.
    """
    text = node.metadata_props.get(MARK_SCALE)
    if text is None:
        return OWN
    try:
        found = json.loads(text)
        largest, rules = found.pop("largest", None), found.pop("rules", ())
        return ScaleSource(largest=None if largest is None else tuple(largest), rules=tuple(rules), **found)
    except (ValueError, TypeError, AttributeError) as error:
        raise ModelError(
            f"node {node.name}: {MARK_SCALE} is {text!r}, not a source of a scale that this version knows"
        ) from error


def set_scale_source(node: ir.Node, source: ScaleSource) -> None:
    """Let ``node`` carry ``source``; nothing where that is :data:`OWN`."""
    found: dict[str, Any] = {
        key: value
        for key, value in vars(source).items()
        if value is not None and value != () and (key, value) != ("factor", 1.0)
    }
    if found:
        node.metadata_props[MARK_SCALE] = json.dumps(found)
    else:
        node.metadata_props.pop(MARK_SCALE, None)


def change_scale_source(node: ir.Node, **changes: Any) -> None:
    """Change what ``node`` carries: ``changes`` are attributes of :class:`ScaleSource`."""
    set_scale_source(node, replace(scale_source(node), **changes))
