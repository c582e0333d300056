"""What distinguishes one chip from another: the limits that the reference states, and what derives from what."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, asdict, replace

import pytest
from pydantic import TypeAdapter

from engine.chips.chip import Chip, ChipFamily, Limits, ToolchainName, chip_of
from engine.chips.registry import CHIPS, MEASURED_MARCHES, load_chip


def test_every_value_has_its_type() -> None:
    adapter = TypeAdapter(Chip)
    assert all(adapter.validate_json(adapter.dump_json(chip), strict=True) == chip for chip in CHIPS.values())


def test_platforms() -> None:
    assert [load_chip(name).platform for name in MEASURED_MARCHES] == ["RDK X3", "RDK Ultra", "RDK X5"]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("int16", False, True),
        ("bias_bits", 16, 32),
        ("elementwise_shift", 6, 23),
        ("resize_decimal_bits", 8, 16),
        ("negative_slopes", False, True),
        ("repeats_rows_alone", False, True),
        ("layout_outside", True, False),
        ("sums_as_convolutions", True, False),
    ],
)
def test_bernoulli2_differs(name: str, old: object, new: object) -> None:
    assert [getattr(load_chip(march), name) for march in MEASURED_MARCHES] == [old, new, new]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("conv_kernel", 7, None),
        ("conv_dilation", 4, 18),
        ("conv_1x1_channels", 4096, 8192),
        ("deconv_stride", 8, 14),
        ("average_pool_kernel", 7, 64),
        ("argmax_channels", 512, 255),
    ],
)
def test_limits_of_the_reference(name: str, old: int, new: int | None) -> None:
    assert [getattr(load_chip(march).limits, name) for march in MEASURED_MARCHES] == [old, new, new]


def content_of(chip: Chip) -> dict[str, object]:
    """What a file says that says all of ``chip``."""
    content = asdict(chip)
    return {key: value for key, value in content.items() if key not in ("name", "figures", "derived_from")}


def test_a_file_says_neither_more_nor_less() -> None:
    content = content_of(load_chip("bernoulli2"))
    assert chip_of("bernoulli2", content) == load_chip("bernoulli2")
    with pytest.raises(ValueError, match=r"chip new: .*'fast'"):
        chip_of("new", {**content, "fast": True})
    with pytest.raises(ValueError, match=r"chip new: .*'int16'"):
        chip_of("new", {key: value for key, value in content.items() if key != "int16"})
    with pytest.raises(ValueError, match="'bernouli' is not a valid ChipFamily"):
        chip_of("new", {**content, "family": "bernouli"})
    with pytest.raises(FrozenInstanceError):
        load_chip("bayes").int16 = False  # type: ignore[misc]  # it is frozen


def test_a_chip_is_derived_by_what_differs() -> None:
    base = load_chip("bayes-e")
    new = base.derive("new", platform="board", toolchain="hb_compile", limits={"conv_kernel": 3, "nearest_scales": [2]})
    assert (new.name, new.platform, new.derived_from, new.figures) == ("new", "board", "bayes-e", "bayes-e")
    assert new.toolchain is ToolchainName.HB_COMPILE
    assert new.limits == replace(base.limits, conv_kernel=3, nearest_scales=(2,))
    told = {key: getattr(new, key) for key in ("name", "platform", "derived_from", "toolchain", "limits")}
    assert new == replace(base, **told)
    with pytest.raises(ValueError, match="Limits has no conv_kernels; it has argmax_channels, "):
        base.derive("new", limits={"conv_kernels": 3})
    with pytest.raises(ValueError, match="Chip has no limit; it has "):
        base.derive("new", limit={"conv_kernel": 3})


def test_bayes_e_has_all_of_bayes_but_was_measured_itself() -> None:
    bayes, other = load_chip("bayes"), load_chip("bayes-e")
    assert content_of(bayes) == {**content_of(other), "platform": bayes.platform}
    assert (other.derived_from, other.figures, other.measured, other.extrapolation) == ("bayes", "bayes-e", True, "")
    assert bayes.family is other.family is ChipFamily.BAYES


def test_a_chip_that_nothing_was_measured_on_has_the_figures_of_the_nearest_that_was() -> None:
    later = load_chip("nash-m")
    assert (later.platform, later.derived_from, later.figures, later.measured) == (
        "RDK S100",
        "nash-e",
        "bayes-e",
        False,
    )
    assert later.extrapolation == "extrapolated from bayes-e; nothing measured"
    assert later.title == "nash-m (extrapolated from bayes-e; nothing measured)"
    assert load_chip("bayes").title == "bayes"


def test_a_measurement_changes_the_figures_alone() -> None:
    base = load_chip("nash-e")
    assert base.derive("nash-e", measured=True) == replace(base, figures="nash-e", derived_from="nash-e")


def test_limits_are_read_by_name() -> None:
    assert load_chip("bayes").limits == Limits(**asdict(load_chip("bayes").limits))
