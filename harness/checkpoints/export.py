"""A file of PyTorch as an ONNX file for the BPU: opset 11, a static shape, raw heads."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from engine.errors import ModelError, OutputError
from engine.ir import write_atomically
from engine.toolchain.command import CUT_OFF
from engine.visible import visible
from harness.checkpoints import in_user_python
from harness.checkpoints.formats import TorchFormat, last_line, said_of, torch_format
from harness.checkpoints.user_python import OPTION, python_with
from harness.extras import how_to_install
from harness.files.cache import content_key
from harness.onboarding.exporters import read_exported
from harness.onboarding.proposal import card_name

if TYPE_CHECKING:
    import onnx

_MOST_SECONDS = 1800.0
_SCRIPT = Path(in_user_python.__file__)


@dataclass(frozen=True)
class ExportWishes:
    """What the user says of an export.

    Attributes:
        python: interpreter of their environment, or its folder; None to look for one.
        decoded: whether a detector keeps the decoding of its boxes, and a classifier its Softmax.
        size: height and width of the image input; None for what the file says.
        shapes: of inputs, by name.
    """

    python: Path | None = None
    decoded: bool = False
    size: tuple[int, int] | None = None
    shapes: Mapping[str, Sequence[int]] | None = None


@dataclass(frozen=True)
class ExportedNetwork:
    """What an export gave.

    Attributes:
        path: the ONNX file.
        words: by what, and with which head.
        is_new: whether it was made now, not earlier.
    """

    path: Path
    words: str
    is_new: bool = True


def export_network(path: Path, folder: Path, wishes: ExportWishes) -> ExportedNetwork:
    """The network in ``path`` as an ONNX file below ``folder``, made once for a file and what is wished.

    The file is opened in the user's own Python, in a process of its own: a checkpoint is a pickle, and runs what is in
    it.

    Args:
        path: checkpoint of ultralytics, TorchScript, or a program of ``torch.export``.
        folder: of exported networks.
        wishes: of the user.

    Raises:
        MissingError: no Python is found that has what opens ``path``.
        ModelError: ``path`` is no file of PyTorch, or cannot be exported.
        OutputError: ``folder`` cannot be written.
    """
    kind = torch_format(path)
    digest = hashlib.sha256(path.read_bytes() + _SCRIPT.read_bytes()).hexdigest()
    shapes = {name: list(shape) for name, shape in (wishes.shapes or {}).items()}
    key = content_key(digest, wishes.decoded, wishes.size, shapes)
    target = folder / f"{card_name(path)}-{key[:12]}" / f"{card_name(path)}.onnx"
    note = target.with_suffix(".txt")
    if target.is_file() and note.is_file():
        return ExportedNetwork(target, note.read_text(encoding="utf-8"), is_new=False)
    python = python_with(kind.package, wishes.python, _remedy(path, kind))
    said = said_of(path) if kind is TorchFormat.SCRIPT else {}
    size = wishes.size or read_exported(said).size
    job = {
        "format": kind.value,
        "decoded": wishes.decoded,
        "size": None if size is None else list(size),
        "image": None if size is None else [1, 3, *size],
        "shapes": shapes,
    }
    with TemporaryDirectory(prefix="ptqlab-export-") as made:
        place = Path(made) / f"{card_name(path)}{path.suffix}"
        os.symlink(path.resolve(), place)
        job_file = Path(made) / "job.json"
        job_file.write_text(json.dumps({**job, "path": str(place)}), encoding="utf-8")
        finished = python.run(_SCRIPT, job_file, _MOST_SECONDS)
        reply = _reply(Path(made) / "reply.json")
        if finished.code == CUT_OFF:
            raise ModelError(f"{path}: its export took longer than {_MOST_SECONDS / 60:.0f} minutes and was ended")
        if finished.code or "error" in reply:
            why = last_line(str(reply.get("error", finished.text)))
            raise ModelError(f"{path}: {kind.package} in {python.program} cannot export it: {why}{_hint(kind, why)}")
        content = _finished(Path(made) / "network.onnx", reply, said)
    words = _words(reply, kind, wishes.decoded)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, content)
        write_atomically(note, words.encode())
    except OSError as error:
        raise OutputError(f"{error.filename or target}: cannot be written: {error.strerror}") from error
    return ExportedNetwork(target, words)


def _remedy(path: Path, kind: TorchFormat) -> str:
    if kind is TorchFormat.CHECKPOINT:
        return (
            f"{path} is a checkpoint, which ultralytics opens. Name the Python that you train with, {OPTION} "
            "VENV/bin/python (it needs ultralytics and onnx), or export it there and give the file: yolo export "
            f"model={path.name} format=onnx opset=11 simplify=False"
        )
    return (
        f"{path} holds {kind.value}, which torch opens. Name a Python that has torch and onnx, {OPTION} "
        f"VENV/bin/python, or install it here: {how_to_install('zoo')}"
    )


def _hint(kind: TorchFormat, why: str) -> str:
    """What to do about the failures that users meet most."""
    if "No module named" in why:
        return ": install that there"
    if kind is TorchFormat.CHECKPOINT:
        return ". If it is no checkpoint of ultralytics, export it with torch.onnx.export (opset 11) and give that file"
    return ""


def _reply(path: Path) -> Mapping[str, Any]:
    """What the program answered; empty where it could not."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _finished(path: Path, reply: Mapping[str, Any], said: Mapping[str, str]) -> bytes:
    """The ONNX file with outputs that have names, and with what the archive said of the network."""
    from harness.onboarding.convertible import read_float_model

    model = read_float_model(path)
    names = [str(name) for name in reply.get("outputs", ())]
    if names and len(names) == len(model.graph.output):
        _rename(model.graph, dict(zip([output.name for output in model.graph.output], names, strict=True)))
    known = {entry.key for entry in model.metadata_props}
    for key, value in said.items():
        if key not in known:
            model.metadata_props.add(key=key, value=value)
    return bytes(model.SerializeToString())


def _rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Give tensors other names."""
    for node in graph.node:
        for tensors in (node.input, node.output):
            for index, name in enumerate(tensors):
                tensors[index] = names.get(name, name)
    for value in (*graph.output, *graph.value_info):
        value.name = names.get(value.name, value.name)


def _words(reply: Mapping[str, Any], kind: TorchFormat, decoded: bool) -> str:
    """How it was exported."""
    by = visible(str(reply.get("version", kind.package)))
    head = str(reply.get("head", ""))
    if kind is not TorchFormat.CHECKPOINT:
        return f"{kind.value}, by {by}, opset {in_user_python.OPSET}"
    if reply.get("is_raw"):
        what = "logits, without Softmax" if head == "Classify" else f"raw maps of its head {head}, without decoding"
    elif decoded:
        what = f"its head {head} whole, with decoding, as asked"
    else:
        what = f"its head {head} whole: its raw maps are not known; the decoding may run on the CPU"
    return f"by {by}, opset {in_user_python.OPSET}; {visible(what)}"
