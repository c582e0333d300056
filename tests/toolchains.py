"""Toolchains made by tests: they copy what was expected, change it, fail, hang or write nothing."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from engine.toolchain.command import Command
from engine.toolchain.tool import Toolchain

START = """
import pathlib, shutil, sys, time
def say(text, level="INFO"):
    print("2026-01-01 00:00:00,000 " + level + " " + text, flush=True)
if "--version" in sys.argv:
    print("hb_mapper, version VERSION"); sys.exit()
say("hb_mapper version VERSION")
config = pathlib.Path(sys.argv[sys.argv.index("--config") + 1])
ship = config.resolve().parent.parent
out = config.parent / "model_output"
"""
FINISH = """
say("Start to compile the model with march bayes-e.")
out.mkdir()
import onnx
model = onnx.load(ship / "expected_quantized.onnx")
change(model)
prefix = [line.split(": ")[1] for line in config.read_text().splitlines() if "output_model_file_prefix" in line][0]
onnx.save(model, out / (prefix + "_quantized_model.onnx"))
(out / (prefix + ".bin")).write_bytes(b"for the board")
"""
EQUAL = START + "def change(model): pass\n" + FINISH
"""Writes our own quantised model."""
DIFFERENT = (
    START
    + """
def change(model):
    from onnx import numpy_helper
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.INT8:
            array = numpy_helper.to_array(tensor).copy()
            array.flat[0] = -array.flat[0] if array.flat[0] not in (0, -128) else 7
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
            break
"""
    + FINISH
)
"""The same with the first int8 constant changed."""
FAILS = START + 'say("this operator is not supported", "ERROR"); sys.exit(255)\n'
HANGS = START + "time.sleep(60)\n"
WRITES_NOTHING = START


def words(folder: Path, code: str, version: str = "1.24.3") -> str:
    """A command line of a toolchain with ``code``, which is written to ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "toolchain.py"
    script.write_text(code.replace("VERSION", version), encoding="utf-8")
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}"


def toolchain(folder: Path, code: str, time_limit: float = 60.0) -> Toolchain:
    """The same as a toolchain."""
    return Toolchain(Command.parse(words(folder, code), "--toolchain"), time_limit)
