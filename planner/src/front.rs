//! The planner's front: from a model and options to a plan and its weights.

use crate::error::{Error, ErrorKind};
use crate::graph::{Builder, Graph, Port, Problem, V};
use crate::onnx::{self, Dim, Type};
use crate::ops::{Cx, Val, dtype_of};
use crate::passes;
use crate::peak::{Peak, largest_sizes, peak};
use crate::schedule::{Scheduled, Weights, schedule};
use crate::shape::SymbolInfo;
use crate::workspace::Workspaces;
use bytes::Bytes;
use plan::{DType, ExprId, Plan, SymbolKind};
use std::collections::BTreeMap;

/// What to plan for.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The model's name; else that of its graph.
    pub name: Option<String>,
    /// Values or ranges of free dims.
    pub dims: Vec<DimOption>,
    /// Inputs that never change.
    pub fix: Vec<(String, Fixed)>,
    /// Outputs fed back as inputs: (input, output).
    pub states: Vec<(String, String)>,
    /// Alignment of buffers in bytes; 0: 64.
    pub align: u64,
    /// The most bytes that the arena may have.
    pub budget: Option<u64>,
    /// Refuses a plan in which the workspace of a step is not what was reserved for its node, rather than to warn of it.
    pub strict_workspace: bool,
    /// The plan is for the eager executor: the budget is for what that holds at once.
    pub eager: bool,
    /// Keeps the steps in the order that the graph has them in, whatever memory that needs: to see what ordering saves.
    pub file_order: bool,
}

/// The values of a free dim: `lo`, `lo + step`, ..., `hi`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DimOption {
    /// Which dim.
    pub target: DimTarget,
    /// Smallest value.
    pub lo: i64,
    /// Largest value.
    pub hi: i64,
    /// Distance between values.
    pub step: i64,
}

/// A free dim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DimTarget {
    /// By its name in the model.
    Named(String),
    /// By an input and an axis.
    Axis {
        /// The input.
        input: String,
        /// The axis.
        axis: usize,
    },
}

/// The value of an input that never changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Fixed {
    /// Numbers in row-major order: of the input's dims, or one for all elements.
    Ints(Vec<i64>),
    /// As `Ints`.
    Floats(Vec<f64>),
    /// Little-endian elements of the input's type.
    Raw {
        /// Extents.
        dims: Vec<usize>,
        /// Elements.
        bytes: Bytes,
    },
}

/// A plan with what belongs to it.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// The weights file.
    pub weights: Weights,
    /// What a user should know.
    pub warnings: Vec<String>,
    /// Why rewrites did not fire.
    pub notes: Vec<String>,
    /// The workspace of its steps.
    pub workspace: Workspaces,
}

/// Plans a model.
///
/// # Errors
/// All problems of one kind together, each with node, operator, opset, shapes and what to do.
pub fn plan(model: onnx::Model, options: &Options) -> Result<Planned, Error> {
    let (graph, mut warnings, notes) = lower(model, options)?;
    finish(graph, options, &mut warnings, notes)
}

/// Lowers a model and runs the passes: the graph, warnings and notes.
///
/// # Errors
/// As [`plan()`].
pub fn lower(model: onnx::Model, options: &Options) -> Result<(Graph, Vec<String>, Vec<String>), Error> {
    let model = onnx::inline_functions(model)?;
    let name = options.name.clone().unwrap_or_else(|| model.graph.name.clone());
    let mut builder = Builder::new(name);
    builder.graph.producer = model.producer.clone();
    let mut cx = Cx::new(builder);
    bind_inputs(&mut cx, &model.graph, options)?;
    cx.body(&model.graph);
    if let Some(error) = Error::of_nodes(std::mem::take(&mut cx.problems)) {
        return Err(error);
    }
    bind_outputs(&mut cx, &model.graph, options)?;
    let mut context = passes::Context::default();
    let mut graph = cx.b.graph;
    passes::run(&mut graph, &mut context).map_err(|b| Error::new(ErrorKind::Internal, b.to_string()))?;
    Ok((graph, cx.b.warnings, context.notes))
}

/// Schedules a graph and plans its memory.
pub(crate) fn finish(
    mut graph: Graph,
    options: &Options,
    warnings: &mut Vec<String>,
    notes: Vec<String>,
) -> Result<Planned, Error> {
    let align = if options.align == 0 { 64 } else { options.align };
    let Scheduled { mut plan, weights, workspace } = schedule(&mut graph, align).map_err(|p| {
        let error = Error::new(ErrorKind::Invalid, p.what);
        if let Some(remedy) = p.remedy { error.remedy(remedy) } else { error }
    })?;
    if options.strict_workspace
        && let Some(error) = Error::collected(ErrorKind::Workspace, workspace.findings.clone())
    {
        return Err(error.remedy("without strict verification of workspace these are warnings"));
    }
    warnings.extend(workspace.findings.iter().cloned());
    let memory = crate::memory::Options { reorder: !options.file_order, ..Default::default() };
    crate::memory::optimise(&mut plan, &memory).map_err(|e| Error::new(ErrorKind::Internal, e.to_string()))?;
    let needed = if options.eager { plan.certificate.eager_peak_bytes } else { plan.arena_bytes };
    match options.budget {
        Some(budget) if needed > budget => Err(over_budget(&plan, options.eager, needed, budget)),
        _ => Ok(Planned { plan, weights, warnings: std::mem::take(warnings), notes, workspace }),
    }
}

/// Buffers that are named in a message.
const NAMED: usize = 8;

/// What is live where most is, largest first, and which ranges could be smaller.
fn over_budget(plan: &Plan, eager: bool, needed: u64, budget: u64) -> Error {
    let sizes = largest_sizes(plan);
    let Peak { step, buffers, .. } = peak(plan, &sizes);
    let named = buffers.iter().take(NAMED).filter_map(|(i, bytes)| Some((plan.buffers.get(*i)?, bytes)));
    let mut top: Vec<String> = named.map(|(b, bytes)| format!("{} {bytes} bytes", b.name)).collect();
    if buffers.len() > NAMED {
        top.push(format!("{} more", buffers.len() - NAMED));
    }
    let what = format!(
        "{} {needed} bytes, the budget is {budget}; most is live at {}: {}",
        if eager { "the eager executor holds up to" } else { "the arena needs" },
        step.join(" > "),
        top.join(", ")
    );
    let ranges: Vec<&str> = plan.symbols.iter().filter(|s| s.lo < s.hi).map(|s| &*s.name).collect();
    let remedy = match ranges.as_slice() {
        [] => format!("raise the budget to {needed}, or give the dims smaller values"),
        names => format!("raise the budget to {needed}, or give smaller ranges to {}", names.join(", ")),
    };
    Error::new(ErrorKind::Budget, what).remedy(remedy).with_bytes(needed, budget)
}

// ---- inputs and outputs --------------------------------------------------------------------------------------------------------

/// The dims of the declared inputs, and what was found of them.
struct Dims<'o> {
    options: &'o Options,
    used: Vec<bool>,
    named: BTreeMap<String, ExprId>,
    /// Every free dim as `--dim` calls it, in the model's order.
    free: Vec<String>,
    /// Those without a value, and where they stand.
    missing: Vec<(String, Vec<String>)>,
}

impl Dims<'_> {
    /// The extent of an axis of an input. A fixed input has no `position`: a run is not given it.
    fn extent(
        &mut self,
        cx: &mut Cx<'_>,
        input: &onnx::ValueInfo,
        position: Option<u32>,
        axis: usize,
        dim: &Dim,
    ) -> ExprId {
        if let Dim::Known(n) = dim {
            return cx.b.int(*n);
        }
        let name = if let Dim::Named(name) = dim { Some(name) } else { None };
        let wanted = |t: &DimTarget| match t {
            DimTarget::Axis { input: i, axis: a } => *i == input.name && *a == axis,
            DimTarget::Named(n) => Some(n) == name,
        };
        let found = self.options.dims.iter().position(|o| wanted(&o.target));
        if let Some(i) = found
            && let Some(used) = self.used.get_mut(i)
        {
            *used = true;
        }
        if let Some(known) = name.and_then(|n| self.named.get(n)) {
            return *known;
        }
        let label = name.cloned().unwrap_or_else(|| format!("{}#{axis}", input.name));
        if !self.free.contains(&label) {
            self.free.push(label.clone());
        }
        let Some(option) = found.and_then(|i| self.options.dims.get(i)) else {
            let place = format!("axis {axis} of {}", declared(input));
            match self.missing.iter_mut().find(|(l, _)| *l == label) {
                Some((_, places)) => places.push(place),
                None => self.missing.push((label, vec![place])),
            }
            return cx.b.int(1);
        };
        let extent = match position {
            None if option.lo == option.hi => cx.b.int(option.lo),
            _ => {
                let kind = SymbolKind::Input { input: position.unwrap_or(u32::MAX), axis: axis as u32 };
                // The last value of the range is the largest that the steps reach.
                let step = option.step.max(1);
                let hi = option.lo + (option.hi - option.lo) / step * step;
                let symbol = SymbolInfo { name: label, kind, lo: option.lo, hi, step, bound: None };
                let id = cx.b.exprs().symbol(symbol);
                cx.b.exprs().of_symbol(id)
            }
        };
        if let Some(name) = name {
            self.named.insert(name.clone(), extent);
        }
        extent
    }
}

/// An input as the model declares it: name, type and dims.
fn declared(input: &onnx::ValueInfo) -> String {
    let Type::Tensor { dtype, dims: Some(dims) } = &input.ty else { return input.name.clone() };
    let dims: Vec<String> = dims
        .iter()
        .map(|d| match d {
            Dim::Known(n) => n.to_string(),
            Dim::Named(name) => name.clone(),
            Dim::Free => "?".to_owned(),
        })
        .collect();
    format!("{} {}[{}]", input.name, dtype.name(), dims.join(", "))
}

/// No device asks for more.
const MOST_ALIGN: u64 = 1 << 20;

fn bind_inputs<'m>(cx: &mut Cx<'m>, graph: &'m onnx::Graph, options: &Options) -> Result<(), Error> {
    let mut wrong = Vec::new();
    for o in &options.dims {
        if o.lo < 0 || o.hi < o.lo || o.step < 1 {
            let name = match &o.target {
                DimTarget::Named(name) => name.clone(),
                DimTarget::Axis { input, axis } => format!("{input}#{axis}"),
            };
            wrong.push(format!(
                "{name} cannot have the range {}..={}/{}: it goes up from 0 or more, by steps of 1 or more",
                o.lo, o.hi, o.step
            ));
        }
    }
    if options.align != 0 && (!options.align.is_power_of_two() || options.align > MOST_ALIGN) {
        wrong.push(format!("the alignment is a power of two up to {MOST_ALIGN}, not {}", options.align));
    }
    if let Some(error) = Error::collected(ErrorKind::Options, wrong) {
        return Err(error);
    }
    let mut dims = Dims {
        options,
        used: vec![false; options.dims.len()],
        named: BTreeMap::new(),
        free: Vec::new(),
        missing: Vec::new(),
    };
    let (mut unsupported, mut failed) = (Vec::new(), None);
    for input in &graph.inputs {
        match bind_input(cx, input, options, &mut dims) {
            Ok(()) => {}
            Err(Refused::Type(what)) => unsupported.push(what),
            Err(Refused::Other(error)) => {
                failed.get_or_insert(error);
            }
        }
    }
    if let Some(error) = Error::collected(ErrorKind::Unsupported, unsupported) {
        return Err(error.remedy("cut the model where its inputs are tensors of numbers"));
    }
    check_options(graph, options, &dims)?;
    failed.map_or(Ok(()), Err)
}

/// Why an input cannot be bound.
enum Refused {
    /// Its type.
    Type(String),
    /// Anything else.
    Other(Error),
}

fn bind_input<'m>(
    cx: &mut Cx<'m>,
    input: &'m onnx::ValueInfo,
    options: &Options,
    dims: &mut Dims<'_>,
) -> Result<(), Refused> {
    let name = &input.name;
    // An optional tensor is always given.
    let (ty, optional) = if let Type::Optional(ty) = &input.ty { (&**ty, true) } else { (&input.ty, false) };
    let Type::Tensor { dtype, dims: extents } = ty else {
        return Err(Refused::Type(format!(
            "input {name} is no tensor: sequences, optionals and maps cannot be inputs"
        )));
    };
    let Some(dtype) = dtype_of(*dtype) else {
        return Err(Refused::Type(format!("input {name} has elements of type {}", dtype.name())));
    };
    let Some(extents) = extents else {
        return Err(Refused::Type(format!("input {name} has no declared rank, so its dims cannot be planned")));
    };
    let fixed = options.fix.iter().find(|(n, _)| n == name);
    let position = if fixed.is_some() { None } else { Some(cx.b.graph.inputs.len() as u32) };
    let mut found = Vec::new();
    for (axis, dim) in extents.iter().enumerate() {
        // A fixed input brings its dims along.
        found.push(match (fixed, dim) {
            (Some((_, Fixed::Raw { dims, .. })), Dim::Named(_) | Dim::Free) => {
                let n = dims.get(axis).copied().unwrap_or(1);
                cx.b.int(n as i64)
            }
            _ => dims.extent(cx, input, position, axis, dim),
        });
    }
    let value = match fixed {
        Some((_, value)) => fixed_input(cx, name, dtype, &found, value).map_err(Refused::Other)?,
        None => cx.b.input(name, dtype, &found).map_err(|p| {
            let error = Error::new(ErrorKind::Invalid, format!("input {}: {}", declared(input), p.what));
            Refused::Other(error.remedy(p.remedy.unwrap_or_else(|| "give its dims smaller values".to_owned())))
        })?,
    };
    let val = Val::Tensor(value);
    cx.bind(name, if optional { Val::Optional(Some(Box::new(val))) } else { val });
    Ok(())
}

fn check_options(graph: &onnx::Graph, options: &Options, dims: &Dims<'_>) -> Result<(), Error> {
    let mut wrong = Vec::new();
    let free =
        if dims.free.is_empty() { "none is free".to_owned() } else { format!("there are: {}", dims.free.join(", ")) };
    for (option, used) in options.dims.iter().zip(&dims.used) {
        if !used {
            wrong.push(match &option.target {
                DimTarget::Named(n) if dims.free.contains(n) => format!("{n} is given a value more than once"),
                DimTarget::Named(n) => format!("no input has a free dim named {n}; {free}"),
                DimTarget::Axis { input, axis } => {
                    format!("axis {axis} of input {input} does not exist or is not free; {free}")
                }
            });
        }
    }
    let inputs: Vec<&str> = graph.inputs.iter().map(|i| &*i.name).collect();
    for (name, _) in &options.fix {
        if !inputs.contains(&&**name) {
            wrong.push(format!("there is no input {name} to fix; there are: {}", inputs.join(", ")));
        }
    }
    for (label, places) in &dims.missing {
        wrong.push(format!("{label}, {}, has no value or range", places.join(" and ")));
    }
    let Some(error) = Error::collected(ErrorKind::Options, wrong) else { return Ok(()) };
    Err(match dims.missing.first() {
        Some((first, _)) => error.remedy(format!(
            "free dims without a value or range: give each one, `--dim {first}=1` or `--dim {first}=1..=8`; in build.rs, \
             `.dim({first:?}, 1..=8)`"
        )),
        None => error,
    })
}

fn fixed_input(cx: &mut Cx<'_>, name: &str, dtype: DType, extents: &[ExprId], value: &Fixed) -> Result<V, Error> {
    let fail = |what: String| Error::new(ErrorKind::Options, format!("fixed input {name}: {what}"));
    let Some(dims) = cx.b.const_ints(extents) else { return Err(fail("its dims must be values, not ranges".into())) };
    let dims: Vec<usize> = dims.into_iter().map(|d| d.max(0) as usize).collect();
    let list = match value {
        Fixed::Raw { dims: given, bytes } if *given == dims => {
            return cx.b.constant(dtype, &dims, bytes.clone(), false).map_err(|p| fail(p.what));
        }
        Fixed::Raw { dims: given, .. } => return Err(fail(format!("dims {given:?} where the model has {dims:?}"))),
        Fixed::Ints(list) if dtype.is_float() => Numbers::Floats(list.iter().map(|v| *v as f64).collect()),
        Fixed::Ints(list) => Numbers::Ints(list.clone()),
        Fixed::Floats(list) if dtype.is_float() => Numbers::Floats(list.clone()),
        Fixed::Floats(list) => match list.iter().map(|v| whole(*v)).collect() {
            Some(ints) => Numbers::Ints(ints),
            None => return Err(fail(format!("{list:?} are no integers, as {dtype} has them"))),
        },
    };
    list.constant(cx, dtype, &dims).and_then(|v| cx.b.broadcast(v, extents)).map_err(|p| fail(p.what))
}

/// One number for more elements than this is not written out.
const WRITTEN_OUT: usize = 1 << 20;

/// The elements of a fixed input, or one for all.
enum Numbers {
    Ints(Vec<i64>),
    Floats(Vec<f64>),
}

impl Numbers {
    /// A constant of these dims, or a single element to be broadcast to them.
    fn constant(&self, cx: &mut Cx<'_>, dtype: DType, dims: &[usize]) -> Result<V, Problem> {
        let given = match self {
            Numbers::Ints(list) => list.len(),
            Numbers::Floats(list) => list.len(),
        };
        let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        let (dims, times) = match count {
            Some(count) if count == given => (dims, 1),
            Some(count) if given == 1 && count <= WRITTEN_OUT => (dims, count),
            _ if given == 1 => (&[][..], 1),
            _ => return Err(Problem::new(format!("{given} numbers for the dims {dims:?}"))),
        };
        match self {
            Numbers::Ints(list) => {
                if let Some(wrong) = list.iter().find(|v| !holds(dtype, **v)) {
                    return Err(Problem::new(format!("{wrong} is no element of {dtype}")));
                }
                cx.b.const_of_ints(dtype, dims, &list.repeat(times))
            }
            Numbers::Floats(list) => cx.b.const_of_floats(dtype, dims, &list.repeat(times)),
        }
    }
}

/// A number without a fraction, as an integer.
fn whole(v: f64) -> Option<i64> {
    // Both bounds are powers of two, which f64 holds exactly.
    (v.fract() == 0.0 && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&v)).then_some(v as i64)
}

/// Whether a type has this value; types that are no integers say so themselves.
fn holds(dtype: DType, v: i64) -> bool {
    match dtype {
        DType::Bool => (0..=1).contains(&v),
        _ if dtype.is_integer() => {
            let signed = u32::from(dtype.is_signed_integer());
            let end = 1i128 << (dtype.bits() as u32 - signed);
            (-end * i128::from(signed)..end).contains(&i128::from(v))
        }
        _ => true,
    }
}

fn bind_outputs(cx: &mut Cx<'_>, graph: &onnx::Graph, options: &Options) -> Result<(), Error> {
    let mut wrong = Vec::new();
    for output in &graph.outputs {
        let value = match cx.lookup(&output.name) {
            Some(Val::Tensor(v)) => *v,
            Some(Val::Optional(Some(inner))) if matches!(**inner, Val::Tensor(_)) => {
                let Val::Tensor(v) = **inner else { continue };
                v
            }
            Some(_) => {
                wrong.push(format!("output {} is no tensor", output.name));
                continue;
            }
            None => return Err(Error::new(ErrorKind::Invalid, format!("output {} is not computed", output.name))),
        };
        warn_of_declaration(cx, output, value);
        cx.b.graph.outputs.push(Port { name: output.name.clone(), value });
    }
    if let Some(error) = Error::collected(ErrorKind::Unsupported, std::mem::take(&mut wrong)) {
        return Err(error.remedy("sequences, optionals and strings cannot be outputs: cut the model before them"));
    }
    let names = |ports: &[Port]| ports.iter().map(|p| p.name.clone()).collect::<Vec<_>>().join(", ");
    let (inputs, outputs) = (names(&cx.b.graph.inputs), names(&cx.b.graph.outputs));
    for (input, output) in &options.states {
        let i = cx.b.graph.inputs.iter().position(|p| p.name == *input);
        let o = cx.b.graph.outputs.iter().position(|p| p.name == *output);
        let (Some(i), Some(o)) = (i, o) else {
            let (what, list) = if i.is_none() { ("input", &inputs) } else { ("output", &outputs) };
            wrong.push(format!("state {input}={output}: there is no such {what}; there are: {list}"));
            continue;
        };
        let values = (cx.b.graph.inputs.get(i).map(|p| p.value), cx.b.graph.outputs.get(o).map(|p| p.value));
        if let (Some(a), Some(b)) = values
            && (cx.b.dims(a) != cx.b.dims(b) || cx.b.dtype(a) != cx.b.dtype(b))
        {
            let (a, b) = (cx.b.describe(a), cx.b.describe(b));
            wrong.push(format!(
                "state {input}={output}: the input is {a}, the output {b}; a state keeps its type and dims"
            ));
        }
        cx.b.graph.states.push((i, o));
    }
    Error::collected(ErrorKind::Options, wrong).map_or(Ok(()), Err)
}

/// Declared dims of outputs are hints: what was inferred wins, and a mismatch is worth a warning.
fn warn_of_declaration(cx: &mut Cx<'_>, output: &onnx::ValueInfo, value: V) {
    let Type::Tensor { dims: Some(declared), .. } = &output.ty else { return };
    let inferred = cx.b.dims(value);
    let differs = declared.len() != inferred.len()
        || declared
            .iter()
            .zip(&inferred)
            .any(|(d, e)| matches!((d, cx.b.graph.exprs.as_const(*e)), (Dim::Known(n), Some(m)) if *n != m));
    if differs {
        let text =
            format!("output {}: the model declares {declared:?}, but it is {}", output.name, cx.b.describe(value));
        cx.b.warnings.push(text);
    }
}
