//! What the tests of devices share: small models planned, their data, and runs of them.

use crate::common;
use crate::onnx::{BOOL, F32, Graph, I64, Node};
use plan::{DType, Plan};
use planner::{DimOption, DimTarget, Options};
use runtime::device::MemoryClass;
use runtime::executor::{EagerExec, StaticExec};
use runtime::interpret::{InputTensor, Interpreter, Mode, OutputTensor};
use runtime::sim::{Addresses, QueueMode, SimDevice, SimOptions};
use std::sync::Arc;

/// A tensor of the host.
#[derive(Clone, Debug)]
pub struct Data {
    pub dtype: DType,
    pub dims: Vec<usize>,
    pub bytes: Vec<u8>,
}

impl Data {
    pub fn floats(dims: &[usize], data: &[f32]) -> Data {
        let bytes = data.iter().flat_map(|v| v.to_ne_bytes()).collect();
        Data { dtype: DType::F32, dims: dims.to_vec(), bytes }
    }

    /// Elements that differ, and from one `seed` to another.
    pub fn ramp(dims: &[usize], seed: usize) -> Data {
        let n: usize = dims.iter().product();
        let data: Vec<f32> = (0..n).map(|i| ((i * 37 + seed * 101) % 97) as f32 / 16.0 - 3.0).collect();
        Data::floats(dims, &data)
    }

    pub fn ints(dims: &[usize], data: &[i64]) -> Data {
        let bytes = data.iter().flat_map(|v| v.to_ne_bytes()).collect();
        Data { dtype: DType::I64, dims: dims.to_vec(), bytes }
    }

    pub fn flag(value: bool) -> Data {
        Data { dtype: DType::Bool, dims: Vec::new(), bytes: vec![u8::from(value)] }
    }

    pub fn view(&self) -> InputTensor<'_> {
        InputTensor { dtype: self.dtype, dims: &self.dims, bytes: &self.bytes }
    }
}

pub fn views(data: &[Data]) -> Vec<InputTensor<'_>> {
    data.iter().map(Data::view).collect()
}

/// A plan and its weights.
#[derive(Clone)]
pub struct Case {
    pub plan: Arc<Plan>,
    pub weights: Vec<u8>,
}

impl Case {
    /// Plans a model; `dims` are ranges of free dims by their names.
    pub fn new(name: &str, graph: &Graph, dims: &[(&str, i64, i64)], states: &[(&str, &str)]) -> Case {
        let path = common::scratch(&format!("devices-{name}")).join("model.onnx");
        std::fs::write(&path, graph.model()).unwrap();
        let dim = |(name, lo, hi): &(&str, i64, i64)| {
            let target = DimTarget::Named((*name).to_owned());
            DimOption { target, lo: *lo, hi: *hi, step: 1 }
        };
        let states = states.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let options = Options { dims: dims.iter().map(dim).collect(), states, align: 256, ..Options::default() };
        Case::of(planner::plan(planner::onnx::read(&path).unwrap(), &options).unwrap())
    }

    pub fn of(planned: planner::Planned) -> Case {
        let report = checker::check(&planned.plan, &checker::Points::default()).unwrap();
        assert_eq!(report.not_tight, [], "{}: what is held longer than it must be", planned.plan.name);
        Case { weights: planned.weights.to_vec(), plan: Arc::new(planned.plan) }
    }

    pub fn eager(&self, device: &SimDevice) -> EagerExec<SimDevice> {
        EagerExec::prepare(device.clone(), self.plan.clone(), &self.weights).unwrap()
    }

    pub fn fixed(&self, device: &SimDevice) -> StaticExec<SimDevice> {
        StaticExec::prepare(device.clone(), self.plan.clone(), &self.weights).unwrap()
    }

    /// What the naive interpreter leaves after each of these runs.
    pub fn reference(&self, runs: &[Vec<Data>]) -> Vec<Vec<OutputTensor>> {
        let mut exec = Interpreter::with_mode((*self.plan).clone(), self.weights.clone(), Mode::Naive).unwrap();
        let run = |inputs: &Vec<Data>| {
            exec.run(&views(inputs)).unwrap();
            outputs(&self.plan, |i| exec.output(i))
        };
        runs.iter().map(run).collect()
    }

    /// All executors, all modes.
    #[track_caller]
    pub fn differential(&self, runs: &[Vec<Data>]) -> runtime::sim::Differential {
        let runs: Vec<Vec<InputTensor<'_>>> = runs.iter().map(|r| views(r)).collect();
        runtime::sim::differential(&self.plan, &self.weights, &runs).unwrap_or_else(|d| panic!("{d}"))
    }
}

/// All outputs of the last run.
pub fn outputs(plan: &Plan, output: impl Fn(usize) -> Result<OutputTensor, runtime::Error>) -> Vec<OutputTensor> {
    (0..plan.outputs.len()).map(|i| output(i).unwrap()).collect()
}

pub fn eager_outputs(exec: &EagerExec<SimDevice>) -> Vec<OutputTensor> {
    outputs(exec.plan(), |i| exec.output(i))
}

pub fn fixed_outputs(exec: &StaticExec<SimDevice>) -> Vec<OutputTensor> {
    outputs(exec.plan(), |i| exec.output(i))
}

/// A device that forgets addresses and queues nothing.
pub fn device() -> SimDevice {
    SimDevice::new(0, SimOptions::default()).unwrap()
}

pub fn device_with(addresses: Addresses, queue: QueueMode) -> SimDevice {
    SimDevice::new(0, SimOptions { addresses, queue, ..SimOptions::default() }).unwrap()
}

/// Bytes of runs that are alive: activations, workspace, inputs.
pub fn of_runs(device: &SimDevice) -> u64 {
    let stats = device.counted();
    [MemoryClass::Act, MemoryClass::Work, MemoryClass::Io].map(|c| stats.live(c)).iter().sum()
}

/// x[8,16] @ [16,64], Gelu, @ [64,16]: the fixture X2.
pub fn two_products() -> Graph {
    let weights = |n: usize, by: f32| (0..n).map(|i| ((i % 13) as f32 - 6.0) * by).collect::<Vec<_>>();
    Graph::new()
        .input("x", F32, &["8", "16"])
        .floats("a", &[16, 64], &weights(1024, 0.05))
        .floats("b", &[64, 16], &weights(1024, 0.03))
        .node(Node::new("MatMul", &["x", "a"], &["h"]))
        .node(Node::new("Gelu", &["h"], &["g"]))
        .node(Node::new("MatMul", &["g", "b"], &["y"]))
        .output("y", F32, &["8", "16"])
}

/// Rows that are gathered by indices in the data, after something and before something: the data can make it fail.
pub fn lookup() -> Graph {
    Graph::new()
        .input("x", F32, &["n", "4"])
        .input("i", I64, &["3"])
        .floats("w", &[4, 4], &[0.5; 16])
        .node(Node::new("MatMul", &["x", "w"], &["p"]))
        .node(Node::new("Gather", &["p", "i"], &["rows"]).name("lookup"))
        .node(Node::new("Softmax", &["rows"], &["y"]))
        .output("y", F32, &["3", "4"])
}

/// An extent that only the data tells, in the middle.
pub fn nonzero() -> Graph {
    Graph::new()
        .input("x", F32, &["2", "6"])
        .node(Node::new("Relu", &["x"], &["r"]))
        .node(Node::new("Softmax", &["x"], &["s"]))
        .node(Node::new("NonZero", &["r"], &["at"]).name("which"))
        .node(Node::new("Shape", &["at"], &["count"]))
        .node(Node::new("Exp", &["s"], &["e"]))
        .node(Node::new("Softmax", &["e"], &["y"]))
        .output("at", I64, &["2", "k"])
        .output("y", F32, &["2", "6"])
}

/// A branch that the data chooses, one reading what was computed before it, and more behind it.
pub fn branch() -> Graph {
    let body = |operator: &str| Graph::new().node(Node::new(operator, &["p"], &["q"])).output("q", F32, &["4", "4"]);
    Graph::new()
        .input("x", F32, &["4", "4"])
        .input("c", BOOL, &[])
        .node(Node::new("Softmax", &["x"], &["p"]))
        .node(Node::new("If", &["c"], &["r"]).graph("then_branch", body("Exp")).graph("else_branch", body("Neg")))
        .node(Node::new("Softmax", &["r"], &["y"]))
        .output("y", F32, &["4", "4"])
}

/// A loop that doubles, as often as an input says.
pub fn repeated() -> Graph {
    let body = Graph::new()
        .input("i", I64, &[])
        .input("go", BOOL, &[])
        .input("v", F32, &["4"])
        .node(Node::new("Identity", &["go"], &["on"]))
        .node(Node::new("Add", &["v", "v"], &["w"]))
        .node(Node::new("Softmax", &["w"], &["z"]))
        .output("on", BOOL, &[])
        .output("z", F32, &["4"]);
    Graph::new()
        .input("x", F32, &["4"])
        .input("n", I64, &[])
        .constant("yes", BOOL, &[], &[1])
        .node(Node::new("Exp", &["x"], &["e"]))
        .node(Node::new("Loop", &["n", "yes", "e"], &["r"]).graph("body", body))
        .node(Node::new("Softmax", &["r"], &["y"]))
        .output("y", F32, &["4"])
}

/// A sum that is kept from run to run.
pub fn running_sum() -> Graph {
    Graph::new()
        .input("x", F32, &["4"])
        .input("sum", F32, &["4"])
        .node(Node::new("Add", &["x", "sum"], &["next"]))
        .node(Node::new("Softmax", &["next"], &["y"]))
        .output("y", F32, &["4"])
        .output("next", F32, &["4"])
}
