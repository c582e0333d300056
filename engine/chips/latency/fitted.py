"""Rates, bandwidths and fixed costs of a march, fitted to measured compilations."""

from __future__ import annotations

from engine.chips.latency.data import Data


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
        window_rate: elements per ns of pools that do not, of channels in eights: once for a window of 3 x 3, 25 / 9
            times for each of 5 x 5 that a larger one consists of; elements (and those that steps leave out) per ns and
            tap where they grow tap by tap.
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
        sum_loads_us: part of what a sum or a product of maps waits for that is loads, and goes on while others work.
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
    sum_loads_us: float = 0.0
    int16_loads: float = 1.0
    map_us: float = 0.0
    ahead_share: float = 0.0
    ahead_bytes: float = 0.0
    pipeline_bytes: float
    pipeline_power: float
