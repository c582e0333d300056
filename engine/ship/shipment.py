"""What is shipped: the models of one conversion, what it was asked for, and what it was made from."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from engine.config import Config, InputSpec
from engine.convert.items import CALIBRATED, OPTIMIZED, QUANTIZED, REQUESTS, SOURCE, SPECS
from engine.convert.pipeline import conversion
from engine.convert.runner import Run
from engine.fingerprint import digest_of_files
from engine.place import PlacementOptions
from engine.ship.record import Origin
from engine.version import installed_version


@dataclass(frozen=True)
class Shipment:
    """One conversion, to be shipped.

    Attributes:
        config: what was asked for.
        specs: what each input is.
        source: the model as its file has it.
        optimized: the float model that was calibrated.
        calibrated: the same with thresholds, weights and biases as calibration left them.
        quantized: the integer model that the toolchain is to arrive at.
        requests: what was asked of the placement.
        origin: what all this was made from.
    """

    config: Config
    specs: tuple[InputSpec, ...]
    source: ir.Model
    optimized: ir.Model
    calibrated: ir.Model
    quantized: ir.Model
    requests: PlacementOptions
    origin: Origin

    @classmethod
    def of(cls, run: Run, origin: Origin) -> Shipment:
        """What ``run`` computes, each item at most once."""
        return cls(
            config=run.config,
            specs=run[SPECS],
            source=run[SOURCE],
            optimized=run[OPTIMIZED],
            calibrated=run[CALIBRATED],
            quantized=run[QUANTIZED],
            requests=run[REQUESTS],
            origin=origin,
        )


def ship(config: Config) -> Shipment:
    """Convert as ``config`` asks for, without compiling, for :func:`engine.ship.write`; nothing is written.

    Raises:
        PtqlabError: as :func:`engine.convert.convert`.
    """
    return Shipment.of(conversion(config), origin_of(config))


def origin_of(config: Config) -> Origin:
    """Digests of the files that ``config`` names, and the engine's version; no trial.

    Raises:
        ConfigError: no model is given.
    """
    model = config.model_parameters
    files = [path for path in (model.onnx_model, model.prototxt, model.caffe_model) if path is not None]
    folders = config.calibration_parameters.cal_data_dir
    data = [path for folder in folders for path in sorted(folder.iterdir()) if path.is_file()]
    return Origin(
        model=config.float_model.name,
        model_sha256=digest_of_files(files),
        data_sha256=digest_of_files(data) if data else None,
        engine=installed_version(),
    )
