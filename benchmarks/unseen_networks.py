"""Networks that no rule was fitted to, as files: ``python -m benchmarks.unseen_networks DIR [--seed 0]``.

Full-size architectures of torchvision with seeded weights and batch statistics of noise images, exported at opset 11
for small images, and networks drawn from the grammar of ``ptqlab conformance hunt`` with a seed of their own. Each is a
folder with its configuration and calibration data, for :mod:`benchmarks.shipping`. Marches rotate.
"""

from __future__ import annotations

import argparse
import io
import random
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from engine.chips import MEASURED_MARCHES, March
from engine.conformance.hunt.draws import draw, write_draw
from engine.ir import write_atomically
from harness.datasets.torchvision_import import import_torchvision

OPSET = 11
SAMPLES = 4
CLASSES = 100
ARCHITECTURES = {
    "resnet18": 96,
    "mobilenet_v2": 96,
    "mobilenet_v3_small": 96,
    "mobilenet_v3_large": 96,
    "shufflenet_v2_x1_0": 96,
    "squeezenet1_1": 96,
    "mnasnet1_0": 96,
    "efficientnet_b0": 96,
    "regnet_x_400mf": 96,
    "regnet_y_400mf": 96,
    "googlenet": 96,
    "densenet121": 96,
    "resnet50": 64,
    "resnext50_32x4d": 64,
    "inception_v3": 96,
    "convnext_tiny": 64,
    "swin_t": 64,
    "efficientnet_v2_s": 64,
    "lraspp_mobilenet_v3_large": 96,
    "deeplabv3_mobilenet_v3_large": 96,
    "fcn_resnet50": 64,
}
"""Height and width of the image by architecture."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the networks and print their configuration files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=12, help="networks of the hunt's grammar")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    marches = sorted(MEASURED_MARCHES)
    for index, (name, side) in enumerate(ARCHITECTURES.items()):
        path = given.directory / name / f"{name}.yaml"
        if not path.is_file():
            _write(
                path, _exported(name, side, given.seed), side, marches[(index + given.seed) % len(marches)], given.seed
            )
        print(path, flush=True)
    for index in range(given.draws):
        item = draw(given.seed + 38_000, index, [marches[index % len(marches)]])
        print(write_draw(item, given.directory / item.name), flush=True)
    return 0


def _exported(name: str, side: int, seed: int) -> bytes:
    """The architecture with weights of ``seed`` and statistics of noise images."""
    import torch

    models = import_torchvision().models

    class Only(torch.nn.Module):
        """The first output of a network that gives several by name."""

        def __init__(self, network: torch.nn.Module) -> None:
            super().__init__()
            self.network = network

        def forward(self, images: torch.Tensor) -> Any:
            found = self.network(images)
            return found["out"] if isinstance(found, dict) else found

    torch.manual_seed(seed)
    chosen: dict[str, Any] = {"weights": None, "num_classes": CLASSES}
    if name in ("googlenet", "inception_v3"):
        chosen |= {"aux_logits": False, "init_weights": False}
    elif ("mobilenet_v3_large" in name and name[0] in "ld") or name.startswith("fcn"):
        chosen |= {"weights_backbone": None, "num_classes": 21}
    network = models.get_model(name, **chosen)
    norms = [layer for layer in network.modules() if isinstance(layer, torch.nn.BatchNorm2d)]
    for layer in norms:
        layer.momentum = None
        torch.nn.init.uniform_(layer.weight, 0.5, 1.5)
        torch.nn.init.normal_(layer.bias, 0, 0.2)
    network.eval()
    for layer in norms:
        layer.train()
    with torch.no_grad():
        for _ in range(2):
            network(torch.randn(4, 3, side, side))
    network.eval()
    buffer = io.BytesIO()
    torch.onnx.export(
        Only(network).eval(),
        (torch.zeros(1, 3, side, side),),
        buffer,
        input_names=["image"],
        output_names=["scores"],
        opset_version=OPSET,
        dynamo=False,
    )
    return buffer.getvalue()


def _write(path: Path, network: bytes, side: int, march: March, seed: int) -> None:
    """Network, calibration data and configuration."""
    rng, choice = np.random.default_rng(seed), random.Random(f"{path.stem} {seed}")
    write_atomically(path.parent / "net.onnx", network)
    (path.parent / "cal").mkdir(exist_ok=True)
    for number in range(SAMPLES):
        coarse = rng.uniform(0, 255, (1, 3, side // 8, side // 8)).repeat(8, 2).repeat(8, 3)
        pixels = np.clip(coarse + rng.normal(0, 20, coarse.shape), 0, 255).round()
        write_atomically(path.parent / "cal" / f"{number}.bin", pixels.astype(np.float32).tobytes())
    write_atomically(
        path,
        yaml.safe_dump(
            {
                "model_parameters": {
                    "onnx_model": "./net.onnx",
                    "march": march.value,
                    "output_model_file_prefix": path.stem,
                    "working_dir": "./out",
                },
                "input_parameters": {
                    "input_name": "image",
                    "input_type_train": "rgb",
                    "input_layout_train": "NCHW",
                    "input_type_rt": choice.choice(["rgb", "nv12", "bgr"]),
                    "input_layout_rt": "NHWC",
                    "input_shape": f"1x3x{side}x{side}",
                    "norm_type": "data_mean_and_scale",
                    "mean_value": "123.675 116.28 103.53",
                    "scale_value": "0.0171 0.0175 0.0174",
                },
                "calibration_parameters": {
                    "cal_data_dir": "./cal",
                    "cal_data_type": "float32",
                    "calibration_type": choice.choice(["max", "max", "kl"]),
                },
                "compiler_parameters": {"compile_mode": "latency", "optimize_level": "O0"},
            },
            sort_keys=False,
        ).encode(),
    )


if __name__ == "__main__":
    sys.exit(main())
