"""Shapes of inputs, drawn around multiples of 4, 8, 16 and 32."""

from __future__ import annotations

import random

CHANNELS = (
    1,
    3,
    4,
    8,
    12,
    15,
    16,
    17,
    20,
    24,
    31,
    32,
    33,
    40,
    48,
    56,
    63,
    64,
    65,
    72,
    80,
    96,
    112,
    128,
    144,
    160,
    192,
)
_FEW_PIXELS = ((1, 2), (2, 1), (1, 4), (4, 1), (1, 8), (8, 1), (2, 2), (2, 4), (4, 4), (1, 16), (7, 7), (8, 8))
MANY = (224, 240, 255, 256, 257, 320, 384, 480, 512, 640, 768, 960, 1024)
_SIDES = (1, 2, 3, 4, 5, 7, 8, 10, 12, 13, 14, 16, 20, 24, 26, 28, 32, 40, 48, 52, 56, 64, 80, 96, 112, 128, 160)
_LARGE = (192, 224, 256, 320, 416, 512, 640)
_IMAGES = ((480, 640), (720, 1280), (1080, 1920), (1440, 2560), (2160, 3840))


def any_map(rng: random.Random) -> tuple[int, ...]:
    """A map, most of them square."""
    channels = rng.choice(CHANNELS if rng.random() < 0.75 else MANY)
    height = rng.choice(_SIDES if rng.random() < 0.85 else _LARGE)
    width = height if rng.random() < 0.8 else rng.choice(_SIDES)
    return 1, channels, height, width


def patched(rng: random.Random) -> tuple[int, ...]:
    """An image or a map that is cut into patches."""
    side = rng.choice((16, 28, 32, 48, 56, 64, 96, 128))
    return (
        1,
        rng.choice((1, 3, 3, 3, 4, 8, 12, 16, 32, 64)),
        side,
        side if rng.random() < 0.7 else rng.choice((16, 32, 64)),
    )


def camera_image(rng: random.Random) -> tuple[int, ...]:
    """An image as cameras give it."""
    return 1, rng.choice((1, 3, 3, 3)), *rng.choice(_IMAGES)


def rung(rng: random.Random) -> tuple[int, ...]:
    """A map of 64 x 64 pixels of 32 channels, or one of another height, width or number of channels."""
    axis = rng.choice((0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3))
    channels = rng.choice((4, 8, 12, 16, 24, 40, 64, 96, 128)) if axis == 1 else 32
    height = rng.choice((1, 2, 3, 5, 6, 9, 16, 33, 128)) if axis == 2 else 64
    width = rng.choice((1, 2, 4, 5, 9, 12, 17, 33, 100, 160)) if axis == 3 else 64
    return 1, channels, height, width


def link_map(rng: random.Random) -> tuple[int, ...]:
    """A map of few rows, as most layers of a network have."""
    side = rng.choice((4, 6, 8, 8, 10, 12, 16, 16, 20, 24, 32, 32, 40, 48, 64))
    return 1, rng.choice((8, 16, 16, 24, 32, 32, 48, 64, 128)), side, side


def entering(rng: random.Random) -> tuple[int, ...]:
    """An image, or a map of few channels that enters the model."""
    side = rng.choice((16, 24, 32, 48, 64, 96, 128, 160))
    return 1, rng.choice((1, 3, 3, 4, 8, 12, 16, 32)), side, side


def batch_of_views(rng: random.Random) -> tuple[int, ...]:
    """Images of one thing, as a batch."""
    return rng.choice((2, 2, 3, 4, 5)), 3, rng.choice((4, 8, 10, 16)), rng.choice((4, 8, 12, 16))


def batch_of_maps(rng: random.Random) -> tuple[int, ...]:
    """One small map, or a batch of such."""
    sides = (3, 4, 6, 7, 8, 9, 12, 13, 16, 17, 20, 24, 25, 32, 33, 40, 48, 64)
    channels = (1, 2, 3, 4, 6, 8, 8, 12, 16, 16, 21, 24, 32, 48, 64)
    return rng.choice((1, 1, 1, 1, 2, 3, 4, 6, 9)), rng.choice(channels), rng.choice(sides), rng.choice(sides)


def small_map(rng: random.Random) -> tuple[int, ...]:
    """A map of few pixels."""
    channels, sides = (2, 4, 8, 8, 12, 16, 24, 32), (2, 3, 4, 5, 7, 8, 8, 12, 16, 20)
    return 1, rng.choice(channels), rng.choice(sides), rng.choice(sides)


def few_elements(rng: random.Random) -> tuple[int, ...]:
    """A map of so few elements that a table over it is looked up element by element on the oldest march."""
    if rng.random() < 0.6:
        return 1, rng.choice((1, 4, 8, 16, 20, 24, 32, 48, 64, 96, 120, 128, 240, 256, 288, 512, 576, 960, 1024)), 1, 1
    sides = rng.choice(_FEW_PIXELS)
    return 1, rng.choice((4, 8, 16, 32, 64, 96)), *sides


def folding_map(rng: random.Random) -> tuple[int, ...]:
    """An image, or a map of more channels, whose sides can be halved."""
    channels = rng.choice((1, 3, 3, 3, 4, 8, 16, 32))
    height, width = rng.choice((16, 32, 64, 128)), rng.choice((16, 32, 48, 64, 96, 128, 160, 256, 320, 416, 640))
    return 1, channels, height, width if channels < 8 else rng.choice((16, 32, 64))


def even_map(rng: random.Random) -> tuple[int, ...]:
    """A map whose channels and sides can be divided."""
    channels = rng.choice((16, 32, 48, 64, 96, 128, 192, 256))
    side = rng.choice((4, 8, 16, 20, 24, 28, 32, 40, 56, 64, 80))
    return 1, channels, side, side if rng.random() < 0.8 else rng.choice((8, 16, 20, 32, 40))


def many_tokens(rng: random.Random) -> tuple[int, ...]:
    """Tokens of a transformer."""
    count = rng.choice((16, 49, 64, 100, 144, 196, 197, 256, 400, 576, 784, 1600))
    return 1, count, rng.choice((16, 32, 48, 64, 96, 128, 192, 256, 384))


def few_tokens(rng: random.Random) -> tuple[int, ...]:
    """Tokens that lie one below the other."""
    return 1, rng.choice((8, 16, 17, 25, 36, 49, 50, 64, 100)), rng.choice((32, 48, 64, 96, 128, 192, 256))


def narrow_map(rng: random.Random) -> tuple[int, ...]:
    """What attention over a map reads."""
    channels, side = rng.choice((16, 32, 64, 96, 128, 192, 256)), rng.choice((4, 7, 8, 10, 14, 16, 20, 24, 28, 32, 40))
    return 1, channels, side, side


def few_pixels(rng: random.Random) -> tuple[int, ...]:
    """A map whose pixels are as many as a layer may have channels."""
    side = rng.choice((4, 5, 6, 7, 8, 10, 12, 14, 16))
    return 1, rng.choice((8, 16, 24, 32, 48, 64, 96, 128)), side, side if rng.random() < 0.7 else rng.choice((4, 8, 16))


def matrices(rng: random.Random) -> tuple[int, ...]:
    """Queries of attention."""
    rows, depth = rng.choice((4, 8, 16, 17, 24, 32, 49, 64, 100, 144, 196, 256)), rng.choice((4, 8, 16, 17, 32, 64))
    return 1, rng.choice((1, 1, 2, 3, 4, 8)), rows, depth


def small_map_or_tokens(rng: random.Random) -> tuple[int, ...]:
    if rng.random() < 0.4:
        return 1, rng.choice((4, 16, 49, 64, 100)), rng.choice((16, 24, 64, 256))
    channels = rng.choice((1, 2, 3, 4, 8, 16, 21, 32, 48, 64))
    return 1, channels, rng.choice((1, 2, 4, 8, 16, 24)), rng.choice((1, 4, 7, 8, 16, 32, 64, 200))
