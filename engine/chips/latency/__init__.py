"""What the compiler and the performance model know of each march: alignments, rates, bandwidths, fixed costs.

One YAML file per measured chip beside this module, apart from the chip's own because a fit writes it and what does not
estimate latency does not depend on it. Alignments are measured facts (``docs/performance_model.md`` has the evidence);
the numbers under ``fitted`` are written by ``python -m research.fit --write``.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from engine.chips.registry import March, load_chip
from engine.chips.yaml_files import read_facts
from engine.errors import UnsupportedError


class Data(BaseModel):
    """Base: immutable, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class WeightBlock(Data):
    """Multiples that packed weights are padded to; ``depthwise_channels`` 0: no depthwise layout."""

    out_channels: int
    in_channels: int
    depthwise_channels: int = 0
    depthwise_taps: int = 1


class RowPadding(Data):
    """Width of a row in DDR: whole blocks, and a rest that is padded to a power of two.

    Attributes:
        block: pixels of a block.
        minimum: least width of the rest in pixels.
        channels: multiple that more than four channels are padded to.
        few: multiple that fewer are padded to.
    """

    block: int
    minimum: int
    channels: int = 1
    few: int = 1


class InputLayer(Data):
    """Parameters of the layer that brings a feature map into the array's layout, loaded with the map.

    Attributes:
        channel_bytes: per input channel.
        fixed_bytes: once.
        channels: multiple that the channels are padded to.
        halo: pixels of the layer's window on each side of a pixel.
        align: pixels that columns are rounded to.
        nv12_ns: what each byte of an NV12 image takes to load besides its traffic.
        by_load: whether the loads do it rather than the array: it counts as loading, not as computing.
        vector: pixels of the vectors that wider rows are arranged in, each as a row, with their padding in DDR; 0: rows
            are arranged whole.
    """

    channel_bytes: int = 0
    fixed_bytes: int = 0
    channels: int = 1
    halo: int = 0
    align: int = 1
    nv12_ns: float = 0.0
    by_load: bool = False
    vector: int = 0


class Broadcast(Data):
    """What a sum or a product loads besides for a map of one channel that is broadcast over the channels of another.

    Attributes:
        sum_bytes: a sum or difference, ...
        product_bytes: ... and a product.
        channel_bytes: per channel, where that map is a mean over the channels of a map, ...
        few_bytes: ... of up to ``few`` channels.
        few: see ``few_bytes``.
    """

    sum_bytes: int = 0
    product_bytes: int = 0
    channel_bytes: int = 0
    few_bytes: int = 0
    few: int = 16


class HalfBlocks(Data):
    """Windows in steps of one pixel whose output channels fill half of their last block of weights: their filters go by
    halves of blocks, and wider blocks of pixels, where that is less to compute.

    Attributes:
        channels: multiple that the output channels are padded to, ...
        taps: ... the taps, ...
        pixels: ... and the pixels of a row.
        above: taps above which they may; ...
        quick_above: ... and those above which that takes less time in the model. Pages have three quarters of the time
            for 3 x 3, too, but networks are nearer with all of it, for what overlaps is fitted.
    """

    channels: int = 8
    taps: int = 4
    pixels: int = 16
    above: int = 9
    quick_above: int = 9


class WeightLoad(Data):
    """How the loading of weights and parameters departs from their packed sizes.

    Attributes:
        parameter_channels: multiple of output channels that biases and requantisation parameters are loaded for.
        wide_depthwise_lanes: input channels per depthwise filter whose results leave as int32: the depthwise unit
            cannot compute it, so it is loaded as a dense convolution with that number of channels; 0: it can.
        deep_out_channels: multiple of output channels that are loaded for convolutions of one tap over more than
            ``deep_above`` input channels.
        deep_above: see ``deep_out_channels``.
        few_channels: multiple that input channels of windows are padded to where the weights are fewer so (0: they are
            in blocks of ``weight_block`` alone), ...
        few_taps: ... with taps padded to this multiple.
        halves: output channels of windows that fill half a block; None: they are padded to a whole one.
        int16_channel_bytes: parameters per output channel that a layer of int16 inputs loads besides, ...
        int16_fixed_bytes: ... and once, ...
        int16_align: ... together rounded up to this multiple.
        table_bytes: of a table of int8; 0: as many as it has.
        product_channel_bytes: parameters per channel of a product of two maps, ...
        gate_channel_bytes: ... of one of a map and a single pixel, ...
        sum_channel_bytes: ... and of a sum or difference of two maps.
        constant_rows: multiple that the rows of a constant are padded to which is added to tokens or multiplied with
            them, two bytes an element; 0: it is loaded as it lies.
        constant_bytes: of such a sum besides, and of a constant of one element, ...
        constant_channel_bytes: ... and parameters per channel of such a sum.
        scale_channel_bytes: parameters per channel of a change of scale.
        slope_channel_bytes: what a layer of slopes loads per channel besides its parameters, but at O0.
        joined_channel_bytes: what a convolution loads per channel besides where it adds up a map.
        broadcast: what sums and products load besides where a map of one channel is broadcast over the channels of
            another.
        average_bytes: parameters of a reduction to one pixel of int8.
        planar_bytes: what is loaded for an output of int8 that leaves channel by channel (NCHW), ...
        planar_channel_bytes: ... and besides per channel, padded to eight; ``planar_bytes`` may be less than nothing.
        wide_depth: multiple that the channels of a filter of one tap are padded to where its results leave as int32.
        pixel_depth: the same where it reads a single pixel, ...
        pixel_bytes: ... whose bytes are padded to this multiple.
        turning_bytes: of the filter that turns the second operand of a product of two maps, per pair of its columns;
            0: nothing is loaded for it.
        turning_channels: multiple that the columns are padded to.
        turning_columns: columns of the second operand above which no filter turns it.
    """

    parameter_channels: int = 1
    wide_depthwise_lanes: int = 0
    deep_out_channels: int = 1
    deep_above: int = 0
    few_channels: int = 0
    few_taps: int = 1
    halves: HalfBlocks | None = None
    int16_channel_bytes: int = 0
    int16_fixed_bytes: int = 0
    int16_align: int = 1
    table_bytes: int = 0
    product_channel_bytes: int = 0
    gate_channel_bytes: int = 0
    sum_channel_bytes: int = 0
    constant_rows: int = 0
    constant_bytes: int = 0
    constant_channel_bytes: int = 0
    scale_channel_bytes: int = 0
    slope_channel_bytes: int = 0
    joined_channel_bytes: int = 0
    broadcast: Broadcast = Broadcast()
    average_bytes: int = 0
    planar_bytes: int = 0
    planar_channel_bytes: int = 0
    wide_depth: int = 1
    pixel_depth: int = 1
    pixel_bytes: int = 1
    turning_bytes: int = 0
    turning_channels: int = 1
    turning_columns: int = 256


class Strips(Data):
    """Columns in which layers run whose int32 results exceed the accumulators' row.

    Attributes:
        above: widest row in pixels that runs whole.
        columns: output pixels of a strip.
        row_bytes: bytes that the rows of a strip may take, windows of all maps of its layers together.
        align: pixels that a strip's rows of a map on its way from DDR are rounded to.
    """

    above: int
    columns: int
    row_bytes: int
    align: int = 8


class Alignment(Data):
    """Multiples that a layer's dimensions are rounded up to when it is computed.

    Attributes:
        height: rows.
        width: pixels of a row.
        out_channels: output channels.
        in_channels: input channels.
        drained_width: pixels of a row of int32 results.
        single_pixel: height and width that a map of one pixel counts as.
        odd_windows: whether windows of convolutions with an even number of rows or columns get one more.
        odd_steps_in_rows: whether the rows that odd steps of more than two leave out are not computed, but for
            depthwise layers.
    """

    height: int
    width: int
    out_channels: int
    in_channels: int
    single_pixel: tuple[int, int]
    drained_width: int = 1
    odd_windows: bool = False
    odd_steps_in_rows: bool = False


class OutputRelay(Data):
    """How outputs are brought into their final layout where layers are not fused (O0 and O1): over DDR, once or twice.

    At O0 it counts where ``Latency.unfused_layers`` has nothing.

    Attributes:
        rows: multiple of pixels that rows are padded to, one per pass over DDR.
        keeps: largest output in bytes that O1 rearranges on the chip; 0: none, nor does O1 overlap loads and computing.
        maps: whether maps within the subgraph are rearranged there too at O1: what resizes and transposed convolutions
            compute.
    """

    rows: tuple[int, ...]
    keeps: int
    maps: bool = False


class Fitted(Data):
    """Constants fitted to measured compilations; times in microseconds, rates per nanosecond.

    Attributes:
        fixed_us: cost of a subgraph.
        alone_us: the same at O0, where each layer loads and stores by itself; None: as elsewhere.
        entry_us: cost of a subgraph that reads what enters the model, besides.
        layer_us: cost of a layer of weights.
        mac_rate: multiply-accumulates per ns of a dense convolution.
        depthwise_rate: multiply-accumulates per ns of a depthwise convolution.
        activation_rate: elements read and written per ns, the bound of convolutions with few multiply-accumulates.
        elementwise_rate: output elements per ns of additions, tables and data movement.
        multiply_rate: output elements per ns of products of two maps.
        pool_rate: elements read and written per ns of pools that stride, elements read per ns of reductions.
        window_rate: elements per ns of pools that do not, once for every two taps of a side beyond the first;
            elements (and those that steps leave out) per ns and tap where they grow tap by tap.
        resize_rate: output elements per ns of resizing.
        wide_rate: int32 elements per ns that leave the accumulators.
        input_rate: elements per ns of the subgraph's inputs that are brought into the layout of the MAC array.
        row_ns: cost of each row of each channel that is brought into that layout, ...
        wide_row_ns: ... or leaves it as int32.
        single_row_ns: half a vector of pixels of a row of a map of one channel that a convolution of one tap scales; 0:
            as of other convolutions.
        int16_rate: elements per ns of int16 maps that a convolution reads, besides its multiply-accumulates.
        matrix_us: cost of each matrix product of two maps, ...
        product_rate: ... and multiply-accumulates per ns, with padding; 0: as those of other layers, without it.
        turning: what those of the filter that turns the second operand take, relative to them.
        left_ns: what each element of the first operand takes besides where the operands enter the model, ...
        product_ns: ... and each element of the product.
        sync_us: time for which cores that share a frame wait for each other between two groups of layers.
        drain_exposed: part of the shorter of a layer's computing and draining that does not hide behind the longer.
        drain_apart: part of draining that would hide behind the computing of other layers but does not.
        int16_factor: cost of a convolution with int16 input relative to int8.
        load_gbps: bytes loaded per ns.
        store_gbps: bytes stored per ns.
        begin_us: what a load of weights, of a table or of parameters takes besides its traffic.
        int16_loads: such loads of a layer of weights whose inputs are int16, which is several layers of bytes.
        map_us: the same of a load or store of each map of a batch but the first.
        ahead_share: part of a layer's work that goes on while the weights of the next one are loaded.
        ahead_bytes: weights that the chip holds where they are loaded ahead of their layers; 0: none are.
        pipeline_bytes: traffic of a subgraph at which half of what the engines do beside the busiest one is hidden.
        pipeline_power: how sharply hiding sets in around ``pipeline_bytes``.
    """

    fixed_us: float
    alone_us: float | None = None
    entry_us: float = 0.0
    layer_us: float
    mac_rate: float
    depthwise_rate: float
    activation_rate: float
    elementwise_rate: float
    multiply_rate: float
    pool_rate: float
    window_rate: float
    resize_rate: float
    wide_rate: float
    input_rate: float
    row_ns: float
    wide_row_ns: float = 0.0
    single_row_ns: float = 0.0
    int16_rate: float
    matrix_us: float
    product_rate: float = 0.0
    turning: float = 0.0
    left_ns: float = 0.0
    product_ns: float = 0.0
    sync_us: float
    drain_exposed: float
    drain_apart: float
    int16_factor: float
    load_gbps: float
    store_gbps: float
    begin_us: float = 0.0
    int16_loads: float = 1.0
    map_us: float = 0.0
    ahead_share: float = 0.0
    ahead_bytes: float = 0.0
    pipeline_bytes: float
    pipeline_power: float


class Overhead(StrEnum):
    """What layers take besides computing and traffic: the wait for a result that is too small to hide it, or elements
    that are handled one at a time.

    Those down to ``SLOPED`` are counted per layer, the others per thousand elements or rows
    (:mod:`engine.compile.overheads`).
    """

    UNFUSED = "unfused"
    """Layers between which nothing stays on the chip (O0), and what such read in another layout."""
    PIXEL = "pixel"
    """Convolutions of a single pixel, as in squeeze-and-excitation blocks and classifiers."""
    SUM = "sum"
    """Additions, differences and products."""
    SCALE = "scale"
    """Changes of scale."""
    TABLE = "table"
    """Tables."""
    REDUCE = "reduce"
    """Reductions to one channel, of maps of up to four dimensions."""
    JOIN = "join"
    """Concatenations."""
    MOVE = "move"
    """Slices, splits, borders and other copies."""
    POOL = "pool"
    """Pools."""
    WINDOW = "window"
    """Maxima of more than 3 x 3 in steps of one pixel, once for every two taps of a side beyond the first."""
    AVERAGE = "average"
    """Pixels that are averages of windows of other than 3 x 3, once for every vector of channels, ..."""
    AVERAGE_TAP = "average_tap"
    """... and taps of these."""
    RESIZE = "resize"
    """Resizing."""
    TRANSPOSED = "transposed"
    """Transposed convolutions."""
    SLOPED = "sloped"
    """Layers of such slopes, ..."""
    SLOPE = "slope"
    """... and elements, which take one slope or another by their sign."""
    VIEW = "view"
    """Rows (of the last dimension; twice as many of int16) that are joined, or cut and stay where they are."""
    MOVED = "moved"
    """Rows that are moved, but for ``SINGLE``."""
    CROSSED = "crossed"
    """Bytes of matrices whose rows and columns change places."""
    STACKED = "stacked"
    """Groups of rows, as they lie, that change places with the rows of each group."""
    LAID = "laid"
    """Rows of each channel of maps that are laid out channel by channel."""
    TURNED = "turned"
    """Bytes of maps whose pixels and channels change places, ..."""
    TURNED_ROW = "turned_row"
    """... rows of each of their channels, ..."""
    TURNED_PIXEL = "turned_pixel"
    """... and their pixels, ..."""
    TURNED_TOKEN = "turned_token"
    """... or tokens, which are moved one element at a time besides."""
    BLOCKS = "blocks"
    """Elements, pixels of 16 channels at least, of maps whose pixels were channels (DepthToSpace)."""
    SHUFFLED_CHANNEL = "shuffled_channel"
    """Channels of maps whose channels are shuffled, ..."""
    SHUFFLED = "shuffled"
    """... and rows of each of them."""
    ARRANGED = "arranged"
    """Maps that a layer reads in another layout than the one before it left, ..."""
    ARRANGED_PIXELS = "arranged_pixels"
    """... their pixels, whatever their channels, ..."""
    ARRANGED_ROWS = "arranged_rows"
    """... and rows of each of their channels."""
    COPIED = "copied"
    """Rows of each channel of maps that leave as NCHW and as they are."""
    SWAP = "swap"
    """Layers in which rows change places in more than four dimensions (windows), ..."""
    SWAPPED = "swapped"
    """... and bytes of these."""
    FLATTENED = "flattened"
    """Pixels of maps of int16 that leave with their pixels joined."""
    REGROUPED = "regrouped"
    """Bytes of rows of int16 that become those of a map of several rows of pixels."""
    PLANE_ROW = "plane_row"
    """Rows of each channel of a map that become one row, ..."""
    PLANE_PIXEL = "plane_pixel"
    """... and bytes of one channel of it, rows padded to 16 pixels."""
    PRODUCT_COLUMN = "product_column"
    """Columns of the second operands of products of several matrices (heads)."""
    PLANE_SINGLE = "plane_single"
    """Pixels of a map of one channel that become a row, a third more of int16."""
    TOKENS = "tokens"
    """Bytes of tokens that become channels of maps of one row: half of them one element of every head at a time, half
    by themselves."""
    SLICED = "sliced"
    """Rows of maps of one channel that are cut, all parts together."""
    HEADS = "heads"
    """Bytes of rows that are cut into the heads of a product."""
    COLUMN = "column"
    """Layers that cut rows of pixels which lie one below the other, ..."""
    COLUMNS = "columns"
    """... and bytes of these."""
    JOINED = "joined"
    """Bytes of rows of the maps of a batch that are joined, ..."""
    JOINED_ROW = "joined_row"
    """... and these rows."""
    UNEVEN = "uneven"
    """Rows of all channels of maps that are joined, or cut out, within a block of 8 channels, ..."""
    UNEVEN_STRETCH = "uneven_stretch"
    """... and stretches of 64 pixels of these."""
    SINGLE_TAP = "single_tap"
    """Channels of depthwise layers of one tap."""
    STEPPED = "stepped"
    """Channels of other depthwise layers in steps of several pixels."""
    LINE = "line"
    """Layers that turn the channels of a pixel into a line of single channels, or back, ..."""
    LINES = "lines"
    """... and elements of these."""
    DILATED = "dilated"
    """Elements of what a dilated convolution reads and computes, which are sorted into phases and back, ..."""
    DILATED_PHASE = "dilated_phase"
    """... and its phases, each by itself."""
    DILATED_PAIR = "dilated_pair"
    """Dilated convolutions whose taps are two apart, which are sorted by steps, each by itself, ..."""
    DILATED_PAIRS = "dilated_pairs"
    """... and elements of what they read and compute."""
    DILATED_DEPTH = "dilated_depth"
    """Elements of what a dilated depthwise layer computes, phases padded, where such are sorted otherwise."""
    DEPTH_REDUCE = "depth_reduce"
    """Elements of maps of which one channel is left."""
    DEPTH_SUMMED = "depth_summed"
    """Elements, with their padding, of a map whose mean over channels only sums take: a convolution of one result."""
    SINGLE = "single"
    """Bytes of elements that are moved one at a time."""
    DEEP_SINGLE = "deep_single"
    """The same where there are more than four dimensions (queries, keys and values), ..."""
    DEEP_ROW = "deep_row"
    """... rows into which they are cut, ..."""
    DEEP_HEAD_ROW = "deep_head_row"
    """... and, where they change places, rows of one head, of several heads less each."""
    STACKED_PIXEL = "stacked_pixel"
    """Pixels of maps that become a column, ..."""
    COLUMN_ROW = "column_row"
    """... rows of columns that are multiplied with one of single channels, ..."""
    COLUMN_ELEMENT = "column_element"
    """... elements of these, ..."""
    COLUMN_ADDED = "column_added"
    """... and elements of columns that are added up."""
    ANCHOR_PIXEL = "anchor_pixel"
    """Pixels of maps of int16 whose channels become anchors and their values, ..."""
    ANCHOR = "anchor"
    """... rows of values that are brought together for each anchor, or of other transpositions of the last of more than
    four dimensions, ..."""
    ANCHOR_PARTS = "anchor_parts"
    """... such rows that are joined of parts, ..."""
    ANCHOR_JOINED = "anchor_joined"
    """... and those of int16 that become rows of three dimensions inside a subgraph."""
    SINGLE_ROW = "single_row"
    """Rows of such elements."""
    SQUEEZED = "squeezed"
    """Single elements that become a row, or that a row becomes."""
    SINGLE_DDR = "single_ddr"
    """Bytes of elements that are moved one at a time through DDR (O1), besides their traffic."""
    WIDE_POOL = "wide_pool"
    """Channels of pools of int16, ..."""
    WIDE_POOL_TAP = "wide_pool_tap"
    """... taps of a side of each, ..."""
    WIDE_POOL_ROW = "wide_pool_row"
    """... rows of each, before steps leave some out, ..."""
    WIDE_POOL_ROW_TAP = "wide_pool_row_tap"
    """... taps of a side of each of these rows, ..."""
    WIDE_POOL_PIXEL = "wide_pool_pixel"
    """... and their pixels beyond 32."""
    DEEP_REDUCE = "deep_reduce"
    """Results of reductions of more than four dimensions."""
    DEEP_MAXIMUM = "deep_maximum"
    """Results of maxima over another than the last of more than four dimensions: it becomes the last and back, ..."""
    DEEP_MAXIMUM_PLANE = "deep_maximum_plane"
    """... and planes of these."""
    READ_PIXEL = "read_pixel"
    """Pixels, of channels that are no whole blocks of 16, of maps that another subgraph left NHWC."""
    PLAIN = "plain"
    """Results that leave the chip NHWC, ..."""
    PLAIN_PIXEL = "plain_pixel"
    """... their pixels, once for so many channels (``Latency.plain_channels``), ..."""
    PLAIN_ROW = "plain_row"
    """... and their rows, as often, where that is more than once."""
    PLANAR = "planar"
    """Rows, of all channels together, of int32 results that leave the chip as NCHW; besides their draining."""
    SMALL_TABLE = "small_table"
    """Elements, with their padding, of maps too small for the way of tables through DDR."""


class Measured(Data):
    """A fitted overhead: microseconds per layer or per thousand elements or rows, and what shows it.

    What fewer than two networks and draws show is provisional.

    Attributes:
        us: the constant.
        networks: in deployed forms that show it.
        draws: rows of single layers, blocks and small networks that the original was asked about and that show it.
        timed: layers whose computing times it was taken from; 0: it is fitted to latencies.
    """

    us: float
    networks: int
    draws: int = 0
    timed: int = 0


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
    waits: dict[str, float] = {}
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
        added_element_ns: ... and for each element.
        layers: whose times the constants rest on.
    """

    layer_us: float
    transfer_us: float
    step_us: float
    added_us: float = 0.0
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


class ModelAccuracy(Data):
    """Relative errors that nine of ten measured networks stay within, each with its family left out of the fit, and
    nine of ten networks that no fit saw; 0.1 is 10 percent.
    """

    latency: float
    ddr: float


class FullSize(Data):
    """Errors of networks that take longer than ``above_us``: what 12 of 13 published logs of such stay within.

    Source: docs/evidence/latency.md, "Full-size networks".
    """

    above_us: float
    accuracy: ModelAccuracy


class Latency(Data):
    """Performance data of one march.

    Attributes:
        weight_block: padding of packed weights.
        weight_load: what of weights and parameters is loaded otherwise than packed.
        tables_through_ddr: whether a table is looked up on the way through DDR, for want of a unit on the chip.
        small_tables: those that are not.
        folding: what passes through DDR where pixels become channels; none: nothing.
        unfolding: what does where channels become pixels; none: nothing.
        plain_channels: channels of a pixel that leave the chip together where results leave it pixel by pixel (NHWC);
            0: they leave as all others do.
        pools_by_taps: whether maxima of overlapping windows grow tap by tap, through DDR, and averages are depthwise
            layers.
        skips_whole: whether a map that bypasses windows of other layers is held whole rather than row by row.
        dilated_through_ddr: whether maps of dilated layers are sorted into phases on the way through DDR.
        joins_apart: whether a layer that reads a map from DDR beside others begins a group.
        weights_on_chip: whether weights and maps share one memory; ``map_bytes`` and ``group_bytes`` are its size then.
        groups_apart: whether groups of fused layers follow one another; else all layers of a subgraph overlap.
        strips: column strips of wide int32 results; none where rows of any width run whole.
        input_row: rows of a subgraph's inputs in DDR.
        input_layer: what is loaded besides each feature map that enters a subgraph.
        output_row: rows of a subgraph's outputs in DDR.
        planar_row: rows of outputs of int8 that leave channel by channel (NCHW); none: as all others.
        output_relay: rearrangement of outputs at O0 and O1.
        alignment: rounding of the dimensions of a convolution.
        map_bytes: on-chip memory for whole feature maps between groups of layers.
        group_bytes: on-chip memory for the rows of layers that run together.
        unfused_bytes: ``map_bytes`` at O1.
        cores: cores that may share a frame.
        fitted: fitted constants.
        overheads: fitted to networks.
        alone: what is known of transfers at O0, ...
        alone_by_rows: ... or of layers of weights alone.
        unfused_layers: at O0, by kind of layer; none where O0 is estimated from traffic and overheads.
        unfused_computes: whether layers compute there as long as at other levels; else all but those of weights and
            pools work for a part of the time of their transfers, ...
        unfused_work: ... namely this.
        accuracy: of the fit.
        full_size: of full-size networks, where such were measured.
        unfused: of networks at O0, where such were asked.
    """

    weight_block: WeightBlock
    weight_load: WeightLoad = WeightLoad()
    tables_through_ddr: bool = False
    small_tables: SmallTables | None = None
    folding: Folding | None = None
    unfolding: Unfolding | None = None
    plain_channels: int = 0
    pools_by_taps: bool = False
    skips_whole: bool = False
    dilated_through_ddr: bool = False
    joins_apart: bool = False
    weights_on_chip: bool = False
    groups_apart: bool = False
    strips: Strips | None = None
    input_row: RowPadding
    input_layer: InputLayer = InputLayer()
    output_row: RowPadding
    planar_row: RowPadding | None = None
    output_relay: OutputRelay
    alignment: Alignment
    map_bytes: int
    group_bytes: int
    unfused_bytes: int
    cores: int
    fitted: Fitted
    overheads: dict[Overhead, Measured] = {}
    alone: Alone | None = None
    alone_by_rows: AloneByRows | None = None
    unfused_layers: dict[str, UnfusedLayer] = {}
    unfused_computes: bool = False
    unfused_work: float = 0.0
    accuracy: ModelAccuracy
    full_size: FullSize | None = None
    unfused: ModelAccuracy | None = None

    def accuracy_at(self, latency_us: float, *, unfused: bool = False) -> ModelAccuracy:
        """Errors of an estimate of ``latency_us`` microseconds and of its traffic; ``unfused``: at O0."""
        if unfused and self.unfused is not None:
            return self.unfused
        if self.full_size is not None and latency_us > self.full_size.above_us:
            return self.full_size.accuracy
        return self.accuracy


def marches() -> tuple[str, ...]:
    """Names of the marches that have performance data."""
    return tuple(sorted(file.stem for file in Path(__file__).parent.glob("*.yaml")))


@cache
def load_latency(march: str) -> Latency:
    """Performance data of ``march``, or of the measured chip that stands in for it.

    Raises:
        UnsupportedError: there is no such march; the message lists those that exist.
    """
    name = load_chip(march).figures if march in list(March) else march
    if name not in marches():
        raise UnsupportedError(f"march {march!r} has no performance data; it should be one of {list(marches())}")
    return Latency.model_validate(read_facts(data_file(name)))


def data_file(march: str) -> Path:
    """The YAML file of ``march``; the fit rewrites that of a source checkout."""
    return Path(__file__).with_name(f"{march}.yaml")
