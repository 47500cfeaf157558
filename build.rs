//! Plans the demo's model.

fn main() -> flightplan::build::Result {
    flightplan::build::Model::new("models/magika/magika.onnx")
        .dim("unk__214", 1) // the batch, as the model's exporter called it
        .budget("4 MiB")
        .emit()
}
