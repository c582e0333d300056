"""The worst samples of a trial: their numbers, both models' answers, and a picture."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.pages.colours import PALETTE
from harness.datasets import SceneTarget, Targets
from harness.datasets.mask_annotations import IGNORED

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

WORST = 16
"""Samples on the picture."""

SPEAKERS = ("right", "float", "said")
"""Sources of answers for a sample, in the order of the panels: the targets, the float model, the quantised model."""

_HEADINGS = {"right": "target", "float": "float", "said": "quantised"}
_SIDE, _CAPTION, _GAP = 144, 15, 8
_MASK_SIDE = 256
"""Pixels of a kept mask's longer side at most."""
_OVERLAY = 0.5
_STRIPES, _STRIPE = (128, 128, 128), 6
"""Colour of the stripes over pixels that are not counted, and pixels from one stripe to the next."""

Arrays = Mapping[str, NDArray[Any]]
Colour = tuple[int, int, int]


def worst_samples(predictions: Arrays) -> NDArray[np.int64]:
    """Numbers of the :data:`WORST` samples with the lowest score.

    Of equal ones those first that hold something to find, then those least like the float model.
    """
    cosines = predictions["per_sample_cosine"]
    is_empty = ~predictions.get("informative", np.ones(len(cosines), bool))
    order = np.lexsort((cosines, is_empty, predictions["per_sample"]))
    return order[:WORST]


def decisions_of_worst(
    said: Targets | None, floats: Targets | None, right: Targets, worst: NDArray[np.int64]
) -> dict[str, Any]:
    """Boxes, masks and texts of the samples ``worst``, as arrays that a trial keeps; empty where there are none.

    Args:
        said, floats: decisions of the quantised and the float model, in the order of the samples.
        right: the targets.
        worst: numbers of samples, int64, shape (samples,).

    Returns:
        ``worst``; of scenes ``worst.size`` (height and width of an image) and for each of :data:`SPEAKERS`
        ``worst.WHO.boxes`` (float32, shape (boxes, 6): place in ``worst``, class, left, top, right, bottom in pixels)
        and, of segmentation, ``worst.WHO.masks`` (uint8, shape (samples, height, width), each nth pixel); of texts
        ``worst.WHO.texts`` (str).
    """
    by_speaker = dict(zip(SPEAKERS, (right, floats, said), strict=True))
    if any(found is None or isinstance(found, np.ndarray) for found in by_speaker.values()):
        return {}
    listed = {who: list(found or ()) for who, found in by_speaker.items()}
    chosen = {who: [found[index] for index in worst.tolist()] for who, found in listed.items()}
    if all(isinstance(one, str) for each in chosen.values() for one in each):
        return {"worst": worst} | {f"worst.{who}.texts": np.array(each, np.str_) for who, each in chosen.items()}
    scenes = {who: [one for one in each if isinstance(one, SceneTarget)] for who, each in chosen.items()}
    if any(len(each) != len(worst) for each in scenes.values()) or not len(worst):
        return {}
    kept: dict[str, Any] = {"worst": worst, "worst.size": np.array(scenes["right"][0].mask.shape, np.int64)}
    segmented = any(scene.mask.any() for who in ("float", "said") for scene in scenes[who])
    for who, each in scenes.items():
        if segmented:
            kept[f"worst.{who}.masks"] = np.stack([_thinned(scene.mask) for scene in each])
        else:
            kept[f"worst.{who}.boxes"] = np.concatenate([_rows(place, scene) for place, scene in enumerate(each)])
    return kept


def _thinned(mask: NDArray[np.uint8]) -> NDArray[np.uint8]:
    step = -(-max(mask.shape) // _MASK_SIDE)
    return mask[::step, ::step]


def _rows(place: int, scene: SceneTarget) -> NDArray[np.float32]:
    first = np.full((len(scene.boxes), 1), place, np.float32)
    return np.concatenate([first, scene.classes.reshape(-1, 1).astype(np.float32), scene.boxes.reshape(-1, 4)], axis=1)


def worst_picture(predictions: Arrays, image_of: Callable[[int], NDArray[np.uint8] | None]) -> bytes:
    """A PNG of the worst samples: number, score, cosine, and what is said of each beside what is right.

    Of boxes and masks there are three panels: the targets, the float model, the quantised model.
    """
    from PIL import Image, ImageDraw

    chosen = predictions.get("worst", worst_samples(predictions))
    speakers = SPEAKERS if _has_scenes(predictions) else ("",)
    columns = 4 if len(speakers) == 1 else 2
    wide, high = len(speakers) * _SIDE + _GAP, _SIDE + 2 * _CAPTION + _GAP
    sheet = Image.new("RGB", (columns * wide, -(-len(chosen) // columns) * high), "white")
    draw = ImageDraw.Draw(sheet)
    for place, index in enumerate(chosen.tolist()):
        left, top = place % columns * wide, place // columns * high
        pixels = image_of(index)
        if pixels is None:
            continue
        picture = _within_square(pixels)
        for number, who in enumerate(speakers):
            sheet.paste(_panel(picture, predictions, who, place), (left + number * _SIDE, top))
        score, cosine = predictions["per_sample"][index], predictions["per_sample_cosine"][index]
        draw.text((left, top + _SIDE), f"{index}: {score:.3g}, cos {cosine:.4f}", fill="black")
        for number, who in enumerate(speakers):
            words = _HEADINGS[who] if who else _answer(predictions, index, place)
            draw.text((left + number * _SIDE, top + _SIDE + _CAPTION), words, fill="black")
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG")
    return buffer.getvalue()


def _has_scenes(predictions: Arrays) -> bool:
    return "worst.size" in predictions


def _within_square(pixels: NDArray[np.uint8]) -> Picture:
    """The image in the size of a panel."""
    from PIL import Image

    picture = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).convert("RGB")
    scale = (_SIDE - 2) / max(picture.size)
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    return picture.resize(size, Image.Resampling.NEAREST if scale > 1 else Image.Resampling.BILINEAR)


def _panel(picture: Picture, predictions: Arrays, who: str, place: int) -> Picture:
    """A copy of ``picture`` with what ``who`` says of it."""
    if f"worst.{who}.masks" in predictions:
        return _with_mask(picture, predictions[f"worst.{who}.masks"][place])
    panel = picture.copy()
    if f"worst.{who}.boxes" in predictions:
        _draw_boxes(panel, predictions[f"worst.{who}.boxes"], place, predictions["worst.size"])
    return panel


def _with_mask(picture: Picture, mask: NDArray[np.uint8]) -> Picture:
    """``picture`` under the colours of the mask's classes; what is not counted has gray stripes."""
    from PIL import Image

    classes = np.asarray(Image.fromarray(mask).resize(picture.size, Image.Resampling.NEAREST))
    colours = np.array([(0, 0, 0), *(_rgb(class_) for class_ in range(254)), _STRIPES], np.uint8)
    rows, columns = np.indices(classes.shape)
    is_bare = (classes == 0) | ((classes == IGNORED) & ((rows + columns) % _STRIPE < _STRIPE // 2))
    shown = np.where(is_bare, 0, np.where(classes == IGNORED, 255, round(255 * _OVERLAY))).astype(np.uint8)
    return Image.composite(Image.fromarray(colours[classes]), picture, Image.fromarray(shown))


def _draw_boxes(picture: Picture, rows: NDArray[np.float32], place: int, size: NDArray[np.int64]) -> None:
    """Boxes with the numbers of their classes."""
    from PIL import ImageDraw

    draw = ImageDraw.Draw(picture)
    across, down = picture.width / float(size[1]), picture.height / float(size[0])
    for _, class_, *limits in rows[rows[:, 0] == place].tolist():
        colour = _rgb(int(class_))
        left, right = sorted(limit * across for limit in limits[::2])
        top, bottom = sorted(limit * down for limit in limits[1::2])
        draw.rectangle(
            (left, top, right - 1 if right - 1 > left else right, bottom - 1 if bottom - 1 > top else bottom),
            outline=colour,
            width=2,
        )
        for letters, fill in zip(_number(int(class_)), ("black", "white"), strict=True):
            draw.bitmap((round(left) + 2, round(top)), letters, fill)


@lru_cache(maxsize=256)
def _number(class_: int) -> tuple[Picture, Picture]:
    """The number of a class as masks, with a stroke around it and without; a picture holds hundreds of them."""
    from PIL import Image, ImageDraw

    text, masks = str(class_), []
    width, height = (int(edge) + 2 for edge in ImageDraw.Draw(Image.new("L", (1, 1))).textbbox((1, 1), text)[2:])
    for stroke in (1, 0):
        mask = Image.new("L", (width, height))
        ImageDraw.Draw(mask).text((1, 1), text, fill=255, stroke_width=stroke)
        masks.append(mask)
    return masks[0], masks[1]


def _rgb(class_: int) -> Colour:
    """Colour of a class: classes beyond the palette share colours, which is why boxes carry numbers."""
    colour = PALETTE[class_ % len(PALETTE)]
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _answer(predictions: Arrays, index: int, place: int) -> str:
    """Class or text that was said and wanted; empty where neither is known."""
    if {"classes", "float_classes", "targets"} <= set(predictions):
        said, before, wanted = (int(predictions[name][index]) for name in ("classes", "float_classes", "targets"))
        return f"said {said}, float {before}, is {wanted}"
    if {f"worst.{who}.texts" for who in SPEAKERS} <= set(predictions):
        return ", ".join(_words(predictions, who, place) for who in ("said", "right"))
    return ""


def _words(predictions: Arrays, who: str, place: int) -> str:
    heading = {"said": "said", "right": "is"}[who]
    return f"{heading} {str(predictions[f'worst.{who}.texts'][place])[:14]!r}"
