"""Files of PyTorch and a Python with a stand-in for ultralytics, made for tests."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

STAND_IN = """
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper

__version__ = "8.0.0-stand-in"


class Detect:
    nl, stride = 3, (8.0, 16.0, 32.0)

    def __init__(self):
        self.cv2 = [lambda x: ("box", x)] * 3
        self.cv3 = [lambda x: ("cls", x)] * 3

    def forward(self, maps):
        return ["decoded"]


class Net:
    def __init__(self):
        self.model = [Detect()]


class YOLO:
    def __init__(self, path):
        if "fails" in open(path, "rb").read().decode("latin1"):
            raise RuntimeError("no checkpoint\\nof ultralytics")
        self.path, self.model = path, Net()

    def export(self, format, opset, simplify, dynamic, batch, device, imgsz=(64, 96)):
        assert (format, opset, simplify, dynamic, batch, device) == ("onnx", 11, False, False, 1, "cpu")
        height, width = imgsz
        nodes, outputs, weights = [], [], []
        depths = {"box": 64, "cls": 3, "decoded": 7}
        for index, found in enumerate(self.model.model[-1].forward([8, 16, 32])):
            kind, stride = found if isinstance(found, tuple) else (found, 8)
            random = np.random.default_rng(index)
            values = random.normal(size=(depths[kind], 3, stride, stride)).astype(np.float32) / stride
            weights.append(onnx.numpy_helper.from_array(values, f"w{index}"))
            nodes.append(helper.make_node("Conv", ["images", f"w{index}"], [f"output{index}"], strides=[stride] * 2))
            shape = [1, depths[kind], height // stride, width // stride]
            outputs.append(helper.make_tensor_value_info(f"output{index}", TensorProto.FLOAT, shape))
        image = helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, height, width])
        graph = helper.make_graph(nodes, "net", [image], outputs, weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        said = {"author": "Ultralytics", "task": "detect", "names": "{0: 'cat', 1: 'dog', 2: 'cow'}"}
        helper.set_model_props(model, {**said, "imgsz": str(list(imgsz))})
        file = self.path.rsplit(".", 1)[0] + ".onnx"
        onnx.save(model, file)
        print("exported to", file)
        return file
"""
"""A package ``ultralytics`` with what an export calls."""


def python_with_ultralytics(folder: Path) -> Path:
    """A program that is the Python of the tests with the stand-in."""
    (folder / "packages" / "ultralytics").mkdir(parents=True)
    (folder / "packages" / "ultralytics" / "__init__.py").write_text(STAND_IN)
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={folder}/packages exec {sys.executable} "$@"\n')
    program.chmod(0o755)
    return program


def checkpoint(path: Path, content: bytes = b"\x80\x02}q\x00.") -> Path:
    """A file as ``torch.save`` writes it."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{path.stem}/data.pkl", content)
        archive.writestr(f"{path.stem}/version", "3")
    return path
