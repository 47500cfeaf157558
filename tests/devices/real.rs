//! Real models through both executors on the simulated device.
//!
//! In a debug build only the small ones run; with `FLIGHTPLAN_HEAVY` set, or in a release build, all do:
//! `cargo test --release -p demo --test devices real`.

use crate::common;
use crate::kit::*;
use plan::{Action, BlockId, DType, Expr, Plan, SymbolKind};
use planner::onnx::{Dim, TestValue, Type, read, read_value};
use planner::{DimOption, DimTarget, Fixed, Options};
use runtime::executor::Piece;
use runtime::interpret::{Interpreter, OutputTensor};
use runtime::sim::{Addresses, FaultAt, QueueMode};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Those whose runs take no time worth mentioning without optimisation.
const SMALL: [&str; 6] = ["magika", "mtcnn-pnet", "silero-vad-16k", "silero-vad-half", "vad-2k", "vad-2k-int8"];

/// A model one of whose branches takes only one value of an input: it is planned for the value that the data has.
const FIXED: (&str, &str) = ("silero-vad", "sr");

/// Whether the large ones run too.
fn heavy() -> bool {
    !cfg!(debug_assertions) || std::env::var_os("FLIGHTPLAN_HEAVY").is_some()
}

/// A model, planned for the dims of its first data set, and the data sets of those dims.
struct Real {
    name: String,
    case: Case,
    runs: Vec<Vec<Data>>,
}

impl Real {
    fn load(folder: &Path, fix: &[(&str, i64)], states: &[(&str, &str)]) -> Real {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let model = read(&folder.join("model.onnx")).unwrap();
        let inputs: Vec<(String, Type)> = model.graph.inputs.iter().map(|i| (i.name.clone(), i.ty.clone())).collect();
        let sets: Vec<Vec<(String, Data)>> = (0..)
            .map(|n| folder.join(format!("test_data_set_{n}")))
            .take_while(|p| p.exists())
            .map(|p| {
                inputs.iter().enumerate().filter_map(|(j, (n, ty))| Some((n.clone(), value(&p, j, ty)?))).collect()
            })
            .collect();
        let dims = free_dims(&inputs, &sets[0]);
        let mut fix: Vec<_> = fix.iter().map(|(n, v)| ((*n).to_owned(), Fixed::Ints(vec![*v]))).collect();
        if let Some((n, data)) = sets[0].iter().find(|(n, _)| (&*name, &**n) == FIXED) {
            let (dims, bytes) = (data.dims.clone(), data.bytes.clone().into());
            fix.push((n.clone(), Fixed::Raw { dims, bytes }));
        }
        let same_fixed = |set: &[(String, Data)]| {
            let bytes = |set: &[(String, Data)]| set.iter().find(|(n, _)| n == FIXED.1).map(|(_, d)| d.bytes.clone());
            name != FIXED.0 || bytes(set) == bytes(&sets[0])
        };
        let states = states.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let options = Options { dims, fix, states, align: 256, ..Options::default() };
        let planned = planner::plan(model, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
        let case = Case::of(planned);
        let run = |set: &Vec<(String, Data)>| -> Vec<Data> {
            let given = |port: &plan::Port| set.iter().find(|(n, _)| *n == port.name).map(|(_, d)| d.clone());
            case.plan
                .inputs
                .iter()
                .map(|p| given(p).unwrap_or_else(|| panic!("{name}: no data for {}", p.name)))
                .collect()
        };
        let mut runs: Vec<Vec<Data>> = sets.iter().filter(|set| same_fixed(set)).map(run).collect();
        let dims: Vec<Vec<usize>> = runs[0].iter().map(|d| d.dims.clone()).collect();
        runs.retain(|r| r.iter().map(|d| &d.dims).eq(&dims));
        Real { name, case, runs }
    }

    /// What the interpreter leaves after each run.
    fn wanted(&self) -> Vec<Vec<OutputTensor>> {
        let mut exec = Interpreter::new((*self.case.plan).clone(), self.case.weights.clone()).unwrap();
        let run = |inputs: &Vec<Data>| {
            exec.run(&views(inputs)).unwrap();
            (0..self.case.plan.outputs.len()).map(|i| exec.output(i).unwrap()).collect()
        };
        self.runs.iter().map(run).collect()
    }
}

fn value(set: &Path, j: usize, ty: &Type) -> Option<Data> {
    let TestValue::Tensor(tensor) = read_value(&set.join(format!("input_{j}.pb")), ty).ok()? else { return None };
    let dtype: DType = planner::ops::dtype_of(tensor.dtype)?;
    let dims = tensor.dims.iter().map(|d| *d as usize).collect();
    Some(Data { dtype, dims, bytes: tensor.bytes()?.to_vec() })
}

/// Every free dim with the value that the data has.
fn free_dims(inputs: &[(String, Type)], set: &[(String, Data)]) -> Vec<DimOption> {
    let mut options: Vec<DimOption> = Vec::new();
    for (name, ty) in inputs {
        let (Type::Tensor { dims: Some(dims), .. }, Some((_, data))) = (ty, set.iter().find(|(n, _)| n == name)) else {
            continue;
        };
        for (axis, (dim, extent)) in dims.iter().zip(&data.dims).enumerate() {
            let target = match dim {
                Dim::Known(_) => continue,
                Dim::Named(name) => DimTarget::Named(name.clone()),
                Dim::Free => DimTarget::Axis { input: name.clone(), axis },
            };
            let option = DimOption { target, lo: *extent as i64, hi: *extent as i64, step: 1 };
            if !options.contains(&option) {
                options.push(option);
            }
        }
    }
    options
}

/// All models that are on this machine and are to run now.
fn models() -> Vec<PathBuf> {
    let Some(cases) = common::data("cases") else { return Vec::new() };
    let mut folders: Vec<PathBuf> = std::fs::read_dir(cases).unwrap().map(|e| e.unwrap().path()).collect();
    folders.sort();
    let all = folders.len();
    folders.retain(|f| {
        let name = f.file_name().unwrap().to_string_lossy().into_owned();
        let wanted = std::env::var("FLIGHTPLAN_MODEL").map_or(heavy() || SMALL.contains(&&*name), |m| m == name);
        wanted && !name.contains('@') && f.join("model.onnx").exists()
    });
    let least = if std::env::var_os("FLIGHTPLAN_MODEL").is_some() { 1 } else { SMALL.len() };
    assert!(folders.len() >= least, "{} of {all} folders are models to run", folders.len());
    folders
}

/// The most that the eager schedule holds at once, where only these blocks run; and whether sizes are all known beforehand.
fn eager_peak(plan: &Plan, blocks: &BTreeSet<u32>) -> (u64, bool) {
    let mut told: Vec<bool> = Vec::new();
    for expr in &plan.exprs {
        let run = |s: &plan::SymbolId| matches!(plan.symbols[s.index()].kind, SymbolKind::Run {});
        told.push(match expr {
            Expr::Symbol(s) => run(s),
            _ => expr.operands().any(|e| told[e.index()]),
        });
    }
    let exact = plan.buffers.iter().filter(|b| b.eager.is_some()).all(|b| !told[b.bytes.index()]);
    (within(plan, blocks, BlockId(0)) + plan.certificate.persist_bytes, exact)
}

fn within(plan: &Plan, blocks: &BTreeSet<u32>, block: BlockId) -> u64 {
    let inner = |step: &plan::Step| match &step.action {
        Action::If { then_block, else_block, .. } => vec![*then_block, *else_block],
        Action::Loop { body, .. } => vec![*body],
        _ => Vec::new(),
    };
    let held = |i: u32| {
        let mine = plan.buffers.iter().filter_map(|b| b.eager.filter(|e| e.block == block).map(|e| (b, e)));
        mine.filter(|(_, e)| e.alloc <= i && e.free.is_none_or(|f| i <= f))
            .map(|(b, _)| b.max_bytes.next_multiple_of(plan.align))
            .sum::<u64>()
    };
    (0u32..)
        .zip(&plan.blocks[block.index()].steps)
        .map(|(i, step)| {
            let ran = inner(step).into_iter().filter(|b| blocks.contains(&b.0));
            held(i) + ran.map(|b| within(plan, blocks, b)).max().unwrap_or(0)
        })
        .max()
        .unwrap_or(0)
}

/// The blocks that a run comes into.
fn entered(real: &Real, inputs: &[Data]) -> BTreeSet<u32> {
    let mut exec = Interpreter::new((*real.case.plan).clone(), real.case.weights.clone()).unwrap();
    let mut blocks = BTreeSet::new();
    exec.run_observed(&views(inputs), &mut |block, _| {
        blocks.insert(block.0);
    })
    .unwrap();
    blocks
}

/// Equal bits from both executors, the planned peak to the byte, nothing left at the end.
#[test]
fn both_executors() {
    for folder in models() {
        let real = Real::load(&folder, &[], &[]);
        let (plan, wanted) = (&real.case.plan, real.wanted());
        let name = &real.name;
        for queue in [QueueMode::Immediate, QueueMode::Lazy] {
            let device = device_with(Addresses::AdversarialReuse, queue);
            let mut eager = real.case.eager(&device);
            for (inputs, wanted) in real.runs.iter().zip(&wanted) {
                eager.run(&views(inputs)).unwrap();
                assert_eq!(&eager_outputs(&eager), wanted, "{name}");
                assert_eq!(of_runs(&device), 0, "{name}");
            }
            let blocks = real.runs.iter().flat_map(|r| entered(&real, r)).collect();
            let ((peak, exact), seen) = (eager_peak(plan, &blocks), device.counted().run_peak);
            println!(
                "{name}: {} steps, eager peak {seen} of {}",
                plan.blocks.iter().map(|b| b.steps.len()).sum::<usize>(),
                plan.certificate.eager_peak_bytes
            );
            assert!(seen == peak || !exact && seen < peak, "{name}: {seen}, planned {peak}");
            assert!(peak == plan.certificate.eager_peak_bytes || plan.blocks.len() > blocks.len());
            drop(eager);

            let device = device_with(Addresses::Shift(9), queue);
            let mut fixed = real.case.fixed(&device);
            let allocs = device.counted().allocs;
            let mut captured = None;
            for (inputs, wanted) in real.runs.iter().zip(&wanted) {
                fixed.run(&views(inputs)).unwrap();
                assert_eq!(&fixed_outputs(&fixed), wanted, "{name}");
                match &mut captured {
                    None => captured = Some(fixed.capture(&views(inputs)).unwrap()),
                    Some(captured) => fixed.replay(captured, &views(inputs)).unwrap(),
                }
                assert_eq!(&fixed_outputs(&fixed), wanted, "{name}: captured");
            }
            assert_eq!(device.counted().allocs, allocs);
            assert_eq!(device.violations(), Vec::<String>::new());
        }
    }
}

/// A fault at each step in turn (of large models at some fifty of them, unless `FLIGHTPLAN_EVERY_STEP` is set): nothing remains, and
/// the next run is exact.
#[test]
fn a_fault_at_each_step() {
    for folder in models() {
        let real = Real::load(&folder, &[], &[]);
        let inputs = views(&real.runs[0]);
        let wanted = real.wanted().remove(0);
        let device = device_with(Addresses::NeverReuse, QueueMode::Immediate);
        let (mut eager, mut fixed) = (real.case.eager(&device), real.case.fixed(&device));
        device.fail(None);
        eager.run(&inputs).unwrap();
        let kernels = device.count(FaultAt::Kernel);
        let living = device.living().len();
        let most = match &*real.name {
            _ if std::env::var_os("FLIGHTPLAN_EVERY_STEP").is_some() => kernels,
            name if SMALL.contains(&name) => {
                if heavy() {
                    kernels
                } else {
                    20
                }
            }
            _ => 50,
        };
        let faults: BTreeSet<u64> = (0..most.min(kernels)).map(|i| i * kernels / most.min(kernels)).collect();
        for n in &faults {
            device.fail(Some((FaultAt::Kernel, *n)));
            assert!(eager.run(&inputs).is_err());
            // The arena of the other one is alive all the time.
            assert_eq!(device.living().len(), living, "{}: {n}", real.name);
            device.fail(Some((FaultAt::Kernel, *n)));
            assert!(fixed.run(&inputs).is_err());
            device.fail(None);
            eager.run(&inputs).unwrap();
            assert_eq!(eager_outputs(&eager), wanted, "{}: {n}", real.name);
            fixed.run(&inputs).unwrap();
            assert_eq!(fixed_outputs(&fixed), wanted, "{}: {n}", real.name);
        }
        println!("{}: {} of {kernels} steps failed in turn", real.name, faults.len());
        assert_eq!(device.violations(), Vec::<String>::new());
    }
}

/// A thousand replays with other allocations in between: none allocates, and each leaves what an uncaptured run leaves.
fn thousand(real: &Real) {
    let device = device_with(Addresses::AdversarialReuse, QueueMode::Immediate);
    let plain = crate::kit::device();
    let (mut exec, mut other) = (real.case.fixed(&device), real.case.fixed(&plain));
    let stateless = real.case.plan.states.is_empty();
    let mut captured = None;
    // Without states, a run's results are those of its inputs.
    let mut known: Vec<Option<Vec<OutputTensor>>> = vec![None; real.runs.len()];
    for i in 0..1001 {
        let (inputs, known) = (views(&real.runs[i % real.runs.len()]), &mut known[i % real.runs.len()]);
        if known.is_none() || !stateless {
            other.run(&inputs).unwrap();
            *known = Some(fixed_outputs(&other));
        }
        crate::capture::disturb(&device, i);
        let before = device.counted();
        match &mut captured {
            None => captured = Some(exec.capture(&inputs).unwrap()),
            Some(captured) => exec.replay(captured, &inputs).unwrap(),
        }
        let after = device.counted();
        assert_eq!((after.allocs, after.frees), (before.allocs, before.frees), "{}: {i}", real.name);
        assert_eq!(Some(fixed_outputs(&exec)), *known, "{}: {i}", real.name);
    }
    let mut moved = exec.bindings()[0].clone();
    moved.pointer = moved.pointer.plus(256);
    let name = moved.name.clone();
    exec.bind(0, moved).unwrap();
    let refused = exec.replay(captured.as_mut().unwrap(), &views(&real.runs[0])).unwrap_err();
    assert!(refused.to_string().starts_with(&format!("`{name}` is not what was captured")), "{refused}");
    assert_eq!(device.violations(), Vec::<String>::new());
    let seams = exec.pieces().iter().filter(|p| matches!(p, Piece::Seam { .. })).count();
    println!("{}: 1000 replays of {} segments and {seams} seams", real.name, captured.unwrap().segments());
}

/// Row D1. `silero-vad-16k`, with its state kept.
#[test]
fn a_thousand_replays_of_silero_vad() {
    let Some(cases) = common::data("cases") else { return };
    let real = Real::load(&cases.join("silero-vad-16k"), &[("sr", 16_000)], &[("state", "stateN")]);
    thousand(&real);
}

/// The same with `rxn-transformer`, which takes minutes: only where the large models run.
#[test]
fn a_thousand_replays_of_rxn_transformer() {
    let Some(cases) = common::data("cases") else { return };
    if heavy() {
        thousand(&Real::load(&cases.join("rxn-transformer"), &[], &[]));
    }
}
