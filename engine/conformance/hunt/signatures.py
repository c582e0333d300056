"""In which way a conversion departs: what groups departures, whatever the names and numbers of the network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import onnx
from pydantic import BaseModel, ConfigDict

from engine.conformance.cases import RecordedCase
from engine.conformance.departure import ComparedStage
from engine.conformance.hunt.draws import Draw
from engine.conformance.measures import Row
from engine.ir import calibration_nodes, load_model

SIMULATOR = "simulator"
"""Stage of a departure where the original's own file runs otherwise on our simulator."""

_NUMBER = re.compile(r"(?<![A-Za-z\d.])[-+]?\d+(\.\d+)?(e[-+]?\d+)?")
_CHANNELS = re.compile(r"\d+ channels, .*")
_OPTIMISED = re.compile(r"_(quantized|calibrated|HzCalibration|requantized|dequantized|transpose\w*|reshape\w*)$")


class Signature(BaseModel):
    """What two networks that depart in the same way have in common.

    Attributes:
        stage: of the conversion.
        operator: of the node where it departs, or that gives the tensor; ``weight`` or ``input`` of the network where
            none does; empty where it is not known.
        readers: operators that read the tensor, sorted.
        cause: without names and numbers.
        settings: of the calibration, where thresholds depart.
    """

    model_config = ConfigDict(frozen=True)

    stage: str
    operator: str = ""
    readers: tuple[str, ...] = ()
    cause: str = ""
    settings: str = ""

    def __str__(self) -> str:
        read = f", read by {' and '.join(self.readers)}" if self.readers else ""
        where = f" at {self.operator}{read}" if self.operator else ""
        return f"{self.stage}{where}: {self.cause}{f' ({self.settings})' if self.settings else ''}"


def signatures(row: Row, case: RecordedCase, item: Draw) -> tuple[Signature, ...]:
    """In which ways ``row`` departs: none where it agrees.

    Args:
        row: what was measured.
        case: what the original made of it.
        item: what was converted.
    """
    found = []
    if row.departure is not None:
        places = _places(case.calibrated) | _places_of(item.model)
        operator, readers = _place(row.departure.node, places)
        stage = row.departure.stage
        data = stage is ComparedStage.CALIBRATION
        found.append(
            Signature(
                stage=stage.value,
                operator=operator,
                readers=readers,
                cause=general(row.departure.cause, places),
                settings=_settings(item) if data else "",
            )
        )
    if row.simulator is False:
        places = _places(case.quantized)
        cause = general(row.simulator_message, places) or "outputs differ"
        found.append(Signature(stage=SIMULATOR, cause=cause))
    return tuple(found)


Places = Mapping[str, tuple[str, tuple[str, ...]]]
"""Operator and readers by name of a node or tensor."""


def general(text: str, places: Places) -> str:
    """``text`` with operators in place of names, and without numbers."""
    text = _CHANNELS.sub("of channels", text.partition(" at line ")[0])
    words = [_word(word, places) for word in text.split()]
    return " ".join(_NUMBER.sub("N", word) for word in words)


def _word(word: str, places: Places) -> str:
    bare = word.strip(",;:()[]'\"")
    if bare in places:
        return word.replace(bare, places[bare][0] or "tensor")
    if "/" in bare:
        return word.replace(bare, bare.rstrip("/").rpartition("/")[2])
    return re.sub(r"_\d+", "", word)


def _place(name: str, places: Places) -> tuple[str, tuple[str, ...]]:
    while name and name not in places and _OPTIMISED.search(name):
        name = _OPTIMISED.sub("", name)
    return places.get(name, ("", ()))


def _settings(item: Draw) -> str:
    calibration = item.parameters["calibration_parameters"]
    parts = [str(calibration["calibration_type"])]
    parts += ["percentile"] if "max_percentile" in calibration else []
    parts += ["per_channel"] if calibration.get("per_channel") else []
    parts += [each for each in str(calibration.get("optimization", "")).split(";") if each and "int" not in each]
    return ", ".join(parts)


def _places(path: Path) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Where each node of one of the original's files stands, calibration nodes aside."""
    if not path.is_file():
        return {}
    model = load_model(path)
    hidden = {
        str(node.outputs[0].name): str(node.inputs[0].name) for node in calibration_nodes(model) if node.inputs[0]
    }
    rows = [
        (
            str(node.name),
            node.op_type,
            [hidden.get(str(each.name), str(each.name)) for each in node.inputs if each is not None],
            [str(each.name) for each in node.outputs],
        )
        for node in model.graph
        if str(node.outputs[0].name) not in hidden
    ]
    return _gathered(rows, set(map(str, model.graph.initializers)))


def _places_of(model: onnx.ModelProto) -> dict[str, tuple[str, tuple[str, ...]]]:
    rows = [(node.name, node.op_type, list(node.input), list(node.output)) for node in model.graph.node]
    return _gathered(rows, {each.name for each in model.graph.initializer})


def _gathered(
    rows: list[tuple[str, str, list[str], list[str]]], constants: set[str]
) -> dict[str, tuple[str, tuple[str, ...]]]:
    readers: dict[str, set[str]] = {}
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for _, operator, inputs, _outputs in rows:
        for name in inputs:
            readers.setdefault(name, set()).add(operator)
    for name in readers:
        found[name] = ("weight" if name in constants else "input", tuple(sorted(readers[name])))
    for _, operator, _inputs, outputs in rows:
        for name in outputs:
            found[name] = (operator, tuple(sorted(readers.get(name, ()))))
    for name, operator, _inputs, _outputs in rows:
        found[name] = (operator, ())
    return found
