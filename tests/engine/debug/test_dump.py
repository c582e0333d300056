from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from engine.calibrate.data.sources import ArrayData
from engine.config import parse_config
from engine.convert import convert
from engine.debug import get_sensitivity_of_nodes
from engine.debug.analysis.data import dump_samples, read_samples
from engine.errors import CalibrationDataError
from engine.ir import load_model
from tests.e2e.test_spec_samples import network


def test_conversion_leaves_what_the_debugger_reads(tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "model.onnx")
    images = np.random.default_rng(0).integers(0, 256, (3, 3, 8, 8)).astype(np.float32)
    (tmp_path / "cal").mkdir()
    for index, image in enumerate(images):
        image.tofile(tmp_path / "cal" / f"{index}.rgb")
    result = convert(
        parse_config(
            {
                "model_parameters": {
                    "onnx_model": str(tmp_path / "model.onnx"),
                    "march": "bayes-e",
                    "working_dir": str(tmp_path / "out"),
                    "output_model_file_prefix": "two",
                    "debug_mode": "dump_calibration_data",
                },
                "input_parameters": {
                    "input_name": "image",
                    "input_type_train": "rgb",
                    "input_layout_train": "NCHW",
                    "input_type_rt": "rgb",
                    "norm_type": "data_scale",
                    "scale_value": 0.02,
                },
                "calibration_parameters": {
                    "cal_data_dir": str(tmp_path / "cal"),
                    "cal_data_type": "float32",
                    "calibration_type": "max",
                },
                "compiler_parameters": {},
            }
        )
    )
    folder = tmp_path / "out" / "calibration_data"
    assert sorted(file.name for file in (folder / "image").iterdir()) == ["0.npy", "1.npy", "2.npy"]
    np.testing.assert_array_equal(np.load(folder / "image" / "1.npy"), images[1:2] - 128)
    assert "Conv_90" in get_sensitivity_of_nodes(result.files["calibrated"], calibrated_data=folder)


def test_second_dump_replaces_the_first(tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "model.onnx")
    model = load_model(tmp_path / "model.onnx")
    samples = np.arange(4 * 192, dtype=np.float32).reshape(4, 3, 8, 8)
    dump_samples(ArrayData({"image": samples}), tmp_path / "data")
    dump_samples(ArrayData({"image": samples[:2]}), tmp_path / "data")
    np.testing.assert_array_equal(read_samples(model, tmp_path / "data")["image"], samples[:2])
    np.save(tmp_path / "data" / "image" / "1.npy", np.zeros(5, np.float32))
    with pytest.raises(CalibrationDataError, match=r"1\.npy: cannot reshape array of size 5"):
        read_samples(model, tmp_path / "data")
