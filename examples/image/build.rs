//! Plans the example's model.

fn main() -> flightplan::build::Result {
    flightplan::build::Model::new("../../models/ppocr-cls/ppocr_cls.onnx")
        .dim("x#0", 1) // pictures at a time; the model's file has no names for its free dims
        .dim("x#2", 48) // height
        .dim("x#3", 192) // width
        .budget("1 MiB")
        .emit()
}
