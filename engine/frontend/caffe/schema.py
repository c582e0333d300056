"""The part of Caffe's protobuf schema that deployed networks use, built at run time.

Names, numbers and defaults are those of Caffe 1.0's ``caffe.proto`` (BSD licence); ``Normalize``, ``Permute``,
``Interp`` and ``Upsample`` are those of the well-known forks, whose parameters occur in text only and so need no agreed
numbers.
``NetWeights`` reads what a ``.caffemodel`` is needed for, names and blobs, and skips all else, so that the clashing
field numbers of forks do no harm.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "caffe"

_ENUMS: Mapping[str, str] = {
    "Phase": "TRAIN=0 TEST=1",
    "PoolMethod": "MAX=0 AVE=1 STOCHASTIC=2",
    "RoundMode": "CEIL=0 FLOOR=1",
    "EltwiseOp": "PROD=0 SUM=1 MAX=2",
    "NormRegion": "ACROSS_CHANNELS=0 WITHIN_CHANNEL=1",
    "Engine": "DEFAULT=0 CAFFE=1 CUDNN=2",
    "DB": "LEVELDB=0 LMDB=1",
    "ReductionOp": "SUM=1 ASUM=2 SUMSQ=3 MEAN=4",
    "VarianceNorm": "FAN_IN=0 FAN_OUT=1 AVERAGE=2",
    "DimCheckMode": "STRICT=0 PERMISSIVE=1",
    "LayerType": (
        "NONE=0 ACCURACY=1 BNLL=2 CONCAT=3 CONVOLUTION=4 DATA=5 DROPOUT=6 EUCLIDEAN_LOSS=7 FLATTEN=8 HDF5_DATA=9 "
        "HDF5_OUTPUT=10 IM2COL=11 IMAGE_DATA=12 INFOGAIN_LOSS=13 INNER_PRODUCT=14 LRN=15 "
        "MULTINOMIAL_LOGISTIC_LOSS=16 POOLING=17 RELU=18 SIGMOID=19 SOFTMAX=20 SOFTMAX_LOSS=21 SPLIT=22 TANH=23 "
        "WINDOW_DATA=24 ELTWISE=25 POWER=26 SIGMOID_CROSS_ENTROPY_LOSS=27 HINGE_LOSS=28 MEMORY_DATA=29 ARGMAX=30 "
        "THRESHOLD=31 DUMMY_DATA=32 SLICE=33 MVN=34 ABSVAL=35 SILENCE=36 CONTRASTIVE_LOSS=37 EXP=38 DECONVOLUTION=39"
    ),
}
"""Caffe nests most of these in messages, which only shows in their full names."""

_MESSAGES: Mapping[str, str] = {
    "BlobShape": "repeated int64 dim = 1 [packed]",
    "BlobProto": """
        optional BlobShape shape = 7; repeated float data = 5 [packed]; repeated float diff = 6 [packed]
        repeated double double_data = 8 [packed]; repeated double double_diff = 9 [packed]
        optional int32 num = 1 [0]; optional int32 channels = 2 [0]
        optional int32 height = 3 [0]; optional int32 width = 4 [0]""",
    "FillerParameter": """
        optional string type = 1 [constant]; optional float value = 2 [0]; optional float min = 3 [0]
        optional float max = 4 [1]; optional float mean = 5 [0]; optional float std = 6 [1]
        optional int32 sparse = 7 [-1]; optional VarianceNorm variance_norm = 8 [FAN_IN]""",
    "NetState": "optional Phase phase = 1 [TEST]; optional int32 level = 2 [0]; repeated string stage = 3",
    "NetStateRule": """
        optional Phase phase = 1; optional int32 min_level = 2; optional int32 max_level = 3
        repeated string stage = 4; repeated string not_stage = 5""",
    "ParamSpec": """
        optional string name = 1; optional DimCheckMode share_mode = 2
        optional float lr_mult = 3 [1]; optional float decay_mult = 4 [1]""",
    "TransformationParameter": """
        optional float scale = 1 [1]; optional bool mirror = 2 [false]; optional uint32 crop_size = 3 [0]
        optional string mean_file = 4; repeated float mean_value = 5
        optional bool force_color = 6 [false]; optional bool force_gray = 7 [false]""",
    "DataParameter": """
        optional string source = 1; optional uint32 batch_size = 4; optional uint32 rand_skip = 7 [0]
        optional DB backend = 8 [LEVELDB]; optional float scale = 2 [1]; optional string mean_file = 3
        optional uint32 crop_size = 5 [0]; optional bool mirror = 6 [false]
        optional bool force_encoded_color = 9 [false]; optional uint32 prefetch = 10 [4]""",
    "InputParameter": "repeated BlobShape shape = 1",
    "ConvolutionParameter": """
        optional uint32 num_output = 1; optional bool bias_term = 2 [true]; repeated uint32 pad = 3
        repeated uint32 kernel_size = 4; repeated uint32 stride = 6; repeated uint32 dilation = 18
        optional uint32 pad_h = 9 [0]; optional uint32 pad_w = 10 [0]; optional uint32 kernel_h = 11
        optional uint32 kernel_w = 12; optional uint32 stride_h = 13; optional uint32 stride_w = 14
        optional uint32 group = 5 [1]; optional FillerParameter weight_filler = 7
        optional FillerParameter bias_filler = 8; optional Engine engine = 15 [DEFAULT]
        optional int32 axis = 16 [1]; optional bool force_nd_im2col = 17 [false]""",
    "InnerProductParameter": """
        optional uint32 num_output = 1; optional bool bias_term = 2 [true]; optional FillerParameter weight_filler = 3
        optional FillerParameter bias_filler = 4; optional int32 axis = 5 [1]; optional bool transpose = 6 [false]""",
    "BatchNormParameter": """
        optional bool use_global_stats = 1; optional float moving_average_fraction = 2 [0.999]
        optional float eps = 3 [1e-5]""",
    "ScaleParameter": """
        optional int32 axis = 1 [1]; optional int32 num_axes = 2 [1]; optional FillerParameter filler = 3
        optional bool bias_term = 4 [false]; optional FillerParameter bias_filler = 5""",
    "ReLUParameter": "optional float negative_slope = 1 [0]; optional Engine engine = 2 [DEFAULT]",
    "PReLUParameter": "optional FillerParameter filler = 1; optional bool channel_shared = 2 [false]",
    "PoolingParameter": """
        optional PoolMethod pool = 1 [MAX]; optional uint32 pad = 4 [0]; optional uint32 pad_h = 9 [0]
        optional uint32 pad_w = 10 [0]; optional uint32 kernel_size = 2; optional uint32 kernel_h = 5
        optional uint32 kernel_w = 6; optional uint32 stride = 3 [1]; optional uint32 stride_h = 7
        optional uint32 stride_w = 8; optional Engine engine = 11 [DEFAULT]
        optional bool global_pooling = 12 [false]; optional RoundMode round_mode = 13 [CEIL]""",
    "EltwiseParameter": """
        optional EltwiseOp operation = 1 [SUM]; repeated float coeff = 2; optional bool stable_prod_grad = 3 [true]""",
    "ConcatParameter": "optional int32 axis = 2 [1]; optional uint32 concat_dim = 1 [1]",
    "SliceParameter": """
        optional int32 axis = 3 [1]; repeated uint32 slice_point = 2; optional uint32 slice_dim = 1 [1]""",
    "SoftmaxParameter": "optional Engine engine = 1 [DEFAULT]; optional int32 axis = 2 [1]",
    "SigmoidParameter": "optional Engine engine = 1 [DEFAULT]",
    "TanHParameter": "optional Engine engine = 1 [DEFAULT]",
    "CropParameter": "optional int32 axis = 1 [2]; repeated uint32 offset = 2",
    "FlattenParameter": "optional int32 axis = 1 [1]; optional int32 end_axis = 2 [-1]",
    "ReshapeParameter": "optional BlobShape shape = 1; optional int32 axis = 2 [0]; optional int32 num_axes = 3 [-1]",
    "PermuteParameter": "repeated uint32 order = 1",
    "PowerParameter": "optional float power = 1 [1]; optional float scale = 2 [1]; optional float shift = 3 [0]",
    "InterpParameter": """
        optional int32 height = 1 [0]; optional int32 width = 2 [0]; optional int32 zoom_factor = 3 [1]
        optional int32 shrink_factor = 4 [1]; optional int32 pad_beg = 5 [0]; optional int32 pad_end = 6 [0]""",
    "UpsampleParameter": """
        optional uint32 scale = 1 [2]; optional uint32 scale_h = 2; optional uint32 scale_w = 3
        optional bool pad_out_h = 4 [false]; optional bool pad_out_w = 5 [false]
        optional uint32 upsample_h = 6; optional uint32 upsample_w = 7""",
    "LRNParameter": """
        optional uint32 local_size = 1 [5]; optional float alpha = 2 [1]; optional float beta = 3 [0.75]
        optional NormRegion norm_region = 4 [ACROSS_CHANNELS]; optional float k = 5 [1]
        optional Engine engine = 6 [DEFAULT]""",
    "ArgMaxParameter": """
        optional bool out_max_val = 1 [false]; optional uint32 top_k = 2 [1]; optional int32 axis = 3""",
    "BiasParameter": """
        optional int32 axis = 1 [1]; optional int32 num_axes = 2 [1]; optional FillerParameter filler = 3""",
    "ClipParameter": "optional float min = 1; optional float max = 2",
    "ELUParameter": "optional float alpha = 1 [1]",
    "ExpParameter": "optional float base = 1 [-1]; optional float scale = 2 [1]; optional float shift = 3 [0]",
    "LogParameter": "optional float base = 1 [-1]; optional float scale = 2 [1]; optional float shift = 3 [0]",
    "MVNParameter": """
        optional bool normalize_variance = 1 [true]; optional bool across_channels = 2 [false]
        optional float eps = 3 [1e-9]""",
    "NormalizeParameter": """
        optional bool across_spatial = 1 [true]; optional FillerParameter scale_filler = 2
        optional bool channel_shared = 3 [true]; optional float eps = 4 [1e-10]""",
    "ReductionParameter": """
        optional ReductionOp operation = 1 [SUM]; optional int32 axis = 2 [0]; optional float coeff = 3 [1]""",
    "SPPParameter": """
        optional uint32 pyramid_height = 1; optional PoolMethod pool = 2 [MAX]; optional Engine engine = 6 [DEFAULT]""",
    "SwishParameter": "optional float beta = 1 [1]",
    "ThresholdParameter": "optional float threshold = 1 [0]",
    "TileParameter": "optional int32 axis = 1 [1]; optional int32 tiles = 2",
    "DropoutParameter": "optional float dropout_ratio = 1 [0.5]; optional bool scale_train = 2 [true]",
    "LayerParameter": """
        optional string name = 1; optional string type = 2; repeated string bottom = 3; repeated string top = 4
        optional Phase phase = 10; repeated float loss_weight = 5; repeated ParamSpec param = 6
        repeated BlobProto blobs = 7; repeated bool propagate_down = 11
        repeated NetStateRule include = 8; repeated NetStateRule exclude = 9
        optional TransformationParameter transform_param = 100; optional ArgMaxParameter argmax_param = 103
        optional BatchNormParameter batch_norm_param = 139; optional ConcatParameter concat_param = 104
        optional ConvolutionParameter convolution_param = 106; optional CropParameter crop_param = 144
        optional DataParameter data_param = 107; optional DropoutParameter dropout_param = 108
        optional EltwiseParameter eltwise_param = 110; optional FlattenParameter flatten_param = 135
        optional InnerProductParameter inner_product_param = 117; optional InputParameter input_param = 143
        optional LRNParameter lrn_param = 118; optional PoolingParameter pooling_param = 121
        optional PowerParameter power_param = 122; optional PReLUParameter prelu_param = 131
        optional ReLUParameter relu_param = 123; optional ReshapeParameter reshape_param = 133
        optional ScaleParameter scale_param = 142; optional SigmoidParameter sigmoid_param = 124
        optional SoftmaxParameter softmax_param = 125; optional SliceParameter slice_param = 126
        optional TanHParameter tanh_param = 127; optional PermuteParameter permute_param = 202
        optional InterpParameter interp_param = 225; optional UpsampleParameter upsample_param = 226
        optional BiasParameter bias_param = 141; optional ClipParameter clip_param = 148
        optional ELUParameter elu_param = 140; optional ExpParameter exp_param = 111
        optional LogParameter log_param = 134; optional MVNParameter mvn_param = 120
        optional NormalizeParameter norm_param = 206; optional ReductionParameter reduction_param = 136
        optional SPPParameter spp_param = 132; optional SwishParameter swish_param = 147
        optional ThresholdParameter threshold_param = 128; optional TileParameter tile_param = 138""",
    "V1LayerParameter": """
        repeated string bottom = 2; repeated string top = 3; optional string name = 4
        repeated NetStateRule include = 32; repeated NetStateRule exclude = 33; optional LayerType type = 5
        repeated BlobProto blobs = 6; repeated string param = 1001; repeated DimCheckMode blob_share_mode = 1002
        repeated float blobs_lr = 7; repeated float weight_decay = 8; repeated float loss_weight = 35
        optional ArgMaxParameter argmax_param = 23; optional ConcatParameter concat_param = 9
        optional ConvolutionParameter convolution_param = 10; optional DataParameter data_param = 11
        optional DropoutParameter dropout_param = 12; optional EltwiseParameter eltwise_param = 24
        optional InnerProductParameter inner_product_param = 17; optional LRNParameter lrn_param = 18
        optional PoolingParameter pooling_param = 19; optional PowerParameter power_param = 21
        optional ReLUParameter relu_param = 30; optional SigmoidParameter sigmoid_param = 38
        optional SoftmaxParameter softmax_param = 39; optional SliceParameter slice_param = 31
        optional TanHParameter tanh_param = 37; optional TransformationParameter transform_param = 36
        optional ThresholdParameter threshold_param = 25; optional ExpParameter exp_param = 41
        optional MVNParameter mvn_param = 34""",
    "NetParameter": """
        optional string name = 1; repeated string input = 3; repeated BlobShape input_shape = 8
        repeated int32 input_dim = 4; optional bool force_backward = 5 [false]; optional NetState state = 6
        optional bool debug_info = 7 [false]; repeated LayerParameter layer = 100
        repeated V1LayerParameter layers = 2""",
    "LayerWeights": "optional string name = 1; optional string type = 2; repeated BlobProto blobs = 7",
    "V1LayerWeights": "optional string name = 4; repeated BlobProto blobs = 6",
    "NetWeights": "optional string name = 1; repeated LayerWeights layer = 100; repeated V1LayerWeights layers = 2",
}
"""Fields in ``.proto`` notation, separated by ``;`` or line ends; a default alone in the brackets."""

_FIELD = re.compile(r"(optional|repeated) (\w+) (\w+) = (\d+)(?: \[(\S+)\])?")


@cache
def message_class(name: str) -> Any:
    """The protobuf class of message ``name``, for example ``NetParameter``."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    """A separate pool, so that an installed Caffe does not clash."""
    file = descriptor_pb2.FileDescriptorProto(name="caffe.proto", package=PACKAGE, syntax="proto2")
    for name, values in _ENUMS.items():
        # Labels share the scope that encloses their enum: a message per enum keeps equal labels apart.
        enum = file.message_type.add(name=f"{name}Scope").enum_type.add(name=name)
        for item in values.split():
            label, _, number = item.partition("=")
            enum.value.add(name=label, number=int(number))
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for label, kind, field, number, option in _FIELD.findall(fields):
            _add_field(message, label, kind, field, int(number), option)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


def _add_field(
    message: descriptor_pb2.DescriptorProto, label: str, kind: str, name: str, number: int, option: str
) -> None:
    """One field; ``option`` is ``packed``, the default, or empty."""
    types = descriptor_pb2.FieldDescriptorProto
    field = message.field.add(name=name, number=number, label=types.Label.Value(f"LABEL_{label.upper()}"))
    if kind in _ENUMS:
        field.type, field.type_name = types.TYPE_ENUM, f".{PACKAGE}.{kind}Scope.{kind}"
    elif kind in _MESSAGES:
        field.type, field.type_name = types.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
    else:
        field.type = types.Type.Value(f"TYPE_{kind.upper()}")
    if option == "packed":
        field.options.packed = True
    elif option:
        field.default_value = option
