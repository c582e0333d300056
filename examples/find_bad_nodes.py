"""Which nodes of a converted network lose most? One node is quantised at a time.

Usage: python examples/find_bad_nodes.py [FOLDER]
"""

import sys
from pathlib import Path
from tempfile import mkdtemp

import convert_and_run

from engine.debug import get_sensitivity_of_nodes


def main(folder: Path) -> dict[str, dict[str, str]]:
    """Convert the bundled LeNet into ``folder``; metrics by node, the worst node first."""
    convert_and_run.main(folder)
    calibrated = folder / "model" / "lenet_calibrated_model.onnx"
    samples = folder / "model" / "calibration_data"
    return get_sensitivity_of_nodes(
        str(calibrated), ["cosine-similarity", "sqnr"], str(samples), data_num=10, verbose=True
    )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else mkdtemp()))
