"""What is read of a toolchain's log: versions, messages, both tables, a line per subgraph."""

from __future__ import annotations

from engine.conformance.toolchain import read_log

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
