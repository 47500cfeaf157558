//! Field numbers of the ONNX messages that are read (see `LICENSE-onnx`). Fields that are not listed
//! (documentation, training, device placement, quantisation notes) are skipped.

macro_rules! fields {
    ($($message:ident { $($name:ident = $number:literal),* $(,)? })*) => {
        $(pub(crate) mod $message { $(pub(crate) const $name: u32 = $number;)* })*
    };
}

fields! {
    model {
        IR_VERSION = 1, PRODUCER_NAME = 2, PRODUCER_VERSION = 3, DOMAIN = 4, MODEL_VERSION = 5,
        GRAPH = 7, OPSET_IMPORT = 8, METADATA = 14, FUNCTIONS = 25,
    }
    opset { DOMAIN = 1, VERSION = 2 }
    entry { KEY = 1, VALUE = 2 }
    graph {
        NODE = 1, NAME = 2, INITIALIZER = 5, INPUT = 11, OUTPUT = 12, VALUE_INFO = 13,
        SPARSE_INITIALIZER = 15,
    }
    node {
        INPUT = 1, OUTPUT = 2, NAME = 3, OP_TYPE = 4, ATTRIBUTE = 5, DOMAIN = 7, OVERLOAD = 8,
    }
    attribute {
        NAME = 1, FLOAT = 2, INT = 3, STRING = 4, TENSOR = 5, GRAPH = 6, FLOATS = 7, INTS = 8,
        STRINGS = 9, TENSORS = 10, GRAPHS = 11, TYPE_PROTO = 14, TYPE_PROTOS = 15, TYPE = 20,
        REF_ATTR_NAME = 21, SPARSE_TENSOR = 22, SPARSE_TENSORS = 23,
    }
    function {
        NAME = 1, INPUT = 4, OUTPUT = 5, ATTRIBUTE = 6, NODE = 7, OPSET_IMPORT = 9, DOMAIN = 10,
        ATTRIBUTE_PROTO = 11, OVERLOAD = 13,
    }
    tensor {
        DIMS = 1, DATA_TYPE = 2, SEGMENT = 3, FLOAT_DATA = 4, INT32_DATA = 5, STRING_DATA = 6,
        INT64_DATA = 7, NAME = 8, RAW_DATA = 9, DOUBLE_DATA = 10, UINT64_DATA = 11,
        EXTERNAL_DATA = 13, DATA_LOCATION = 14,
    }
    sparse { VALUES = 1, INDICES = 2, DIMS = 3 }
    value_info { NAME = 1, TYPE = 2 }
    shape { DIM = 1 }
    dim { VALUE = 1, PARAM = 2 }
    type_proto {
        TENSOR = 1, SEQUENCE = 4, MAP = 5, OPAQUE = 7, SPARSE_TENSOR = 8, OPTIONAL = 9,
    }
    // Tensor and sparse tensor types; also Sequence and Optional, whose element type has number 1.
    type_tensor { ELEM_TYPE = 1, SHAPE = 2 }
    type_inner { ELEM_TYPE = 1 }
    type_map { KEY_TYPE = 1, VALUE_TYPE = 2 }
    sequence {
        ELEM_TYPE = 2, TENSORS = 3, SEQUENCES = 5, MAPS = 6, OPTIONALS = 7,
    }
    optional {
        ELEM_TYPE = 2, TENSOR = 3, SEQUENCE = 5, MAP = 6, OPTIONAL = 7,
    }
    map { KEYS = 3, STRING_KEYS = 4, VALUES = 5 }
}
