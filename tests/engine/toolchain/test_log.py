"""What is read of a toolchain's log: versions, messages, both tables, a line per subgraph."""

from __future__ import annotations

from engine.toolchain.command import CUT_OFF, Finished
from engine.toolchain.log import MOST_REASON, progress_in, read_log, reason, version_in

LOG = """\
2026-01-01 10:00:00,000 INFO hb_mapper version 1.24.3
2026-01-01 10:00:00,001 INFO hbdk version 3.49.15
2026-01-01 10:00:00,002 WARNING the data are few
calibration in progress: 100%|##########| 8/8
2026-01-01 10:00:01,000 INFO FPS=118296.53, latency = 8.5 us, DDR = 5824 bytes   (see torch_jit_subgraph_0.html)
2026-01-01 10:00:02,000 INFO FPS=10913.26, latency = 91.6 us, DDR = 33024 bytes   (see torch_jit_subgraph_1.html)
2026-01-01 10:00:03,000 INFO The converted model node information:
================================================================================================================
Node                     ON   Subgraph  Type                    Cosine Similarity  Threshold   DataType
----------------------------------------------------------------------------------------------------------------
HZ_PREPROCESS_FOR_x      BPU  id(0)     HzSQuantizedPreprocess  0.999936           127.000000  int8
a name with blanks       CPU  --        Softmax                 0.999868           --          float
conv2_1/dw               BPU  id(1)     HzSQuantizedConv        --                 2.036977    int8
2026-01-01 10:00:03,100 INFO The quantized model output:
=============================================================================
Output      Cosine Similarity  L1 Distance  L2 Distance  Chebyshev Distance
-----------------------------------------------------------------------------
prob out    0.999957           0.002780     0.000957     0.005333
2026-01-01 10:00:04,000 INFO End Model Convert
"""


def test_a_whole_log() -> None:
    log = read_log(LOG)
    assert log.versions == ("hb_mapper version 1.24.3", "hbdk version 3.49.15")
    assert log.messages == ("WARNING the data are few",)
    assert log.subgraphs == ({"latency": 8.5, "ddr": 5824.0}, {"latency": 91.6, "ddr": 33024.0})
    assert [row["Node"] for row in log.nodes] == ["HZ_PREPROCESS_FOR_x", "a name with blanks", "conv2_1/dw"]
    assert log.nodes[1] == {
        "Node": "a name with blanks",
        "ON": "CPU",
        "Subgraph": "--",
        "Type": "Softmax",
        "Cosine Similarity": "0.999868",
        "Threshold": "--",
        "DataType": "float",
    }
    assert log.outputs == (("prob out", "0.999957", "0.002780", "0.000957", "0.005333"),)
    assert log.tail[-1].endswith("End Model Convert")


def test_an_older_table_without_data_types() -> None:
    """As the guide prints it: single blanks, no column of data types."""
    text = (
        "Node ON Subgraph Type Cosine Similarity Threshold\n-----\nconv1 BPU id(0) HzSQuantizedConv 0.999852 2.568122\n"
    )
    (row,) = read_log(text).nodes
    assert (row["Node"], row["Type"], row["Threshold"]) == ("conv1", "HzSQuantizedConv", "2.568122")
    assert "DataType" not in row


def test_a_log_of_nothing() -> None:
    log = read_log("no log at all")
    assert (log.versions, log.messages, log.nodes, log.outputs, log.subgraphs) == ((), (), (), (), ())


def test_names_of_nodes_are_no_paths_and_folders_of_the_user_are() -> None:
    text = (
        "2026-01-01 10:00:00,000 ERROR cannot read /home/me/my work/net.onnx or /opt/tools/x.so, see ~/y\n"
        "Node ON Subgraph Type Cosine Similarity Threshold\n-----\n"
        "/home/cv2/Conv BPU id(0) HzSQuantizedConv 0.999852 2.568122\n"
    )
    log = read_log(text, {"/home/me/my work": "."})
    assert log.messages == ("ERROR cannot read ./net.onnx or x.so, see ~/y",)
    assert log.nodes[0]["Node"] == "/home/cv2/Conv"


def test_lines_of_source_are_named_without_their_folders() -> None:
    text = (
        "2026-01-01 10:00:00,000 ERROR Error message:/srv/build/agent/onnx/ir.h:1366: failed, in /x/y.cc:7\n"
        "2026-01-01 10:00:00,000 ERROR Error Node Info(name:/model.2/cv1/Conv; kind:/a/b.h)\n"
    )
    assert read_log(text).messages == (
        "ERROR Error message:ir.h:1366: failed, in y.cc:7",
        "ERROR Error Node Info(name:/model.2/cv1/Conv; kind:/a/b.h)",
    )


def test_the_reason_is_the_last_error_that_says_something() -> None:
    stamp = "2026-01-01 10:00:00,000"
    yaml = f"{stamp} ERROR no such file\n{stamp} ERROR Parse 'input_parameters' failed!\n"
    assert reason(Finished(255, yaml)) == "no such file"
    raised = f"{stamp} ERROR exception in command: makertbin\nTraceback (most recent call last):\n  x\nValueError: no\n"
    assert reason(Finished(1, raised)) == "ValueError: no"
    where = f"{stamp} ERROR *** ERROR-OCCUR-DURING {{a.b}} ***, error message: too new\n"
    assert reason(Finished(255, where)) == "too new"
    assert reason(Finished(255, f"{stamp} INFO only this\n")) == "only this"
    assert len(reason(Finished(1, "x" * 2000))) == MOST_REASON + 2
    assert reason(Finished(CUT_OFF, "", 3.2)) == "it was ended after 3 s, the time limit"


def test_versions_and_progress() -> None:
    assert version_in(["hb_mapper, version 1.24.3"]) == "1.24.3"
    assert version_in(["hb_mapper version 1.25", "hbdk version 3.49.15"]) == "1.25"
    assert version_in(["one version 1", "other version 2"]) == "2"
    assert version_in(["no number"]) == ""
    assert progress_in("2026-01-01 10:00:00,000 INFO Start to optimize the onnx model.") == "optimises"
    assert progress_in("[=====     ]  10%") == "compiles, 10 %"
    assert progress_in("2026-01-01 10:00:00,000 INFO End to optimize the onnx model.") is None
