"""How values of the file are written."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from pydantic import TypeAdapter, ValidationError

from engine.config import load_config, parse_config
from engine.config.values import (
    LARGEST_FLOAT,
    Flag,
    NumbersPerInput,
    ShapePerInput,
    check_path,
    names_as_text,
    split,
)
from engine.terms import NormType, SpaceAndRange
from tests.engine.config.contents import TWO_INPUTS, VALID, changed


def test_keys_without_a_value_are_not_given() -> None:
    content = changed(model__node_info=None, calibration__run_on_cpu="", calibration__max_percentile=None)
    assert parse_config(content) == parse_config(VALID)


def test_none_stands_for_nothing_in_every_list() -> None:
    content = changed(calibration__cal_data_dir="a;b", calibration__cal_data_type="uint8; None")
    content["input_parameters"] = TWO_INPUTS | {
        "norm_type": "data_scale; 'None'",
        "mean_value": "'None'; 'None'",
        "input_space_and_range": "None; None",
    }
    config = parse_config(content)
    first, second = config.input_specs(["a", "b"])
    assert (first.mean, second.norm_type, second.scale) == ((), NormType.NONE, ())
    assert (first.space_and_range, second.space_and_range) == (SpaceAndRange.REGULAR,) * 2
    assert config.calibration_parameters.cal_data_type == ("uint8", None)


def test_a_node_called_by_a_number_may_be_written_as_one() -> None:
    model = parse_config(
        changed(model__node_info={5: {"ON": "BPU"}}, model__set_node_data_type={7: "int16"})
    ).model_parameters
    assert (list(model.node_info), list(model.set_node_data_type)) == (["5"], ["7"])


def test_names_are_split() -> None:
    parameters = parse_config(changed(calibration__run_on_cpu=" conv_0; conv_1 ;")).calibration_parameters
    assert parameters.run_on_cpu == ("conv_0", "conv_1")


def test_paths_are_beside_the_file_or_in_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").touch()
    path = tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump(VALID))
    config = load_config(path)
    assert config.onnx_model == tmp_path / "m.onnx"
    assert config.calibration_parameters.cal_data_dir == (Path("cal"),)


def parsed(kind: object, value: object) -> object:
    return TypeAdapter(kind).validate_python(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, ()), ("", ()), (" ; ", ()), ("a; b;", ("a", "b")), ([" a", 1], ("a", "1")), (7, ("7",))],
)
def test_lists_are_joined_by_semicolons(value: object, expected: tuple[str, ...]) -> None:
    assert split(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1x3x4; 1X10", ((1, 3, 4), (1, 10))),
        ("5", ((5,),)),
        ([[1, 3]], None),
    ],
)
def test_shapes(value: object, expected: object) -> None:
    if expected is None:
        with pytest.raises(ValidationError, match="is not a shape"):
            parsed(ShapePerInput, value)
    else:
        assert parsed(ShapePerInput, value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("1 2.5; None; 'None'", ((1.0, 2.5), (), ())), ("1, 2,3", ((1.0, 2.0, 3.0),)), (0.5, ((0.5,),))],
)
def test_numbers_per_input(value: object, expected: object) -> None:
    assert parsed(NumbersPerInput, value) == expected


@pytest.mark.parametrize(
    ("value", "is_finite"), [(LARGEST_FLOAT, True), (-LARGEST_FLOAT, True), (3.5e38, False), ("inf", False)]
)
def test_numbers_are_finite_float32(value: object, is_finite: bool) -> None:
    if is_finite:
        assert parsed(NumbersPerInput, value) == ((value,),)
    else:
        with pytest.raises(ValidationError, match="no finite float32 number"):
            parsed(NumbersPerInput, value)


@pytest.mark.parametrize(
    ("value", "expected"), [(True, True), ("False", False), (" TRUE ", True), (1, None), ("yes", None), (0, None)]
)
def test_flags_are_true_or_false(value: object, expected: bool | None) -> None:
    if expected is None:
        with pytest.raises(ValidationError, match="expected True or False"):
            parsed(Flag, value)
    else:
        assert parsed(Flag, value) is expected


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("a" * 255, False),
        ("a" * 256, True),
        ("ä" * 127, False),
        ("ä" * 128, True),
        ("/".join(["a" * 255] * 12), False),
        ("/".join(["a" * 255] * 12) + "/b", True),
        ("a\0b", True),
        ("\ud800", True),
    ],
)
def test_paths_that_no_file_system_takes(text: str, refused: bool) -> None:
    if not refused:
        check_path(text)
        assert len(text.encode()) <= 3072
    else:
        with pytest.raises(ValueError, match=r"too long for a path|no path can hold"):
            check_path(text)


def test_only_integer_keys_become_names() -> None:
    assert names_as_text({5: 1, "a": 2, True: 3}) == {"5": 1, "a": 2, True: 3}
    assert names_as_text("text") == "text"
