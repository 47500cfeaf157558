//! Models at the edges of what the standard allows.

use super::*;
use crate::Fixed;

/// More elements that are known as expressions than one step writes out.
#[test]
fn long_vectors_of_expressions() {
    let counts: Vec<i64> = (0..40).collect();
    let net = graph(
        vec![floats("x", "n")],
        vec![constant("counts", &[40], &counts)],
        vec![
            node("Shape", &["x"], &["n"], &[]),
            node("Mul", &["counts", "n"], &["products"], &[]),
            node("Concat", &["products", "n", "products"], &["y"], &[("axis", int(0))]),
        ],
        &["y"],
    );
    let out = run(&planned(net, &[dim("n", 1, 8)]), &[counting(&[3])]);
    let products = counts.iter().map(|c| c * 3);
    assert_eq!(as_i64s(&out[0]), products.clone().chain([3]).chain(products).collect::<Vec<_>>());
}

/// Integers wrap, also while planning.
#[test]
fn constants_wrap() {
    let net = graph(
        vec![],
        vec![constant("a", &[3], &[1, 2, -3]), constant("b", &[1], &[i64::MAX])],
        vec![node("Mul", &["a", "b"], &["y"], &[]), node("Add", &["a", "b"], &["z"], &[])],
        &["y", "z"],
    );
    let out = run(&planned(net, &[]), &[]);
    assert_eq!(as_i64s(&out[0]), [i64::MAX, -2, i64::MAX.wrapping_mul(-3)]);
    assert_eq!(as_i64s(&out[1]), [i64::MIN, i64::MIN + 1, i64::MAX - 3]);
}

/// A diagonal so far away that no row reaches it.
#[test]
fn a_far_diagonal() {
    for (k, want) in [(i64::MAX, [0.0; 4]), (i64::MIN, [1.0, 2.0, 3.0, 4.0])] {
        let nodes = vec![node("Trilu", &["x", "k"], &["y"], &[])];
        let net = graph(vec![floats("x", "2 2")], vec![constant("k", &[1], &[k])], nodes, &["y"]);
        assert_eq!(as_f32s(&run(&planned(net, &[]), &[counting(&[2, 2])])[0]), want, "{k}");
    }
}

/// A step beyond every extent takes the first element.
#[test]
fn slices_with_far_steps() {
    for (step, start, end, want) in
        [(1 << 62, 1, 9, vec![2.0, 5.0]), (i64::MIN + 1, -1, i64::MIN, vec![3.0, 6.0]), (3, 0, 3, vec![1.0, 4.0])]
    {
        let constants = [("s", start), ("e", end), ("a", 1), ("k", step)].map(|(n, v)| constant(n, &[1], &[v]));
        let nodes = vec![node("Slice", &["x", "s", "e", "a", "k"], &["y"], &[])];
        for (declared, dims) in [("2 3", vec![]), ("2 n", vec![dim("n", 1, 4)])] {
            let net = graph(vec![floats("x", declared)], constants.to_vec(), nodes.clone(), &["y"]);
            let out = run(&planned(net, &dims), &[counting(&[2, 3])]);
            assert_eq!((&out[0].dims[..], as_f32s(&out[0])), (&[2, 1][..], want.clone()), "{step} {declared}");
        }
    }
}

/// Below 1 there is no such number.
#[test]
fn acosh_outside_its_domain() {
    let net = graph(vec![floats("x", "6")], vec![], vec![node("Acosh", &["x"], &["y"], &[])], &["y"]);
    let x = [-100.0, -3.0, 0.5, 1.0, 2.0, f32::NAN];
    let y = as_f32s(&run(&planned(net, &[]), &[f32s(&[6], &x)])[0]);
    assert!(y[..3].iter().chain(&y[5..]).all(|v| v.is_nan()), "{y:?}");
    assert_eq!(y[3], 0.0);
    assert!((y[4] - 1.316_958).abs() < 1e-6);
}

/// The extent is the old one times the scale, whatever the region is.
#[test]
fn regions_do_not_change_the_scaled_extent() {
    let mode = |m: &str| Attribute::String(bytes::Bytes::copy_from_slice(m.as_bytes()));
    let net = graph(
        vec![floats("x", "1 1 4 4")],
        vec![
            of_floats("roi", &[8], &[0.0, 0.0, 0.25, 0.25, 1.0, 1.0, 0.75, 0.75]),
            of_floats("scales", &[4], &[1.0, 1.0, 1.5, 0.5]),
        ],
        vec![node(
            "Resize",
            &["x", "roi", "scales"],
            &["y"],
            &[("mode", mode("linear")), ("coordinate_transformation_mode", mode("tf_crop_and_resize"))],
        )],
        &["y"],
    );
    assert_eq!(run(&planned(net, &[]), &[counting(&[1, 1, 4, 4])])[0].dims, [1, 1, 6, 2]);
}

/// Before operator set 11, what shrinks takes the element after, what grows the one before.
#[test]
fn old_nearest_neighbours() {
    let mut resize = node("Resize", &["x", "scales"], &["y"], &[]);
    resize.opset = 10;
    let scales = of_floats("scales", &[2], &[1.5, 0.6]);
    let out =
        run(&planned(graph(vec![floats("x", "2 4")], vec![scales], vec![resize], &["y"]), &[]), &[counting(&[2, 4])]);
    assert_eq!((&out[0].dims[..], as_f32s(&out[0])), (&[3, 2][..], vec![1.0, 3.0, 1.0, 3.0, 5.0, 7.0]));
}

/// One part of a concatenation is made from another: their rows alternate in the result, so they cannot both lie there.
#[test]
fn parts_made_from_each_other() {
    let net = graph(
        vec![floats("x", "3 2")],
        vec![],
        vec![
            node("Cast", &["x"], &["whole"], &[("to", int(6))]),
            node("Cast", &["whole"], &["a"], &[("to", int(1))]),
            node("Min", &["a", "x"], &["b"], &[]),
            node("Concat", &["b", "a"], &["y"], &[("axis", int(1))]),
        ],
        &["y"],
    );
    let x = [1.5, -1.5, 2.0, -0.5, 0.0, 7.25];
    let out = run(&planned(net, &[]), &[f32s(&[3, 2], &x)]);
    assert_eq!(as_f32s(&out[0]), [1.0, -1.5, 1.0, -1.0, 2.0, -0.5, 2.0, 0.0, 0.0, 7.0, 0.0, 7.0]);
}

/// An input that is fixed takes its dim from the options; a run is not given it, so the dim is no matter of a run.
#[test]
fn a_fixed_input_with_a_named_dim() {
    let model = |dims: &str| {
        let inputs = vec![floats("x", "n 3"), floats("z", dims)];
        let net = graph(inputs, vec![], vec![node("Add", &["x", "z"], &["y"], &[])], &["y"]);
        Model { ir_version: 10, opsets: [(String::new(), 21)].into(), graph: net, ..Model::default() }
    };
    let options =
        |n| Options { dims: vec![dim("n", n, n)], fix: vec![("x".into(), Fixed::Ints(vec![1]))], ..Options::default() };
    let made = plan(model("n 3"), &options(2)).unwrap_or_else(|e| panic!("{e}"));
    checker::check(&made.plan, &checker::Points::default()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(as_f32s(&run(&made, &[counting(&[2, 3])])[0]), [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    // More elements than anyone writes out.
    let error = plan(model("n 3"), &options(1 << 62)).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(error.contains("no machine can hold"), "{error}");
}

/// A dim with two values.
#[test]
fn a_dim_given_twice() {
    let net = graph(vec![floats("x", "n")], vec![], vec![node("Neg", &["x"], &["y"], &[])], &["y"]);
    let error = try_planned(net, &[dim("n", 2, 2), dim("n", 3, 3)]).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(error.contains("n is given a value more than once"), "{error}");
}

/// More operands than a primitive reads.
#[test]
fn a_concatenation_of_very_many() {
    let names: Vec<String> = (0..5000).map(|i| format!("v{i}")).collect();
    let mut nodes: Vec<Node> = names.iter().map(|name| node("Neg", &["x"], &[name], &[])).collect();
    let operands: Vec<&str> = names.iter().map(String::as_str).collect();
    nodes.push(node("Concat", &operands, &["y"], &[("axis", int(0))]));
    let out = run(&planned(graph(vec![floats("x", "2")], vec![], nodes, &["y"]), &[]), &[counting(&[2])]);
    assert_eq!(as_f32s(&out[0]), [-1.0, -2.0].repeat(5000));
}

/// A condition that no value of a dim fulfils is an error of the build, with the node and the dim; one that some fulfil is
/// checked when a run begins.
#[test]
fn conditions_that_cannot_hold() {
    let net = |wanted: i64| {
        let constants = vec![constant("dims", &[2], &[2, wanted])];
        graph(vec![floats("x", "n 4")], constants, vec![node("Reshape", &["x", "dims"], &["y"], &[])], &["y"])
    };
    let error = try_planned(net(7), &[dim("n", 1, 9)]).err().map(|e| e.to_string()).unwrap_or_default();
    for part in ["Reshape", "n", "14", "is never"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(planned(net(8), &[dim("n", 1, 9)]).plan.guards.len(), 1);
}

/// An input that an operator does not know is told; of two values of a constant none is chosen.
#[test]
fn what_a_node_does_not_use() {
    let nodes = |relu: Node| graph(vec![floats("x", "2"), floats("z", "2")], vec![], vec![relu], &["y"]);
    let warned = planned(nodes(node("Relu", &["x", "z"], &["y"], &[])), &[]).warnings;
    assert!(warned.iter().any(|w| w.contains("Relu") && w.contains("input 1 `z`")), "{warned:?}");
    assert_eq!(planned(nodes(node("Add", &["x", "z"], &["y"], &[])), &[]).warnings, Vec::<String>::new());
    let two = node("Constant", &[], &["y"], &[("value_int", int(1)), ("value_ints", ints(&[1, 2]))]);
    let error = try_planned(nodes(two), &[]).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(error.contains("`value_int` and a `value_ints`"), "{error}");
}
