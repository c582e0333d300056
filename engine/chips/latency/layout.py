"""How a march pads and loads weights, rows and maps, and what dimensions it computes instead."""

from __future__ import annotations

from engine.chips.latency.data import Data


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
        joins_by_filter: whether a convolution moves the channels of joined maps of which one, but for the last, does
            not fill its last block.
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
    joins_by_filter: bool = False
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
        windows_in_rows: whether windows of several taps compute a map of one pixel as they do others.
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
    windows_in_rows: bool = False
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
