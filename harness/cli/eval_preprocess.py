"""Command ``hb_eval_preprocess``: images as a public model is fed with them on the board, one file each.

Classifiers see the centre of the image behind a resize of its short side, detectors all of it, padded in proportion
(SSD: stretched), segmenters all of it, stretched, as the publications of the networks describe it. The documents name
the command and its options, neither models nor steps.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from engine.cli.common import command_app, version_option
from engine.cli.console import say
from engine.errors import CalibrationDataError, PtqlabError

if TYPE_CHECKING:
    from harness.datasets.transformers import Transformer

app = command_app("hb_eval_preprocess", __doc__)

_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp"})


class EvalModel(StrEnum):
    """Public models by the names of the model zoo."""

    MOBILENETV1 = "mobilenetv1"
    MOBILENETV2 = "mobilenetv2"
    GOOGLENET = "googlenet"
    RESNET18 = "resnet18"
    RESNET50 = "resnet50"
    EFFICIENTNET_LITE0 = "efficientnet_lite0"
    EFFICIENTNET_LITE1 = "efficientnet_lite1"
    EFFICIENTNET_LITE2 = "efficientnet_lite2"
    EFFICIENTNET_LITE3 = "efficientnet_lite3"
    EFFICIENTNET_LITE4 = "efficientnet_lite4"
    YOLOV2 = "yolov2_darknet19"
    YOLOV3 = "yolov3_darknet53"
    YOLOV5S = "yolov5s"
    SSD = "ssd_mobilenetv1"
    EFFICIENTDET = "efficientdet_d0"
    FCOS = "fcos_efficientnetb0"
    CENTERNET = "centernet_resnet50"
    UNET = "unet_mobilenet"
    DEEPLABV3PLUS = "deeplabv3plus_efficientnetb0"
    FASTSCNN = "fastscnn_efficientnetb0"


class FileFormat(StrEnum):
    """What the files hold: NV12, or uint8 with the channels last."""

    NV12 = "nv12"
    RGB = "rgb"
    BGR = "bgr"
    GRAY = "gray"


_CLASSIFIERS: Mapping[EvalModel, int] = MappingProxyType(
    {
        EvalModel.MOBILENETV1: 224,
        EvalModel.MOBILENETV2: 224,
        EvalModel.GOOGLENET: 224,
        EvalModel.RESNET18: 224,
        EvalModel.RESNET50: 224,
        EvalModel.EFFICIENTNET_LITE0: 224,
        EvalModel.EFFICIENTNET_LITE1: 240,
        EvalModel.EFFICIENTNET_LITE2: 260,
        EvalModel.EFFICIENTNET_LITE3: 280,
        EvalModel.EFFICIENTNET_LITE4: 300,
    }
)
"""Height and width by classifier; the short side is resized to 32 pixels more."""

_DETECTORS: Mapping[EvalModel, int] = MappingProxyType(
    {
        EvalModel.YOLOV2: 608,
        EvalModel.YOLOV3: 416,
        EvalModel.YOLOV5S: 672,
        EvalModel.EFFICIENTDET: 512,
        EvalModel.FCOS: 512,
        EvalModel.CENTERNET: 512,
    }
)
"""Height and width by detector; the image is resized in proportion and padded with 127."""

_STRETCHED: Mapping[EvalModel, tuple[int, int]] = MappingProxyType(
    {
        EvalModel.SSD: (300, 300),
        EvalModel.UNET: (1024, 2048),
        EvalModel.DEEPLABV3PLUS: (1024, 2048),
        EvalModel.FASTSCNN: (1024, 2048),
    }
)
"""Height and width of networks whose image is stretched to them; segmenters see street scenes."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the command; ``arguments`` default to those of the process."""
    try:
        app(args=None if arguments is None else list(arguments))
    except PtqlabError as error:
        say(f"ERROR: {error}", err=True)
        sys.exit(error.exit_code)


@app.command()
def hb_eval_preprocess(
    model_name: Annotated[EvalModel, typer.Option("-m", "--model_name", help="Model for which images are prepared.")],
    image_dir: Annotated[Path, typer.Option("-i", "--image_dir", exists=True, file_okay=False, help="The images.")],
    output_dir: Annotated[Path, typer.Option("-o", "--output_dir", help="Folder for the files NAME.bin.")],
    val_txt: Annotated[
        Path | None,
        typer.Option("-v", "--val_txt", exists=True, help="List of images; the first word of each line is a name."),
    ] = None,
    file_format: Annotated[FileFormat, typer.Option("-t", "--type", help="Format of the files.")] = FileFormat.NV12,
    _: Annotated[bool, version_option("hb_eval_preprocess")] = False,
) -> None:
    """Write each image as the input file of a public model."""
    output_dir.mkdir(parents=True, exist_ok=True)
    files = listed_images(image_dir, val_txt)
    for file in files:
        prepared(file, model_name, file_format).tofile(output_dir / f"{file.stem}.bin")
    say(f"{len(files)} images written to {output_dir}")


def listed_images(folder: Path, names: Path | None) -> list[Path]:
    """The images that ``names`` lists, or all of ``folder``.

    Raises:
        CalibrationDataError: a listed image is missing, or there is none.
    """
    if names is None:
        found = sorted(path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES)
    else:
        found = [folder / line.split()[0] for line in names.read_text(encoding="utf-8").splitlines() if line.strip()]
    missing = [path.name for path in found if not path.is_file()]
    if missing:
        raise CalibrationDataError(f"{folder}: {len(missing)} of the listed images are missing, such as {missing[0]}")
    if not found:
        raise CalibrationDataError(f"{folder}: holds no images ({', '.join(sorted(_SUFFIXES))})")
    return found


def prepared(file: Path, model: EvalModel, form: FileFormat = FileFormat.NV12) -> NDArray[np.uint8]:
    """The image in ``file``: (height, width, channels), as NV12 (height * 3 / 2, width)."""
    from harness.datasets.transformers import apply, read_image, to_uint8
    from harness.terms import ReadMode

    mode = ReadMode.OPENCV
    image = to_uint8(apply(steps(model), read_image(file, mode), mode))
    match form:
        case FileFormat.NV12:
            return _nv12(image)
        case FileFormat.GRAY:
            import cv2

            return np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2GRAY), np.uint8)[..., np.newaxis]
        case FileFormat.RGB:
            return np.ascontiguousarray(image[..., ::-1])
        case _:
            return image


def _nv12(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """``image`` is BGR, (height, width, 3)."""
    from engine.config import InputSpec
    from engine.frontend.colour import calibration_input, pack_nv12
    from engine.terms import InputType, Layout

    spec = InputSpec(
        name="image", type_train=InputType.BGR, layout_train=Layout.NHWC, type_rt=InputType.NV12, layout_rt=None
    )
    yuv = calibration_input(image[np.newaxis], spec) + 128  # of 4:4:4, in which each block has one chroma already
    packed: NDArray[np.uint8] = pack_nv12(yuv.astype(np.uint8))[0]
    return packed


def steps(model: EvalModel) -> tuple[Transformer, ...]:
    """What is done to an image of ``model`` before its colours are converted."""
    from harness.datasets.transformers import CenterCrop, PadResize, Resize, ShortSideResize

    if model in _DETECTORS:
        return (PadResize(target_size=(_DETECTORS[model],) * 2),)
    if model in _STRETCHED:
        return (Resize(target_size=_STRETCHED[model]),)
    side = _CLASSIFIERS[model]
    return (ShortSideResize(short_size=side + 32), CenterCrop(crop_size=side))
