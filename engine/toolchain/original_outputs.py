"""Runs a quantised model in the original toolchain's own runtime: ``original_outputs.py MODEL INPUTS.npz OUTPUTS.npz``.

The toolchain's Python runs this file by itself, so it needs nothing but numpy and ``horizon_tc_ui`` and keeps to Python
3.6. Inputs are keyed ``in{i}__{input}``, outputs ``out{i}__{output}``; inputs are what the model takes: 128 is
subtracted from pixels already.
"""

import importlib
import sys

import numpy as np


def main(model: str, given: str, to: str) -> None:
    """Write the outputs for every sample in ``given`` to ``to``."""
    session = importlib.import_module("horizon_tc_ui").HB_ONNXRuntime(model_file=model)
    run = (
        session.run_feature if hasattr(session, "run_feature") else session.run
    )  # 1.24.3 has run alone, the version of the documents both
    names = list(session.output_names)
    found = {}  # type: dict[str, object]
    with np.load(given, allow_pickle=False) as arrays:
        index = 0
        while any(key.startswith("in%d__" % index) for key in arrays.files):  # noqa: UP031
            prefix = "in%d__" % index  # noqa: UP031
            feed = {key[len(prefix) :]: arrays[key] for key in arrays.files if key.startswith(prefix)}
            outputs = run(names, feed, input_offset=0)
            for name, array in zip(names, outputs):  # noqa: B905
                found["out%d__%s" % (index, name)] = np.asarray(array)  # noqa: UP031
            index += 1
    np.savez_compressed(to, **found)  # type: ignore[arg-type]


if __name__ == "__main__":
    del sys.path[0]  # this folder, whose modules would hide packages of the same name, such as coverage
    main(*sys.argv[1:])
