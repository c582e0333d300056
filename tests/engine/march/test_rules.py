"""What distinguishes one march from another: the limits that the reference states, and how a wrong name is refused."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from engine.errors import ConfigError
from engine.march.rules import MARCHES, Limits, March, load_march


def test_an_unknown_march_is_refused_in_the_words_of_the_original() -> None:
    with pytest.raises(ConfigError, match=r"march invalid: 'nash' . It should in list \['bernoulli2', .*'nash-p'\]"):
        load_march("nash")


def test_every_march_is_read_once_and_bears_its_name() -> None:
    assert [load_march(name).name for name in MARCHES] == list(MARCHES)
    assert load_march("bayes") is load_march("bayes")
    assert [load_march(name).platform for name in MARCHES] == ["RDK X3", "RDK Ultra", "RDK X5"]


def test_bayes_and_bayes_e_agree_on_all_but_their_names() -> None:
    bayes, other = (load_march(name).model_dump(exclude={"name", "platform"}) for name in ("bayes", "bayes-e"))
    assert bayes == other


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("int16", False, True),
        ("bias_bits", 16, 32),
        ("elementwise_shift", 6, 23),
        ("resize_decimal_bits", 8, 16),
        ("negative_slopes", False, True),
        ("layout_outside", True, False),
        ("sums_as_convolutions", True, False),
    ],
)
def test_bernoulli2_differs(name: str, old: object, new: object) -> None:
    assert [getattr(load_march(march), name) for march in MARCHES] == [old, new, new]


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
    assert [getattr(load_march(march).limits, name) for march in MARCHES] == [old, new, new]


def test_a_file_says_neither_more_nor_less() -> None:
    content = load_march("bayes").model_dump()
    with pytest.raises(ValidationError, match="fast"):
        March.model_validate({**content, "fast": True})
    with pytest.raises(ValidationError, match="int16"):
        March.model_validate({key: value for key, value in content.items() if key != "int16"})
    with pytest.raises(ValidationError, match="frozen"):
        load_march("bayes").int16 = False  # type: ignore[misc]  # it is frozen
    with pytest.raises(ValidationError, match="conv_dilation"):
        Limits.model_validate({**content["limits"], "conv_dilation": None})


def test_a_march_that_nothing_was_measured_on_has_the_rules_of_another() -> None:
    stand_in, later = load_march("bayes-e"), load_march("nash-m")
    assert (later.name, later.platform) == ("nash-m", "RDK S100")
    assert later.model_dump(exclude={"name", "platform"}) == stand_in.model_dump(exclude={"name", "platform"})
