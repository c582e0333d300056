"""What is said of a file that was built, and kept."""

from __future__ import annotations

from pathlib import Path

from harness.shipping.record import (
    BuiltScores,
    DepartedNode,
    Matched,
    Outputs,
    Shipped,
    ShippedTrial,
    files_to_keep,
    load_shipped,
    save_shipped,
)

IMAGES = Outputs(samples="images", equal=Matched(equal=400, total=400))
EQUAL = Shipped(
    integers=Matched(equal=4651204, total=4651204),
    thresholds=Matched(equal=52, total=52),
    renamed=3,
    first=None,
    outputs=IMAGES,
    digest="a",
)
SCORES = BuiltScores(metric="top1", float_value=0.88, measured=0.8775, built=0.875)


def test_all_equal_in_one_line() -> None:
    assert str(EQUAL) == "EQUAL: 4,651,204 of 4,651,204 integers, 52 of 52 thresholds; outputs of 400 images equal"
    assert EQUAL.equal
    assert (
        str(EQUAL.model_copy(update={"thresholds": None, "outputs": None})) == "EQUAL: 4,651,204 of 4,651,204 integers"
    )


def test_what_differs_names_node_cause_and_the_score_of_what_was_built() -> None:
    first = DepartedNode(node="Conv_3", what="weights: 7 | 9", reason="unknown")
    outputs = Outputs(samples="images", equal=Matched(equal=380, total=400), scores=SCORES)
    found = EQUAL.model_copy(update={"first": first, "outputs": outputs, "integers": Matched(equal=8, total=9)})
    assert not found.equal
    assert str(found) == (
        "DIFFERENT: 8 of 9 integers, 52 of 52 thresholds; outputs of 380 of 400 images equal; "
        "first at Conv_3: weights: 7 | 9 (cause: unknown); top1 0.8750 built, 0.8775 measured, 0.8800 float"
    )


def test_outputs_that_differ_count_although_all_integers_are_equal() -> None:
    found = EQUAL.model_copy(update={"outputs": Outputs(samples="images", equal=Matched(equal=399, total=400))})
    assert not found.equal
    assert str(found).startswith("DIFFERENT: 4,651,204 of 4,651,204 integers")


def test_it_is_kept_and_damage_is_noticed(tmp_path: Path) -> None:
    assert load_shipped(tmp_path) is None
    save_shipped(EQUAL, tmp_path)
    assert load_shipped(tmp_path) == EQUAL
    path = tmp_path / "verification.json"
    path.write_text(path.read_text().replace("400", "401"))
    assert load_shipped(tmp_path) is None


def test_a_trial_of_which_nothing_was_built() -> None:
    assert str(ShippedTrial(trial="t", key="k", problem="no toolchain")) == "not built: no toolchain"
    assert str(ShippedTrial(trial="t", key="k", shipped=EQUAL)) == str(EQUAL)


def test_files_that_a_record_keeps(tmp_path: Path) -> None:
    (tmp_path / "model_output").mkdir()
    for name in (
        "net.onnx",
        "model_output/n.bin",
        "model_output/n_quantized_model.onnx",
        "model_output/n_x_model.onnx",
    ):
        (tmp_path / name).write_bytes(b"")
    assert {path.name for path in files_to_keep(tmp_path)} == {"net.onnx", "n.bin", "n_quantized_model.onnx"}
