"""Which reshapes make rows of what was a map, and which cut tokens that were one."""

from __future__ import annotations

from engine.compile.joining import becomes_cut, joins_heads, joins_pixels, joins_rows, multiplies_heads, restores_map
from engine.compile.layers import Layer
from engine.compile.motion import Motion
from engine.ops.core.costs import CostKind
from tests.engine.compile.layers import layer


def reshape(shape: tuple[int, ...], before: tuple[int, ...], motion: Motion, *, turned: bool = False) -> Layer:
    return layer(CostKind.RESHAPE, shape, before, motion=motion, converted=(0,) if turned else ())


def test_rows_of_each_channel_are_joined_where_the_map_lay_pixel_by_pixel() -> None:
    assert joins_rows(reshape((1, 80, 400), (1, 80, 20, 20), Motion.VIEW, turned=True))
    assert joins_rows(reshape((1, 2, 40, 400), (1, 80, 20, 20), Motion.VIEW, turned=True))
    assert not joins_rows(reshape((1, 80, 400), (1, 80, 20, 20), Motion.VIEW))
    assert not joins_rows(reshape((1, 40, 800), (1, 80, 20, 20), Motion.ELEMENTS, turned=True))
    assert not joins_rows(reshape((1, 80, 20), (1, 80, 1, 20), Motion.VIEW, turned=True))


def test_pixels_of_one_channel_are_joined() -> None:
    assert joins_pixels(reshape((1, 1, 256), (1, 16, 16, 1), Motion.ELEMENTS))
    assert joins_pixels(reshape((1, 1, 1, 16), (1, 16, 1, 1), Motion.ELEMENTS))
    assert not joins_pixels(reshape((1, 1, 256), (1, 1, 256, 1), Motion.ELEMENTS))
    assert not joins_pixels(reshape((1, 2, 256), (1, 16, 16, 2), Motion.ELEMENTS))


def test_tokens_are_cut_behind_a_transposition() -> None:
    joined = reshape((1, 48, 64), (1, 48, 8, 8), Motion.NONE, turned=True)
    turned = layer(CostKind.TRANSPOSE, (1, 64, 48), (1, 48, 64), motion=Motion.NONE)
    turned = turned.model_copy(update={"inputs": ("y",), "output": "turned"})
    cut = reshape((1, 64, 2, 24), (1, 64, 48), Motion.ELEMENTS).model_copy(update={"inputs": ("turned",)})
    assert becomes_cut(joined, {"y": [turned], "turned": [cut]})
    assert not becomes_cut(joined, {"y": [turned], "turned": []})
    assert not becomes_cut(turned, {"turned": [cut]})


def test_tokens_that_were_turned_become_a_map_where_they_are() -> None:
    turned = layer(CostKind.TRANSPOSE, (1, 8, 64), (1, 64, 8), motion=Motion.NONE)
    turned = turned.model_copy(update={"output": "turned"})
    becomes = reshape((1, 8, 8, 8), (1, 8, 64), Motion.VIEW).model_copy(update={"inputs": ("turned",)})
    assert restores_map(becomes, {"turned": turned})
    assert not restores_map(becomes, {})
    assert not restores_map(becomes.model_copy(update={"output_shape": (1, 4, 16, 8)}), {"turned": turned})


def test_heads_that_a_product_left_are_joined() -> None:
    product = layer(CostKind.MATMUL, (1, 2, 64, 8), (1, 2, 64, 64), (1, 2, 64, 8))
    product = product.model_copy(update={"output": "mixed", "inputs": ("scores", "values")})
    turned = layer(CostKind.TRANSPOSE, (1, 64, 2, 8), (1, 2, 64, 8), motion=Motion.ROWS)
    turned = turned.model_copy(update={"inputs": ("mixed",), "output": "turned"})
    joined = reshape((1, 1, 64, 16), (1, 64, 2, 8), Motion.VIEW)
    assert joins_heads(turned, {"mixed": product}, {"turned": [joined]})
    assert not joins_heads(turned, {}, {"turned": [joined]})
    assert not joins_heads(turned, {"mixed": product}, {"turned": []})


def test_heads_times_a_constant() -> None:
    heads = layer(CostKind.MATMUL, (1, 2, 10, 64), (1, 2, 8, 64))
    assert multiplies_heads(heads)
    assert not multiplies_heads(layer(CostKind.MATMUL, (1, 1, 10, 64), (1, 1, 8, 64)))
