"""What passes through DDR for want of a unit on the chip: small tables, and pixels that become channels or back."""

from __future__ import annotations

from collections.abc import Sequence

from engine.chips.latency.data import Data


class SmallTables(Data):
    """Tables that are looked up element by element, for want of a unit on the chip and for the map is small.

    A map is padded in one of two ways, whichever makes it smaller: whole rows, or the channels of every pixel.

    Attributes:
        elements: of the largest map, with its padding.
        width: multiple that the pixels of a row are padded to, ...
        channels: ... with this multiple of channels.
        pixel_channels: multiple that the channels of a pixel are padded to where its row is not.
        begin_elements: elements whose time each block of ``pixel_channels`` takes besides.
        loaded_bytes: what such a layer loads besides.
        product_passes: how often a product of two maps of up to ``elements`` in whole rows loads one, ...
        product_elements: ... and stores and loads one besides where it has as many.
    """

    elements: int
    width: int
    channels: int
    pixel_channels: int
    begin_elements: int
    loaded_bytes: int
    product_passes: int
    product_elements: int

    def by_rows(self, shape: Sequence[int]) -> int:
        """Elements of a map of ``shape`` (NHWC) in rows of whole blocks of pixels."""
        batch, height, width, channels = shape
        return batch * height * -(-width // self.width) * self.width * -(-channels // self.channels) * self.channels


class FoldedMap(Data):
    """What is stored, and loaded again, where the pixels of a map become channels.

    Attributes:
        passes: of a map of more channels than an image has, in maps.
        pixel_bytes: of each pixel of other maps, whatever their channels, ...
        part_bytes: ... and of each of its rows and channels besides, ...
        part_pixels: ... once for so many pixels.
    """

    passes: float
    pixel_bytes: int
    part_bytes: int
    part_pixels: int


class Columns(Data):
    """What passes through DDR where the pixels of a map become a column whose channels are no whole blocks.

    Each element lies in a vector there.

    Attributes:
        above: bytes of such vectors that fit on the chip; more pass through DDR, ...
        passes: ... so many times.
        columns: that were asked.
    """

    above: int
    passes: float
    columns: int


class Folding(Data):
    """What passes through DDR where pixels become channels.

    Attributes:
        depth: for SpaceToDepth; the mean of what it stores and loads.
        slices: for slices of every second row and column that are joined.
        uneven_us: work of SpaceToDepth on a map whose channels are no whole blocks, besides its traffic, ...
        uneven_pixel_us: ... and on each thousand of its pixels.
    """

    depth: FoldedMap
    slices: FoldedMap
    uneven_us: float = 0.0
    uneven_pixel_us: float = 0.0


class Unfolding(Data):
    """What passes through DDR where channels become blocks of pixels (DepthToSpace).

    Attributes:
        channels: multiple that the channels of a pixel are padded to.
        few: channels up to which blocks of two pixels pass once, ...
        passes: ... and times that others do.
        least_us: what storing and loading them takes at least, ...
        pass_us: ... and besides for each pass.
        vector_bytes: of the vector that a pixel of a larger block takes.
        tile_rows: rows of a tile of what larger blocks are made of.
        most_tiles: of a map.
    """

    channels: int
    few: int
    passes: int
    least_us: float = 0.0
    pass_us: float = 0.0
    vector_bytes: int
    tile_rows: int
    most_tiles: int


class LargeWindows(Data):
    """Convolutions of large windows in steps, which are computed on a map whose pixels are folded by two.

    Attributes:
        above: rows or columns of a window above which that is done.
        most: largest side of windows of which the map passes through DDR while it is folded.
        whole: whether the map passes as it is and folded; otherwise row by row, in vectors.
        channels: multiple that channels of the folded map are padded to, or channels of a vector of a row.
        us: what folding takes, ...
        pixel_ns: ... and besides for each pixel of the map.
    """

    above: int
    most: int
    whole: bool
    channels: int
    us: float
    pixel_ns: float
