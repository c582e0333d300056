"""The stage that opens the calibration data."""

from __future__ import annotations

import logging

import onnx_ir as ir

from engine.calibrate.data.doubts import folder_doubts
from engine.calibrate.data.sources import FolderData, open_folders
from engine.config import Config, InputSpec
from engine.convert.items import DATA, SOURCE, SPECS
from engine.convert.runner import Stage, Work
from engine.terms import CalibrationType

logger = logging.getLogger("engine.convert")


def open_data(config: Config, source: ir.Model, specs: tuple[InputSpec, ...]) -> FolderData | None:
    """The calibration data of ``config``; ``None`` where its method needs none and none are given."""
    calibration = config.calibration_parameters
    if not calibration.calibration_type.needs_data and not calibration.cal_data_dir:
        return None
    data = open_folders(
        source, specs, calibration.cal_data_dir, calibration.cal_data_type, preprocess_on=calibration.preprocess_on
    )
    logger.info("There are %d samples in the calibration data set.", len(data))
    for doubt in folder_doubts(data):
        logger.warning("%s.", doubt)
    for file, md5 in data.first_files().items():
        logger.info("md5 of the first calibration file %s: %s", file, md5)
    return data


def _open(work: Work) -> None:
    skips = work.config.calibration_parameters.calibration_type is CalibrationType.SKIP
    work.give(DATA, None if skips else open_data(work.config, work[SOURCE], work[SPECS]))


OPEN_DATA = Stage(
    name="open data",
    run=_open,
    reads=(SOURCE, SPECS),
    gives=(DATA,),
    parameters=(
        "calibration_parameters.calibration_type",
        "calibration_parameters.cal_data_dir",
        "calibration_parameters.cal_data_type",
        "calibration_parameters.preprocess_on",
    ),
)
