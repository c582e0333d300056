"""Runs as a program in the user's own Python, which has ultralytics or torch, and never in the process of ptqlab.

A checkpoint is a pickle: whoever opens it runs what is in it. This file imports nothing of ptqlab and keeps to Python
3.8. Its one argument is a file with the job (JSON); it writes ``network.onnx`` and ``reply.json`` beside that.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

OPSET = 11
RAW = ("Detect", "v10Detect")
"""Heads of ultralytics whose maps are boxes and classes."""
RAW_AND_MORE = ("Segment", "Pose", "OBB")
"""Heads with a third map per stride: coefficients of masks, key points, angles."""


def raw_maps(head: Any, maps: list[Any]) -> list[Any]:
    """Boxes and class logits of every stride as the convolutions give them: what the head decodes is left out.

    A head that was trained end to end (YOLOv10, YOLO26) gives the maps of its one-to-one branch.
    """
    boxes, classes = head.cv2, head.cv3
    if getattr(head, "one2one_cv2", None) is not None and (boxes is None or getattr(head, "end2end", False)):
        boxes, classes = head.one2one_cv2, head.one2one_cv3
    more = head.cv4 if type(head).__name__ in RAW_AND_MORE else None
    found = []
    for level in range(head.nl):
        found += [boxes[level](maps[level]), classes[level](maps[level])]
        found += [] if more is None else [more[level](maps[level])]
    return found + ([head.proto(maps[0])] if hasattr(head, "proto") else [])


def names_of_head(head: Any) -> list[str]:
    """Names of what :func:`raw_maps` gives."""
    kinds = ["box", "cls"]
    if type(head).__name__ in RAW_AND_MORE:
        kinds.append({"Segment": "mask", "Pose": "kpt", "OBB": "angle"}[type(head).__name__])
    names = [kind + str(int(stride)) for stride in head.stride for kind in kinds]
    return names + (["proto"] if hasattr(head, "proto") else [])


def without_decoding(head: Any) -> dict[str, Any]:
    """Make ``head`` give raw maps, or logits in place of probabilities; says what its outputs are then."""
    kind = type(head)
    whole = {"head": kind.__name__, "is_raw": False, "outputs": []}
    if kind.__name__ in RAW or (kind.__name__ in RAW_AND_MORE and getattr(head, "one2one_cv2", None) is None):
        names = names_of_head(head)
        kind.forward = raw_maps
        return {**whole, "is_raw": True, "outputs": names}
    if kind.__name__ == "Classify":
        kind.forward = logits_of(kind.forward)
        return {**whole, "is_raw": True}
    return whole


def export_options(head: Any, is_raw: bool) -> dict[str, Any]:
    """What ultralytics is told: from 8.4.142 on it leaves the one-to-one branch out, unless ``nms=False`` keeps it."""
    options = {"opset": OPSET, "simplify": False, "dynamic": False, "batch": 1, "device": "cpu"}
    has_branch = getattr(head, "one2one_cv2", None) is not None
    return {**options, "nms": False} if is_raw and has_branch else options


def logits_of(forward: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A classifier's ``forward`` as while training, without the Softmax; its layers stay as they are."""

    def logits(head: Any, maps: Any) -> Any:
        head.training = True
        found = forward(head, maps)
        head.training = False
        return found

    return logits


def export_checkpoint(job: dict[str, Any]) -> dict[str, Any]:
    """Let ultralytics export its own checkpoint, which lies beside the job under the name that it had."""
    os.environ.setdefault("YOLO_AUTOINSTALL", "False")  # nothing is installed into the user's environment
    ultralytics = importlib.import_module("ultralytics")
    network = ultralytics.YOLO(job["path"])
    head = network.model.model[-1]
    whole = {"head": type(head).__name__, "is_raw": False, "outputs": []}
    said = whole if job["decoded"] else without_decoding(head)
    size = {} if job["size"] is None else {"imgsz": job["size"]}
    made = network.export(format="onnx", **export_options(head, bool(said["is_raw"])), **size)
    os.replace(str(made), job["network"])
    return {**said, "version": "ultralytics " + str(ultralytics.__version__)}


def export_script(job: dict[str, Any]) -> dict[str, Any]:
    """Export TorchScript."""
    torch = importlib.import_module("torch")
    module = torch.jit.load(job["path"], map_location="cpu").eval()
    names = [argument.name for argument in module.forward.schema.arguments[1:]]
    write_network(torch, module, names, [shape_for(job, name, names, None) for name in names], job["network"])
    return {"version": "torch " + str(torch.__version__)}


def export_program(job: dict[str, Any]) -> dict[str, Any]:
    """Export a program of ``torch.export``, traced: torch has no other way to opset 11."""
    torch = importlib.import_module("torch")
    program = torch.export.load(job["path"])
    names = list(program.graph_signature.user_inputs)
    known = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    shapes = [shape_for(job, name, names, known.get(name)) for name in names]
    module = program.module()
    traced = torch.jit.trace(module, tuple(torch.zeros(*shape) for shape in shapes), check_trace=False)
    write_network(torch, traced, names, shapes, job["network"])
    return {"version": "torch " + str(torch.__version__)}


def shape_for(job: dict[str, Any], name: str, names: list[str], example: Any) -> list[int]:
    """The shape of an input: asked for by its name, by none if it is the only one, or that of the file."""
    shapes = job["shapes"]
    strangers = sorted(set(shapes) - set(names))
    if strangers:
        raise ValueError("--input-shape " + strangers[0] + ": the inputs are " + ", ".join(names))
    if name in shapes:
        return list(shapes[name])
    if example is not None and all(isinstance(size, int) for size in example.shape):
        return list(example.shape)
    if job["image"] is not None and len(names) == 1:
        return list(job["image"])
    raise ValueError("the file does not say the shape of its input " + name + ": give --input-shape " + name + "=SHAPE")


def write_network(torch: Any, module: Any, names: list[str], shapes: list[list[int]], path: str) -> None:
    """Export ``module`` with inputs of these shapes, float32."""
    options = {"opset_version": OPSET, "input_names": names, "do_constant_folding": True}
    try:
        torch.onnx.export(module, tuple(torch.zeros(*shape) for shape in shapes), path, dynamo=False, **options)
    except TypeError as error:  # versions before 2.5 have the one exporter and no word for it
        if "dynamo" not in str(error):
            raise
        torch.onnx.export(module, tuple(torch.zeros(*shape) for shape in shapes), path, **options)


JOBS = {"checkpoint": export_checkpoint, "TorchScript": export_script, "torch.export": export_program}


def main(path: str) -> int:
    """Do the job in the file ``path``; 0 if the network was written."""
    with open(path, encoding="utf-8") as file:
        job = json.load(file)
    folder = os.path.dirname(os.path.abspath(path))
    job["network"] = os.path.join(folder, "network.onnx")
    try:
        reply = JOBS[job["format"]](job)
    except Exception as error:  # noqa: BLE001 - whatever strangers' code raises is told to whoever started this
        reply = {"error": type(error).__name__ + ": " + str(error)}
    with open(os.path.join(folder, "reply.json"), "w", encoding="utf-8") as file:
        json.dump(reply, file)
    return int("error" in reply)


if __name__ == "__main__":
    del sys.path[0]  # the folder of this file, whose modules are ptqlab's
    sys.exit(main(sys.argv[1]))
