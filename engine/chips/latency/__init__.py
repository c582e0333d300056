"""What the compiler and the performance model know of each march: alignments, rates, bandwidths, fixed costs.

One YAML file per measured chip beside this module, apart from the chip's own because a fit writes it and what does not
estimate latency does not depend on it. Alignments are measured facts (``docs/performance_model.md`` has the evidence);
the numbers under ``fitted`` are written by ``python -m research.fit --write``. The modules beside it explain their
entries.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pydantic import Field

from engine.chips.latency.data import Data
from engine.chips.latency.fitted import Fitted
from engine.chips.latency.layout import Alignment, InputLayer, OutputRelay, RowPadding, Strips, WeightBlock, WeightLoad
from engine.chips.latency.overhead import Measured, Overhead
from engine.chips.latency.through_ddr import Columns, Folding, LargeWindows, SmallTables, Unfolding
from engine.chips.latency.unfused import Alone, AloneByRows, UnfusedLayer
from engine.chips.registry import March, load_chip
from engine.chips.yaml_files import read_facts
from engine.errors import UnsupportedError


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
        large_windows: how convolutions of large windows in steps run; none: as others.
        plain_channels: channels of a pixel that leave the chip together where results leave it pixel by pixel (NHWC);
            0: they leave as all others do.
        pools_by_taps: whether maxima of overlapping windows grow tap by tap, through DDR, and averages are depthwise
            layers.
        skips_whole: whether a map that bypasses windows of other layers is held whole rather than row by row.
        dilated_through_ddr: whether maps of dilated layers are sorted into phases on the way through DDR.
        joins_apart: whether a layer that reads a map from DDR beside others begins a group.
        weights_on_chip: whether weights and maps share one memory; ``map_bytes`` and ``group_bytes`` are its size then.
        columns: what passes through DDR of columns of pixels whose channels are no whole blocks; none: nothing.
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
    large_windows: LargeWindows | None = None
    plain_channels: int = 0
    pools_by_taps: bool = False
    skips_whole: bool = False
    dilated_through_ddr: bool = False
    joins_apart: bool = False
    weights_on_chip: bool = False
    columns: Columns | None = None
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
    overheads: dict[Overhead, Measured] = Field(default_factory=dict)
    alone: Alone | None = None
    alone_by_rows: AloneByRows | None = None
    unfused_layers: dict[str, UnfusedLayer] = Field(default_factory=dict)
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
