"""What runs in the user's Python; whole exports are tested in ``test_export``."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.checkpoints import in_user_python
from harness.checkpoints.in_user_python import (
    export_options,
    logits_of,
    main,
    names_of_head,
    raw_maps,
    shape_for,
    without_decoding,
)


class Detect:
    """As ultralytics' head: convolutions per stride."""

    nl, stride = 2, (8.0, 16.0)
    end2end = False
    one2one_cv2: Any = None

    def __init__(self) -> None:
        self.cv2: Any = [lambda x: f"box {x}", lambda x: f"box {x}"]
        self.cv3: Any = [lambda x: f"cls {x}", lambda x: f"cls {x}"]

    def forward(self, maps: list[Any]) -> str:
        return "decoded"


class Segment(Detect):
    """With coefficients of masks."""

    def __init__(self) -> None:
        super().__init__()
        self.cv4 = [lambda x: f"mask {x}", lambda x: f"mask {x}"]

    def proto(self, first: Any) -> str:
        return f"proto {first}"


def test_raw_maps_are_those_of_the_convolutions() -> None:
    assert raw_maps(Detect(), [1, 2]) == ["box 1", "cls 1", "box 2", "cls 2"]
    assert names_of_head(Detect()) == ["box8", "cls8", "box16", "cls16"]
    assert raw_maps(Segment(), [1, 2]) == ["box 1", "cls 1", "mask 1", "box 2", "cls 2", "mask 2", "proto 1"]
    assert names_of_head(Segment())[2:] == ["mask8", "box16", "cls16", "mask16", "proto"]


@pytest.mark.parametrize("fused", [False, True])
def test_a_network_trained_end_to_end_gives_its_own_branch(fused: bool) -> None:
    head = Detect()
    head.one2one_cv2 = [lambda x: f"one {x}"] * 2
    head.one2one_cv3 = [lambda x: f"class {x}"] * 2  # type: ignore[attr-defined]  # only such heads have it
    assert raw_maps(head, [1, 2])[0] == "box 1"  # its branch is not used
    head.end2end, head.cv2 = not fused, None if fused else head.cv2
    assert raw_maps(head, [1, 2]) == ["one 1", "class 1", "one 2", "class 2"]


def test_the_one_to_one_branch_is_asked_for_where_there_is_one() -> None:
    """From ultralytics 8.4.142 on, an export drops it unless told that no suppression is wanted."""
    head = Detect()
    assert "nms" not in export_options(head, is_raw=True)
    head.one2one_cv2 = []
    assert export_options(head, is_raw=True)["nms"] is False
    assert "nms" not in export_options(head, is_raw=False)


def test_heads_that_are_not_known_stay_whole() -> None:
    head = type("RTDETRDecoder", (Detect,), {})()
    assert without_decoding(head) == {"head": "RTDETRDecoder", "is_raw": False, "outputs": []}
    assert head.forward([1, 2]) == "decoded"
    known = type("Detect", (Detect,), {})()
    assert without_decoding(known)["is_raw"]
    assert known.forward([1, 2])[0] == "box 1"
    classifier = type("Classify", (), {"training": False, "forward": lambda self, x: (x, self.training)})()
    assert without_decoding(classifier) == {"head": "Classify", "is_raw": True, "outputs": []}
    assert classifier.forward(1) == (1, True)


def test_a_classifier_is_in_training_for_its_own_forward_only() -> None:
    head = SimpleNamespace(training=False)
    assert logits_of(lambda self, x: (x, self.training))(head, 1) == (1, True)
    assert not head.training


def test_shapes_come_from_the_option_the_file_or_the_image() -> None:
    job: dict[str, Any] = {"shapes": {"x": [1, 2]}, "image": [1, 3, 8, 8]}
    assert shape_for(job, "x", ["x", "y"], None) == [1, 2]
    assert shape_for(job, "y", ["x", "y"], SimpleNamespace(shape=(1, 4))) == [1, 4]
    assert shape_for({"shapes": {}, "image": [1, 3, 8, 8]}, "x", ["x"], SimpleNamespace(shape=("s0", 4))) == [
        1,
        3,
        8,
        8,
    ]
    with pytest.raises(ValueError, match="does not say the shape of its input y: give --input-shape y=SHAPE"):
        shape_for(job, "y", ["x", "y"], None)
    with pytest.raises(ValueError, match="--input-shape x: the inputs are a, b"):
        shape_for(job, "a", ["a", "b"], None)


def test_a_failure_is_a_reply(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text(json.dumps({"format": "unknown"}))
    assert main(str(tmp_path / "job.json")) == 1
    assert json.loads((tmp_path / "reply.json").read_text()) == {"error": "KeyError: 'unknown'"}


def test_it_imports_nothing_but_what_every_python_has() -> None:
    """It runs where ptqlab is not installed, on versions that ultralytics supports."""
    tree = ast.parse(Path(in_user_python.__file__).read_text(encoding="utf-8"), feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported == {"__future__", "collections.abc", "importlib", "json", "os", "sys", "typing"}
