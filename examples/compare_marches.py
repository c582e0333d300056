"""Where do the nodes of a network run, and how fast is it, on each march? No data are needed.

Usage: python examples/compare_marches.py [MODEL.onnx]
"""

import sys
from pathlib import Path

from engine import Draft, check
from harness.zoo.cards import load_card


def main(model: Path) -> dict[str, float]:
    """Estimated milliseconds on the BPU by march."""
    found = {}
    for march in ("bernoulli2", "bayes", "bayes-e"):
        estimate = check(model, Draft(march)).performance
        found[march] = estimate.latency_us / 1000
        cpu = ", ".join(f"{name} ({kind})" for name, kind in estimate.cpu_nodes) or "nothing"
        print(f"{march:11s} {found[march]:7.3f} ms on the BPU; on the CPU: {cpu}")
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else load_card("scene_unet").model_path())
