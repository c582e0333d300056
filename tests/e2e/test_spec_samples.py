"""The Python samples of the original toolchain's documents run as printed.

Only file names and the parts that the documents leave to the reader (how to read an image, what to do with the
results) are filled in; lost indentation is restored; ``import cv2``, which two of them do not use, is left out.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from engine.calibrate import CalibrationOptions, StatisticsOptions, calibrate, calibration_tensors, collect
from engine.compat import uninstall
from engine.compat.__main__ import main
from engine.config import InputSpec
from engine.frontend import preprocess
from engine.frontend.onnx import load_onnx
from engine.ir import save_model
from engine.optimize import optimize
from engine.place import PlacementOptions, place
from engine.quantize import quantize
from engine.terms import InputType, Layout

MARCH = "bayes-e"

IMPORT = """
# Import debug module
import horizon_nn.debug as dbg
"""
LOGGING = """
# Import log module
import logging
# When verbose=True, set log level to INFO first
logging.getLogger().setLevel(logging.INFO)
"""
FILES = """
calibrated_data='./calibration_data/',
model_or_file='./calibrated_model.onnx',
"""
SENSITIVITY = f"""
{IMPORT}{LOGGING}
# Obtain node quantization sensitivity
node_message = dbg.get_sensitivity_of_nodes(
model_or_file='./calibrated_model.onnx',
metrics=['cosine-similarity', 'mse'],
calibrated_data='./calibration_data/',
output_node=None,
node_type='node',
data_num=None,
verbose=True,
interested_nodes=None)
"""
BY_SENSITIVITY = f"""
{IMPORT}
# First use the quantization sensitivity sorting function to obtain node quantization sensitivity ranking in the model
node_message = dbg.get_sensitivity_of_nodes(
model_or_file='./calibrated_model.onnx',
metrics='cosine-similarity',
calibrated_data='./calibration_data/',
output_node=None,
node_type='node',
verbose=False,
interested_nodes=None)
# node_message is a dictionary type with node names as keys
nodes = list(node_message.keys())
# Use nodes to specify non-quantized nodes for convenient usage
"""


def acc_error(nodes: str, average: bool, before: str = IMPORT) -> str:
    """The printed call of ``plot_acc_error``, which differs in the nodes and the mode only."""
    return f"""
{before}
dbg.plot_acc_error(
save_dir='./',{FILES}{nodes},
metric='cosine-similarity',
average_mode={average})
"""


DISTRIBUTION = f"""
{IMPORT}dbg.plot_distribution(
save_dir='./',
model_or_file='./calibrated_model.onnx',
calibrated_data='./calibration_data',
nodes_list=['317_HzCalibration', # Activation node
'471_HzCalibration', # Weight node
'Conv_2']) # Regular node
"""
CHANNELWISE = f"""
{IMPORT}dbg.get_channelwise_data_distribution(
save_dir='./',
model_or_file='./calibrated_model.onnx',
calibrated_data='./calibration_data',
nodes_list=['317_HzCalibration', '471_HzCalibration'],
axis=None)
"""
RUNALL = f"""
{IMPORT}dbg.runall(model_or_file='calibrated_model.onnx',
calibrated_data='calibration_data')
"""
RUNTIME = """
# Load D-Robotics dependency libraries
from horizon_tc_ui import HB_ONNXRuntime
import numpy as np
def your_custom_data_prepare(input_name):  # left to the reader
    return np.full((1, 3, 8, 8), 100, np.uint8)
# Prepare feed_dict for model inference
def prepare_input_dict(input_names):
    feed_dict = dict()
    for input_name in input_names:
        # your_custom_data_prepare represents your custom data
        # Prepare data according to the input node type and layout requirements
        feed_dict[input_name] = your_custom_data_prepare(input_name)
    return feed_dict
if __name__ == '__main__':
    # Create inference Session
    sess = HB_ONNXRuntime(model_file='image_quantized_model.onnx')
    # Get input node names
    input_names = [input.name for input in sess.get_inputs()]
    # or
    input_names = sess.input_names
    # Get output node names
    output_names = [output.name for output in sess.get_outputs()]
    # or
    output_names = sess.output_names
    # Prepare model input data
    feed_dict = prepare_input_dict(input_names)
    # Start model inference; the return value is a list that corresponds one-to-one with output_names in order
    # Input image types: (RGB/BGR/NV12/YUV444/GRAY)
    outputs = sess.run(output_names, feed_dict, input_offset=128)
    # Input data types: (FEATURE)
    outputs = sess.run_feature(output_names, feed_dict, input_offset=0)
"""
PREPARE = """
import skimage.io
import numpy as np
from horizon_tc_ui import HB_ONNXRuntime
layout = "NCHW"  # of the original model: left to the reader, like the four steps
def ShortSideResize(image, short_size):
    return image[:short_size, :short_size * 2]
def CenterCrop(image, crop_size):
    return image[:crop_size, :crop_size]
def RGB2BGR(image):
    return image[..., ::-1]
def HWC2CHW(image):
    return image.transpose(2, 0, 1)
# This example uses skimage; if using opencv there will be differences
# Please note that subtract-mean and multiply-scale processing is not shown in transformers
# mean and scale operations have been fused into the model; refer to the configuration above
def your_custom_data_prepare_sample(image_file):
    # skimage reads images, already in NHWC layout
    image = skimage.img_as_float(skimage.io.imread(image_file))
    # Proportional scale, resize shorter side to 256
    image = ShortSideResize(image, short_size=8)
    # CenterCrop to obtain 224x224 image
    image = CenterCrop(image, crop_size=8)
    # skimage read result channel order is RGB; convert to BGR order required by bgr_128
    image = RGB2BGR(image)
    # If the original model is NCHW input (except when input_type_rt is nv12)
    if layout == "NCHW":
        image = HWC2CHW(image)
    # skimage read value range is [0.0, 1.0]; adjust to value range required by bgr
    image = image * 255
    # bgr_128 is bgr minus 128
    image = image - 128
    # bgr_128 uses int8
    image = image.astype(np.int8)
    return image
sess = HB_ONNXRuntime(model_file='bgr_quantized_model.onnx')
feed_dict = {sess.input_names[0]: your_custom_data_prepare_sample('image.png')[None]}
assert len(sess.run_feature(sess.output_names, feed_dict, input_offset=0)) == 1
"""
MAIN = """
def main():
    sess = HB_ONNXRuntime(model_file=MODEL_PATH)
    input_names = [input.name for input in sess.get_inputs()]
    output_names = [output.name for output in sess.get_outputs()]
    feed_dict = dict()
    for input_name in input_names:
        feed_dict[input_name] = preprocess(input_name)
    outputs = sess.run_feature(output_names, feed_dict, input_offset=0)
{further}
    postprocess(outputs)

if __name__ == '__main__':
    main()
"""
VERIFY_FLOAT = """
from horizon_tc_ui import HB_ONNXRuntime
import numpy as np

MODEL_PATH = 'source.onnx'  # left to the reader

def preprocess(input_name):
    # BGR->RGB、Resize、CenterCrop···
    # HWC->CHW
    # normalization
    data = np.ones((1, 3, 8, 8), np.float32)  # left to the reader
    return data

def postprocess(model_output):
    # 后处理
    assert len(model_output) == 1  # left to the reader
"""
VERIFY_CONVERTED = """
from horizon_tc_ui import HB_ONNXRuntime
import numpy as np

MODEL_PATH = 'image_quantized_model.onnx'  # left to the reader

def preprocess(input_name):
    # BGR->RGB、Resize、CenterCrop···
    # HWC->CHW
    # input_type_train->input_type_rt*(
    # normalization
    #-128
    data = np.full((1, 3, 8, 8), -28, np.int8)  # left to the reader
    return data

def postprocess(model_output):
    assert len(model_output) == 1  # left to the reader
"""
WALKTHROUGH = """
import numpy as np
output_name, input_name = 'out', 'image'  # left to the reader
image_data = np.full((1, 3, 8, 8), 100, np.uint8)
class FLAGS:
    model = 'image_quantized_model.onnx'
from horizon_tc_ui import HB_ONNXRuntime
sess = HB_ONNXRuntime(model_file=FLAGS.model)
output = sess.run([output_name], {input_name: image_data})
"""
ACC_ERRORS = {
    "quantize one": acc_error("quantize_node=['Conv_2', 'Conv_90']", False),
    "quantize some": acc_error("quantize_node=[['Conv_2'], ['Conv_2', 'Conv_90']]", False),
    "not one": acc_error("non_quantize_node=['Conv_2', 'Conv_90']", True),
    "not some": acc_error("non_quantize_node=[['Conv_2'], ['Conv_2', 'Conv_90']]", False),
    "by kind": acc_error("quantize_node=['weight','activation']", False, "import horizon_nn.debug as dbg"),
    "by sensitivity": acc_error("non_quantize_node=[nodes[:1],nodes[:2]]", True, BY_SENSITIVITY),
}
SAMPLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "sensitivity": (SENSITIVITY, ()),
    **{name: (text, ("accumulated_error",)) for name, text in ACC_ERRORS.items()},
    "distribution": (
        DISTRIBUTION,
        ("317_HzCalibration_distribution", "471_HzCalibration_distribution", "Conv_2_distribution"),
    ),
    "channelwise": (CHANNELWISE, ("317_HzCalibration_channels", "471_HzCalibration_channels")),
    "runall": (RUNALL, ("ranking_weight", "curves_Accumulated_error")),
    "runtime": (RUNTIME, ()),
    "prepare": (PREPARE, ()),
    "verify float": (VERIFY_FLOAT + MAIN.format(further=""), ()),
    "verify converted": (
        VERIFY_CONVERTED + MAIN.format(further="    outputs = sess.hb_session.run(output_names, feed_dict)"),
        (),
    ),
    "walkthrough": (WALKTHROUGH, ()),
}
"""Text of every sample, with the pictures that it leaves."""


def network() -> onnx.ModelProto:
    """Two convolutions that have the names of the printed samples."""
    rng = np.random.default_rng(0)
    weights = {"first": (6, 3, 3, 3), "471": (4, 6, 3, 3)}
    return helper.make_model(
        helper.make_graph(
            [
                helper.make_node("Conv", ["image", "first"], ["c"], "Conv_2", pads=[1, 1, 1, 1]),
                helper.make_node("Relu", ["c"], ["317"], "Relu_3"),
                helper.make_node("Conv", ["317", "471"], ["out"], "Conv_90", pads=[1, 1, 1, 1]),
            ],
            "two",
            [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 8, 8])],
            [helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, 4, 8, 8])],
            [
                numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
                for name, shape in weights.items()
            ],
        ),
        opset_imports=[helper.make_opsetid("", 11)],
        ir_version=8,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that the samples read, called as they call it."""
    folder = tmp_path_factory.mktemp("samples")
    onnx.save(network(), folder / "source.onnx")
    data = np.random.default_rng(1).standard_normal((3, 3, 8, 8)).astype(np.float32)
    (folder / "calibration_data" / "image").mkdir(parents=True)
    for index, sample in enumerate(data):
        np.save(folder / "calibration_data" / "image" / f"{index}.npy", sample[None])
    rgb = InputSpec(name="image", type_train=InputType.RGB, layout_train=Layout.NCHW, type_rt=InputType.RGB)
    bgr = InputSpec(
        name="image",
        type_train=InputType.BGR,
        layout_train=Layout.NCHW,
        type_rt=InputType.BGR,
    )
    Image.fromarray(np.random.default_rng(2).integers(0, 256, (8, 16, 3), np.uint8)).save(folder / "image.png")
    for name, inputs in (("", []), ("image_", [rgb]), ("bgr_", [bgr])):
        optimized = optimize(preprocess.insert(load_onnx(folder / "source.onnx"), inputs), MARCH)
        placed = place(optimized, MARCH, PlacementOptions()).model
        statistics = collect(optimized, calibration_tensors(placed), {"image": data}, StatisticsOptions())
        calibrated = calibrate(placed, statistics, CalibrationOptions())
        save_model(calibrated, folder / f"{name}calibrated_model.onnx")
        save_model(quantize(calibrated, MARCH), folder / f"{name}quantized_model.onnx")
    return folder


@pytest.mark.parametrize("name", SAMPLES)
def test_sample_runs_as_printed(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text, pictures = SAMPLES[name]
    if "import skimage" in text:
        pytest.importorskip("skimage", reason="the sample reads its image with scikit-image")
    for picture in pictures:
        (folder / f"{picture}.png").unlink(missing_ok=True)
    script = written(folder, name)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["engine.compat", script.name])
    monkeypatch.setattr(sys, "path", [*sys.path])
    level = logging.getLogger().level
    try:
        main()
    finally:
        uninstall()
        logging.getLogger().setLevel(level)
    check(name, folder, capsys.readouterr().out)


def test_a_process_of_its_own_runs_a_sample(folder: Path) -> None:
    command = [sys.executable, "-m", "engine.compat", written(folder, "sensitivity").name]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    check("sensitivity", folder, done.stdout)


def written(folder: Path, name: str) -> Path:
    """The script of a sample."""
    script = folder / f"{name.replace(' ', '_')}.py"
    script.write_text(SAMPLES[name][0], "utf-8")
    return script


def check(name: str, folder: Path, printed: str) -> None:
    """What a sample leaves and prints."""
    for picture in SAMPLES[name][1]:
        assert (folder / f"{picture}.png").stat().st_size > 1000
    if name == "sensitivity":
        rows = [line.split() for line in printed.splitlines()[3:]]
        assert {row[0] for row in rows} >= {"Conv_2", "Conv_90"}
    if name == "runall":
        assert "Conv_2" in (folder / "accuracy_debug.html").read_text("utf-8")
