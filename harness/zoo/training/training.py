"""Train a bundled model, export it to ONNX, measure it, and write its card."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
import yaml
from torch import Tensor, nn
from torch.nn import functional

from engine.ir import write_atomically
from harness.datasets import SceneTarget, open_dataset
from harness.files.strict_yaml import unknown
from harness.metrics.detection import Map50Options
from harness.zoo.cards import ModelCard, load_card
from harness.zoo.float_baseline import float_score
from harness.zoo.training.losses import detection_loss, distort
from harness.zoo.training.recipes import RECIPES, Recipe

Loss = Callable[[nn.Module, Tensor, Sequence[Any]], Tensor]
"""Network, images (N, C, H, W) normalised, targets; a scalar."""

SEED = 2024
OPSET = 13
PIXEL_SCALE = 1 / 255
WEIGHT_DECAY = 1e-3


def make(name: str, folder: Path, report: Callable[[str], None]) -> ModelCard:
    """Train model ``name``, write ``folder/name.onnx`` and ``folder/name.yaml``; its card, float score measured.

    The same seed gives the same training; the last bits of the weights depend on the machine's kernels.

    Args:
        name: a bundled model.
        folder: where the cards are.
        report: called with a line of progress per epoch.

    Raises:
        ConfigError: there is no such model.
    """
    if name not in RECIPES:
        raise unknown("model", name, list(RECIPES))
    recipe = RECIPES[name]
    network = train(recipe, report)
    write_atomically(folder / f"{name}.onnx", exported(network, recipe))
    digest = hashlib.sha256((folder / f"{name}.onnx").read_bytes()).hexdigest()
    _write_card(name, recipe, folder, digest, value=0.0, stderr=0.0)
    score = float_score(load_card(name))
    _write_card(name, recipe, folder, digest, value=round(score.value, 6), stderr=round(score.stderr, 6))
    return load_card(name)


def train(recipe: Recipe, report: Callable[[str], None]) -> nn.Module:
    """The trained network, in evaluation mode."""
    torch.set_num_threads(1)  # sums in one order on every machine; small maps gain nothing from more
    torch.manual_seed(SEED)
    split = open_dataset(recipe.dataset).split("train")
    images = torch.from_numpy(np.moveaxis(split.images(), 3, 1).copy())
    targets = split.targets()
    network = recipe.network().to(memory_format=torch.channels_last)  # 1.5x the speed of planes on wide maps
    optimizer = torch.optim.AdamW(network.parameters(), recipe.rate, weight_decay=WEIGHT_DECAY)
    steps = len(images) // recipe.batch
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.rate, total_steps=recipe.epochs * steps)
    random = torch.Generator().manual_seed(SEED)
    loss_of = _loss(recipe, random)
    network.train()
    for epoch in range(recipe.epochs):
        order = torch.randperm(len(images), generator=random)
        total = 0.0
        for step in range(steps):
            chosen = order[step * recipe.batch : (step + 1) * recipe.batch]
            batch = (images[chosen].float() * PIXEL_SCALE).contiguous(memory_format=torch.channels_last)
            loss = loss_of(network, batch, [targets[int(i)] for i in chosen])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 10.0)
            optimizer.step()
            schedule.step()
            total += loss.item()
        report(f"epoch {epoch + 1}/{recipe.epochs}: loss {total / steps:.4f}")
    return network.eval().to(memory_format=torch.contiguous_format)


def _loss(recipe: Recipe, random: torch.Generator) -> Loss:
    """Loss of a batch: network, images, targets."""

    def classify(network: nn.Module, images: Tensor, targets: Sequence[int]) -> Tensor:
        labels = torch.tensor(np.asarray(targets))
        return functional.cross_entropy(network(distort(images, random)), labels, label_smoothing=0.05)

    def segment(network: nn.Module, images: Tensor, targets: Sequence[SceneTarget]) -> Tensor:
        masks = torch.from_numpy(np.stack([target.mask for target in targets])).long()
        return functional.cross_entropy(network(images), masks)

    def detect(network: nn.Module, images: Tensor, targets: Sequence[SceneTarget]) -> Tensor:
        return detection_loss(network(images), targets, Map50Options.model_validate(recipe.metric["options"]))

    losses: dict[str, Loss] = {"classification": classify, "segmentation": segment, "detection": detect}
    return losses[recipe.task]


def exported(network: nn.Module, recipe: Recipe) -> bytes:
    """The network as an ONNX file: opset 13, batch 1, input ``image``."""
    channels, side = (1, 28) if recipe.dataset == "mnist" else (3, 96)
    buffer = io.BytesIO()
    torch.onnx.export(
        network,
        (torch.zeros(1, channels, side, side),),
        buffer,
        input_names=["image"],
        output_names=list(recipe.outputs),
        opset_version=OPSET,
        dynamo=False,
    )
    model = onnx.load_from_string(buffer.getvalue())
    model.ClearField("doc_string")
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString(deterministic=True))


def _write_card(name: str, recipe: Recipe, folder: Path, digest: str, *, value: float, stderr: float) -> None:
    gray = recipe.dataset == "mnist"
    colour, shape = ("gray", "1x1x28x28") if gray else ("rgb", "1x3x96x96")
    calibration, evaluation = recipe.images
    train_images = len(open_dataset(recipe.dataset).split("train"))
    card = {
        "name": name,
        "version": 1,
        "task": recipe.task,
        "description": recipe.description,
        "source": {"bundled": f"{name}.onnx"},
        "digest": digest,
        "input_parameters": {
            "input_name": "image",
            "input_type_train": colour,
            "input_layout_train": "NCHW",
            "input_shape": shape,
            "norm_type": "data_scale",
            "scale_value": round(PIXEL_SCALE, 12),
            "input_type_rt": colour,
            "input_layout_rt": "NHWC",
        },
        "dataset": {
            "name": recipe.dataset,
            "train": {"split": "train", "count": train_images},
            "calibration": {"split": "calibration", "count": calibration},
            "evaluation": {"split": "evaluation", "count": evaluation},
        },
        "metric": dict(recipe.metric),
        "float_score": {"value": value, "stderr": stderr},
        "licence": "Apache-2.0 (weights trained for ptqlab)",
        "origin": f"python -m harness.zoo.training {name} (seed {SEED}, {recipe.epochs} epochs, torch, opset {OPSET})",
        "tags": ["bundled", *recipe.tags],
    }
    text = yaml.safe_dump(card, sort_keys=False, width=120)
    write_atomically(folder / f"{name}.yaml", text.encode())
