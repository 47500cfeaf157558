//! How weights are stored for the kernels that read them.

use super::*;
use ::plan::{Action, Primitive, prim::ConvLayout};

/// The layouts of the weights of the convolutions of a plan.
fn layouts(planned: &Planned) -> Vec<ConvLayout> {
    let steps = planned.plan.blocks.iter().flat_map(|b| &b.steps);
    steps
        .filter_map(|s| match &s.action {
            Action::Run { prim: Primitive::Conv(c), .. } => Some(c.weights),
            _ => None,
        })
        .collect()
}

/// A convolution by windows of 3×3 of 16 channels.
fn net(dims: &str, stride: i64) -> Graph {
    let weights: Vec<f32> = (0..16 * 16 * 9).map(|i| (i % 7) as f32 - 3.0).collect();
    let attributes = [("pads", ints(&[1, 1, 1, 1])), ("strides", ints(&[stride, stride]))];
    let conv = node("Conv", &["x", "w"], &["y"], &attributes);
    graph(vec![floats("x", dims)], vec![of_floats("w", &[16, 16, 3, 3], &weights)], vec![conv], &["y"])
}

/// Weights are transformed where the largest image is large enough for it, and strides allow it; the results stay the same.
#[test]
fn transformed_weights_for_large_images() {
    let found = |dims: &str, stride: i64, free: &[DimOption]| layouts(&planned(net(dims, stride), free));
    assert_eq!(found("1 16 32 32", 1, &[]), [ConvLayout::Winograd4]);
    assert_eq!(found("1 16 32 32", 2, &[]), [ConvLayout::Panels16]);
    assert_eq!(found("1 16 3 3", 1, &[]), [ConvLayout::Panels16]);
    let free = [dim("h", 1, 40)];
    assert_eq!(found("1 16 h 40", 1, &free), [ConvLayout::Winograd4]);
    let image: Vec<f32> = (0..16 * 5 * 40).map(|i| (i % 11) as f32).collect();
    let data = [f32s(&[1, 16, 5, 40], &image)];
    let large = run(&planned(net("1 16 h 40", 1), &free), &data);
    let mut plain = net("1 16 h 40", 1);
    plain.inputs.push(floats("w", "16 16 3 3"));
    let weights = plain.initializers.pop().and_then(|w| w.bytes().map(|b| b.to_vec())).unwrap_or_default();
    let weights = Data { dtype: DType::F32, dims: vec![16, 16, 3, 3], bytes: weights };
    let plain = run(&planned(plain, &free), &[data[0].clone(), weights]);
    assert_eq!(large[0].dims, plain[0].dims);
    // The most that the magnitudes of the terms of a sum can come to.
    let magnitudes = 16.0 * 9.0 * 10.0 * 3.0;
    for (a, b) in as_f32s(&large[0]).iter().zip(as_f32s(&plain[0])) {
        assert!((a - b).abs() <= 1e-5 * magnitudes, "{a} {b}");
    }
}
