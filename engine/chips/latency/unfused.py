"""What layers take by themselves, where nothing is fused (O0)."""

from __future__ import annotations

from pydantic import Field

from engine.chips.latency.data import Data


class UnfusedLayer(Data):
    """What a layer of a kind takes where nothing is fused (O0), besides its weights and its work in the array.

    Attributes:
        us: for which it waits, ...
        waits: ... and for amounts that are waited for, ...
        bytes: loaded and stored per amount (:mod:`engine.compile.unfused`).
        layers: that the figures rest on.
        apart: whether these were asked for by themselves; draws of the fit do not show them.
    """

    us: float
    waits: dict[str, float] = Field(default_factory=dict)
    bytes: dict[str, float]
    layers: int
    apart: bool = False


class Alone(Data):
    """How layers load and store their maps where each does so by itself (O0), see :mod:`engine.compile.passes`.

    Attributes:
        layer_us: what a layer takes besides its transfers and its work.
        transfer_us: for which a transfer waits, ...
        step_us: ... and what it takes besides where the layer does not work in the array.
        vector_us: work on each pixel that is brought into a vector of its own, or out of it.
        pixels: multiple that the pixels of a row are padded to, twice as many in blocks of four channels.
        plane_pixels: the same of maps that lie channel by channel.
        pixel_vectors: whether each pixel lies in a vector where rows or columns are wanted; otherwise each row of a
            channel does.
        joined_transfers: transfers of a reshape that joins the rows of each channel of a map.
        joined_passes: how often it loads and stores the map besides turning it.
        halves_above: output channels above which weights and parameters are loaded in two parts; 0: they never are.
        resized_channels: multiple that more than 16 channels are padded to where pixels are repeated.
        few_by_few: whether convolutions read maps of up to four channels in blocks of four, and what is left in such
            blocks is brought into whole ones for readers that want these.
        stacked_us: what it takes besides to turn keys that were cut out of rows of pixels which lie one below the
            other, ...
        stacked_row_us: ... for each of their rows, of all heads, ...
        stacked_column_us: ... for each column of a head, ...
        stacked_token_us: ... and to cut them out, for each token.
        added_us: what it takes besides to add up a column of pixels, channel by channel, for which it is turned, ...
        added_pixel_ns: ... for each pixel, ...
        added_element_ns: ... and for each element.
        layers: whose times the constants rest on.
    """

    layer_us: float
    transfer_us: float
    step_us: float
    added_us: float = 0.0
    added_pixel_ns: float = 0.0
    added_element_ns: float = 0.0
    vector_us: float = 0.0
    stacked_us: float = 0.0
    stacked_row_us: float = 0.0
    stacked_column_us: float = 0.0
    stacked_token_us: float = 0.0
    pixels: int
    plane_pixels: int
    pixel_vectors: bool = False
    joined_transfers: int = 0
    joined_passes: float = 0
    halves_above: int = 0
    resized_channels: int
    few_by_few: bool = False
    layers: int = 0


class AloneByRows(Data):
    """What a layer of weights waits for at O0 besides its traffic, on marches whose data are not in blocks; in us.

    Attributes:
        layer_us: each layer, ...
        entering_us: ... and where what it reads comes from outside, ...
        leaving_us: ... or its int32 result leaves.
        read_row_us: row of what is read whose channels end with a part of a block, ...
        made_row_us: ... and of a result of which they do so, ...
        deep_row_us: ... or of what a depthwise layer left, by larger blocks, ...
        entered_row_us: ... and of what comes from outside, but of an image.
        table_us: table that is looked up element by element.
        gate_row_us: row, of sixteen pixels, of a map that is multiplied by a pixel.
        planar_us: map of bytes that leaves channel by channel.
        step_us: each step of 3 x 3 of a maximum of windows.
        phase_us: each phase of a dilated layer, ...
        transposed_us: ... all of a transposed one, ...
        phase_row_us: ... and rows of phases whose channels end with a part of a block.
        entering_block: channels of a block of what comes from outside.
        stepped_us: row of a map that enters and is read in steps, ...
        stepped_image_us: ... and of an image.
        plane_us: row of each channel of an int32 result whose rows, padded to ``drained`` pixels, are no whole blocks.
        block: pixels and channels of a block.
        layers: whose times the constants of layers, images and planes rest on; those of rows, tables, steps and phases
            rest on the grids ``bern2``, ``bk``, ``bleave`` and ``bpl`` (134 branches and 65 subgraphs,
            docs/evidence/latency.md).
    """

    layer_us: float
    entering_us: float
    leaving_us: float
    read_row_us: float
    made_row_us: float
    deep_row_us: float
    entered_row_us: float
    table_us: float
    gate_row_us: float
    planar_us: float
    step_us: float
    phase_us: float
    transposed_us: float
    phase_row_us: float
    stepped_us: float
    stepped_image_us: float
    plane_us: float
    block: int = 8
    drained: int = 4
    entering_block: int = 8
    layers: int = 0
