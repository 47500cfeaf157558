//! Nine networks of which the figures are known: their graphs without weights, as the ONNX package brings them.
//!
//! The weights are inputs here, so that only activations count, and every normalisation is a step of its own.

use crate::memory::{Options, optimise, order};
use crate::onnx::{self, Dim, Model, Type, ValueInfo};
use crate::schedule::schedule;
use plan::{Action, Plan, Primitive};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What a network must come to.
struct Known {
    name: &'static str,
    /// The most bytes live at once, written in place, in the file's order.
    in_file_order: u64,
    /// The same in the best order.
    ordered: u64,
    /// Operands of concatenations, and concatenations.
    concats: (usize, usize),
}

const fn known(name: &'static str, in_file_order: u64, ordered: u64, concats: (usize, usize)) -> Known {
    Known { name, in_file_order, ordered, concats }
}

const NETWORKS: [Known; 9] = [
    known("bvlc_alexnet", 2_239_488, 2_239_488, (0, 0)),
    known("densenet121", 7_225_344, 7_225_344, (116, 58)),
    known("inception_v1", 4_646_400, 4_646_400, (36, 9)),
    known("inception_v2", 4_014_080, 4_014_080, (38, 10)),
    known("resnet50", 7_225_344, 7_225_344, (0, 0)),
    known("shufflenet", 3_110_912, 2_885_120, (6, 3)),
    known("squeezenet", 3_928_576, 3_928_576, (16, 8)),
    known("vgg19", 25_690_112, 25_690_112, (0, 0)),
    known("zfnet512", 9_124_608, 9_124_608, (0, 0)),
];

/// The folder of the networks in the environment that `scripts/setup_data.sh` makes, or none; in CI it must be there.
fn folder() -> Option<PathBuf> {
    let root = std::env::var_os("FLIGHTPLAN_DATA")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/flightplan")));
    let pythons = root.as_deref().and_then(|r| std::fs::read_dir(r.join("venv/lib")).ok());
    let folders = pythons.into_iter().flatten().flatten();
    let found = folders.map(|p| p.path().join("site-packages/onnx/backend/test/data/light")).find(|p| p.exists());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "the light networks are missing: run scripts/setup_data.sh");
        eprintln!("skipped: the light networks are missing; scripts/setup_data.sh brings them");
    }
    found
}

/// A network whose weights, constants of a shape in the file, are inputs; not so the vectors of normalisations.
fn network(folder: &Path, name: &str) -> Model {
    let mut model = onnx::read(&folder.join(format!("light_{name}.onnx"))).unwrap();
    let graph = &mut model.graph;
    let initialisers = graph.initializers.iter();
    let shapes: BTreeMap<String, Vec<i64>> =
        initialisers.filter_map(|t| Some((t.name.clone(), t.to_ints()?))).collect();
    let normalise = graph.nodes.iter().filter(|n| n.op_type == "BatchNormalization");
    let normal: BTreeSet<String> = normalise.flat_map(|n| n.inputs.iter().cloned()).collect();
    let mut weights = Vec::new();
    graph.nodes.retain(|node| {
        let shape = node.inputs.first().and_then(|i| shapes.get(i));
        let Some(shape) = shape.filter(|_| node.op_type == "ConstantOfShape" && !normal.contains(&node.outputs[0]))
        else {
            return true;
        };
        let dims = Some(shape.iter().map(|d| Dim::Known(*d)).collect());
        let name = node.outputs[0].clone();
        weights.push(ValueInfo { name, ty: Type::Tensor { dtype: onnx::ElemType::Float32, dims } });
        false
    });
    graph.inputs.extend(weights);
    model
}

/// The plan with a buffer for every tensor.
fn naive(model: Model) -> Plan {
    let (mut graph, _, _) = crate::lower(model, &crate::Options::default()).unwrap();
    schedule(&mut graph, 64).map_err(|p| p.what).unwrap().plan
}

#[test]
fn orders_and_concatenations_come_to_what_is_known() {
    let Some(folder) = folder() else { return };
    let (mut operands, mut concats) = (0, 0);
    for known in &NETWORKS {
        let name = known.name;
        let model = network(&folder, name);
        let nodes: Vec<usize> =
            model.graph.nodes.iter().filter(|n| n.op_type == "Concat").map(|n| n.inputs.len()).collect();
        assert_eq!((nodes.iter().sum(), nodes.len()), known.concats, "{name}");
        (operands, concats) = (operands + known.concats.0, concats + known.concats.1);
        let naive = naive(model);
        assert!(order::is_proven(&naive), "{name}: another order may be better");
        for (reorder, most) in [(false, known.in_file_order), (true, known.ordered)] {
            let mut plan = naive.clone();
            optimise(&mut plan, &Options { reorder, ..Options::default() }).unwrap();
            let c = &plan.certificate;
            assert_eq!((c.lower_bound_bytes, plan.arena_bytes, c.optimal), (most, most, true), "{name}, {reorder}");
            // Nothing is left of a concatenation: no step, no copy of an operand.
            let steps = plan.blocks.iter().flat_map(|b| &b.steps);
            let left = steps.filter(|s| matches!(&s.action, Action::Run { prim: Primitive::Concat(_), .. })).count();
            let copied = c.refusals.iter().filter(|r| r.reason.contains("copied into the result")).count();
            assert_eq!((left, copied), (0, 0), "{name}");
            checker::check(&plan, &checker::Points::default()).map_err(|r| r.to_string()).unwrap();
        }
    }
    assert_eq!((operands, concats), (212, 88));
}
