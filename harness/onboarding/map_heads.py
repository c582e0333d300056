"""Heads with an answer per pixel or per step: segmentation, text detection, text recognition."""

from __future__ import annotations

from typing import Any

from harness.metrics.segmentation import MaskForm
from harness.onboarding.head_guess import HeadGuess
from harness.onboarding.network_file import NetworkOutputs
from harness.terms import Fit
from harness.zoo.cards import TaskKind

_LARGEST_STEP = 32
"""Pixels of the input per pixel of a map, at most."""
_MOST_CLASSES = 255


def _is_map(side: tuple[int, int], size: tuple[int, int]) -> bool:
    """Whether a map of ``side`` covers an input of ``size``: whole pixels per pixel of the map, the same both ways."""
    steps = [-(-whole // part) for whole, part in zip(size, side, strict=True) if 0 < part <= whole]
    return len(steps) == 2 and abs(steps[0] - steps[1]) <= 1 and max(steps) <= _LARGEST_STEP and min(side) > 1


def _segmentation(
    kind: str, classes: int, form: MaskForm, reason: str, *, is_sure: bool, needs_labels: bool = False, **more: Any
) -> HeadGuess:
    options: dict[str, Any] = {"classes": classes, **more}
    if form is not MaskForm.NCHW:
        options["form"] = form.value
    task, usual = TaskKind.SEGMENTATION, "ImageNet mean and deviation"
    return HeadGuess(
        kind, task, "miou", reason, options, classes, Fit.STRETCH, is_sure, usual, needs_labels=needs_labels
    )


def class_map(network: NetworkOutputs) -> HeadGuess | None:
    """One output of whole numbers, one per pixel: the class with the largest logit."""
    if len(network.outputs) != 1 or not network.outputs[0].is_whole:
        return None
    shape = network.outputs[0].shape
    side = tuple(length for length in shape[1:] if length != 1)
    if len(shape) not in (3, 4) or len(side) != 2 or not _is_map((side[0], side[1]), network.size):
        return None
    reason = f"one output of whole numbers, {side[0]}x{side[1]}: the class of each pixel"
    return _segmentation("map of classes", _MOST_CLASSES, MaskForm.CLASSES, reason, is_sure=True)


def map_per_class(network: NetworkOutputs) -> HeadGuess | None:
    """One output with a map per class, at the size of the input or a part of it, in either order of dimensions."""
    if len(network.outputs) != 1 or len(network.outputs[0].shape) != 4:
        return None
    _, *dims = network.outputs[0].shape
    orders = [(MaskForm.NCHW, dims[0], (dims[1], dims[2])), (MaskForm.NHWC, dims[2], (dims[0], dims[1]))]
    for form, classes, side in orders:
        if 2 <= classes <= _MOST_CLASSES and _is_map(side, network.size):
            whole = "the size of the input" if side == network.size else f"{side[0]}x{side[1]}, resized to the masks"
            reason = f"one output of {classes} maps, {whole}"
            # three maps of the size of the input may be an image
            return _segmentation("map per class", classes, form, reason, is_sure=False, needs_labels=classes == 3)
    return None


def one_map(network: NetworkOutputs) -> HeadGuess | None:
    """One output with one map of real numbers: text of PaddleOCR's detectors, or an object and its background."""
    if len(network.outputs) != 1 or len(network.outputs[0].shape) not in (3, 4):
        return None
    output = network.outputs[0]
    side = tuple(length for length in output.shape[1:] if length != 1)
    if len(side) != 2 or (len(output.shape) == 3 and 1 in output.shape[1:]):
        return None
    if not _is_map((side[0], side[1]), network.size):
        return None
    threshold = 0.5 if "Sigmoid" in output.producer else 0.0
    reason = f"one output of one map, {side[0]}x{side[1]}: above {threshold:g} is class 1"
    return _segmentation("one map", 2, MaskForm.BINARY, reason, is_sure=False, needs_labels=True, threshold=threshold)


def text_map(network: NetworkOutputs) -> HeadGuess | None:
    """A probability of text per pixel, 1x1xHxW of the size of the input (Liao et al., Differentiable Binarization)."""
    if len(network.outputs) != 1 or network.outputs[0].shape != (1, 1, *network.size):
        return None
    if "Sigmoid" not in network.outputs[0].producer:
        return None
    return HeadGuess(
        kind="text map",
        task=TaskKind.DETECTION,
        metric="hmean",
        reason="one output with a probability per pixel; boxes around text, by PaddleOCR's thresholds",
        classes=1,
        fit=Fit.PAD,
        is_sure=False,
        usual="ImageNet mean and deviation",
        needs_labels=True,
    )


def lines_of_text(network: NetworkOutputs) -> HeadGuess | None:
    """Class scores per step along an input that is a line, low and wide."""
    return steps_of_text(network) if _is_line(network) else None


def _is_line(network: NetworkOutputs) -> bool:
    height, width = network.size
    return height <= _HIGHEST_LINE and width >= 2 * height


_HIGHEST_LINE = 64
_FEWEST_STEPS, _FEWEST_CHARACTERS = 4, 10


def steps_of_text(network: NetworkOutputs) -> HeadGuess | None:
    """One output with a row of class scores per step, 1 x steps x classes, or of CRNN steps x 1 x classes."""
    shapes = [output.shape for output in network.outputs]
    if len(shapes) != 1 or len(shapes[0]) != 3 or 1 not in shapes[0][:2]:
        return None
    *order, classes = shapes[0]
    steps = max(order)
    if steps < _FEWEST_STEPS or classes < _FEWEST_CHARACTERS:
        return None
    reason = f"one output of {classes} scores at {steps} steps"
    sure, task = _is_line(network), TaskKind.RECOGNITION
    return HeadGuess("CTC", task, "edit_similarity", reason, classes=classes, fit=Fit.LINE, is_sure=sure, usual="-1..1")
