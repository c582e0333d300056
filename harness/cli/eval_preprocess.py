"""Command ``hb_eval_preprocess``: images as a public model is fed with them on the board, one NV12 file each.

Classifiers see the centre of the image behind a resize of its short side, detectors and segmenters all of it, padded or
stretched, as the networks' own evaluation scripts do it.
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
    YOLOV3 = "yolov3_darknet53"
    YOLOV5S = "yolov5s"


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

_DETECTORS: Mapping[EvalModel, int] = MappingProxyType({EvalModel.YOLOV3: 416, EvalModel.YOLOV5S: 672})
"""Height and width by detector; the image is resized in proportion and padded with 127."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the command; ``arguments`` default to those of the process."""
    try:
        app(args=None if arguments is None else list(arguments))
    except PtqlabError as error:
        typer.echo(f"ERROR: {error}", err=True)
        sys.exit(error.exit_code)


@app.command()
def hb_eval_preprocess(
    model_name: Annotated[EvalModel, typer.Option("-m", "--model_name", help="The model to prepare images for.")],
    image_dir: Annotated[Path, typer.Option("-i", "--image_dir", exists=True, file_okay=False, help="The images.")],
    output_dir: Annotated[Path, typer.Option("-o", "--output_dir", help="Where NAME.bin is written.")],
    val_txt: Annotated[
        Path | None, typer.Option("-v", "--val_txt", exists=True, help="Names of the images, first word of each line.")
    ] = None,
    _: Annotated[bool, version_option("hb_eval_preprocess")] = False,
) -> None:
    """Write every image as the NV12 file that the model is fed with."""
    output_dir.mkdir(parents=True, exist_ok=True)
    files = listed_images(image_dir, val_txt)
    for file in files:
        nv12(file, model_name).tofile(output_dir / f"{file.stem}.bin")
    typer.echo(f"{len(files)} images written to {output_dir}")


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


def nv12(file: Path, model: EvalModel) -> NDArray[np.uint8]:
    """The image in ``file`` as NV12, shape (height * 3 / 2, width)."""
    from engine.config import InputSpec
    from engine.frontend.colour import calibration_input, pack_nv12
    from engine.terms import InputType, Layout
    from harness.datasets.transformers import apply, read_image, to_uint8
    from harness.terms import ReadMode

    mode = ReadMode.OPENCV
    image = to_uint8(apply(steps(model), read_image(file, mode), mode))
    spec = InputSpec(
        name="image", type_train=InputType.BGR, layout_train=Layout.NHWC, type_rt=InputType.NV12, layout_rt=None
    )
    yuv = calibration_input(image[np.newaxis], spec) + 128  # of 4:4:4, in which each block has one chroma already
    packed: NDArray[np.uint8] = pack_nv12(yuv.astype(np.uint8))[0]
    return packed


def steps(model: EvalModel) -> tuple[Transformer, ...]:
    """What is done to an image of ``model`` before its colours are converted."""
    from harness.datasets.transformers import CenterCrop, PadResize, ShortSideResize

    if model in _DETECTORS:
        return (PadResize(target_size=(_DETECTORS[model],) * 2),)
    side = _CLASSIFIERS[model]
    return (ShortSideResize(short_size=side + 32), CenterCrop(crop_size=side))
