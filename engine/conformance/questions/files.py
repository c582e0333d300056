"""The files of the questions: networks, calibration data, configurations, and a page that says what each asks."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from engine.conformance.questions.questions import Question
from engine.errors import ConfigError
from engine.ir import write_atomically

DATA = "cal"
"""Folder of the calibration data beside a network."""
PAGE = "README.md"


def write_questions(questions: Sequence[Question], to: Path) -> list[Path]:
    """Write a folder per question below ``to``, which must not exist; the configurations that were written.

    ``NAME/NAME_MARCH_CALIBRATION.yaml`` are configurations of ``hb_mapper makertbin``, one for each of the question's
    marches and calibrations; ``NAME/net.onnx`` and ``NAME/cal/0.bin`` to ``7.bin``, float32, are what they name.

    Raises:
        ConfigError: ``to`` exists.
    """
    if to.exists():
        raise ConfigError(f"{to}: already exists; name another folder")
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".questions-", dir=to.parent) as work:
        made = Path(work) / to.name
        names = [path for question in questions for path in _write(question, made / question.name)]
        write_atomically(made / PAGE, _page(questions).encode())
        made.rename(to)
    return [to / name for name in names]


def _write(question: Question, folder: Path) -> Iterator[Path]:
    """Write the files of ``question``; the configurations, relative to the folder of all questions."""
    network = question.build()
    (folder / DATA).mkdir(parents=True)
    write_atomically(folder / "net.onnx", network.model().SerializeToString())
    for index, sample in enumerate(network.samples()):
        write_atomically(folder / DATA / f"{index}.bin", sample.tobytes())
    for march in question.marches:
        for kind, calibration in question.calibrations.items():
            name = f"{question.name}_{march.value}_{kind}"
            content = _configuration(question, name, march.value, calibration)
            write_atomically(folder / f"{name}.yaml", yaml.safe_dump(content, sort_keys=False).encode())
            yield Path(question.name) / f"{name}.yaml"


def _configuration(question: Question, name: str, march: str, calibration: Any) -> dict[str, Any]:
    return {
        "model_parameters": {
            "onnx_model": "./net.onnx",
            "march": march,
            "output_model_file_prefix": question.name,
            "working_dir": f"./out_{name}",
        },
        "input_parameters": {
            "input_name": "x",
            "input_type_train": "featuremap",
            "input_layout_train": "NCHW",
            "input_type_rt": "featuremap",
            "input_layout_rt": "NCHW",
            "norm_type": "no_preprocess",
        },
        "calibration_parameters": {
            "cal_data_dir": f"./{DATA}",
            "cal_data_type": "float32",
            **calibration,
        },
        "compiler_parameters": {"compile_mode": "latency", "debug": False, "optimize_level": "O2", **question.compiler},
    }


def _page(questions: Sequence[Question]) -> str:
    rows = [f"| `{each.name}` | {each.asks} | {each.meanwhile} |" for each in questions]
    return "\n".join(
        [
            "# Questions to the original toolchain",
            "",
            "Each folder holds a small network, calibration data and configurations. Record what your installation",
            "makes of them:",
            "",
            "    ptqlab conformance record --toolchain hb_mapper --runtime python3 */*.yaml -o cases",
            "    ptqlab conformance check cases",
            "",
            "Weights and data are random numbers, so that the cases can be sent to anybody.",
            "",
            "| network | what is not known | what ptqlab does meanwhile |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )
