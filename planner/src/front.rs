//! The planner's front: from a model and options to a plan and its weights.

use crate::graph::{Builder, Graph, Port};
use crate::onnx::{self, Dim, Type};
use crate::ops::{Cx, Found, Val, dtype_of};
use crate::passes;
use crate::schedule::{Weights, schedule};
use crate::shape::SymbolInfo;
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
}

/// What sort of problem an [`Error`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The model could not be read.
    Read,
    /// An operator, a type or a form of it is not supported.
    Unsupported,
    /// The model is wrong: shapes or types that do not fit.
    Invalid,
    /// A free dim without a value or range, or an option that fits nothing in the model.
    Options,
    /// The arena exceeds the budget.
    Budget,
    /// The planner made a mistake.
    Internal,
}

/// Why a model cannot be planned. `Display` prints everything, one problem per line.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.text())]
pub struct Error {
    kind: ErrorKind,
    what: String,
    problems: Vec<Found>,
}

impl Error {
    fn new(kind: ErrorKind, what: impl Into<String>) -> Error {
        Error { kind, what: what.into(), problems: Vec::new() }
    }

    /// What sort of problem this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The nodes that cannot be lowered, all together.
    pub fn problems(&self) -> &[Found] {
        &self.problems
    }

    fn text(&self) -> String {
        let mut text = self.what.clone();
        for p in &self.problems {
            let opset = if p.opset > 0 { format!(" (opset {})", p.opset) } else { String::new() };
            text.push_str(&format!("\n  {}{opset}: {}", p.node, p.what));
            if !p.operands.is_empty() {
                text.push_str(&format!("; operands {}", p.operands.join(", ")));
            }
            if let Some(remedy) = &p.remedy {
                text.push_str(&format!("; {remedy}"));
            }
        }
        text
    }
}

impl From<onnx::Error> for Error {
    fn from(e: onnx::Error) -> Error {
        Error::new(ErrorKind::Read, e.to_string())
    }
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
    if !cx.problems.is_empty() {
        let unsupported = cx.problems.iter().any(|p| p.unsupported);
        let kind = if unsupported { ErrorKind::Unsupported } else { ErrorKind::Invalid };
        let n = cx.problems.len();
        let what = format!("{n} problem{} in the model", if n == 1 { "" } else { "s" });
        return Err(Error { kind, what, problems: cx.problems });
    }
    bind_outputs(&mut cx, &model.graph, options)?;
    let mut context = passes::Context::default();
    let mut graph = cx.b.graph;
    passes::run(&mut graph, &mut context).map_err(|b| Error::new(ErrorKind::Internal, b.to_string()))?;
    Ok((graph, cx.b.warnings, context.notes))
}

fn finish(
    mut graph: Graph,
    options: &Options,
    warnings: &mut Vec<String>,
    notes: Vec<String>,
) -> Result<Planned, Error> {
    let align = if options.align == 0 { 64 } else { options.align };
    let (mut plan, weights) = schedule(&mut graph, align).map_err(|p| {
        Error::new(ErrorKind::Invalid, format!("{}{}", p.what, p.remedy.map_or(String::new(), |r| format!("; {r}"))))
    })?;
    crate::memory::optimise(&mut plan, &crate::memory::Options::default())
        .map_err(|e| Error::new(ErrorKind::Internal, e.to_string()))?;
    if let Some(budget) = options.budget
        && plan.arena_bytes > budget
    {
        let top = live_at_peak(&plan);
        return Err(Error::new(
            ErrorKind::Budget,
            format!(
                "the arena needs {} bytes, the budget is {budget}; live at the peak: {}",
                plan.arena_bytes,
                top.join(", ")
            ),
        ));
    }
    Ok(Planned { plan, weights, warnings: std::mem::take(warnings), notes })
}

/// The largest buffers that are live where the main block's steps need most, largest first.
fn live_at_peak(plan: &Plan) -> Vec<String> {
    let steps = plan.blocks.first().map_or(0, |b| b.steps.len() as u32);
    let live = |at: u32| {
        plan.buffers
            .iter()
            .filter(move |b| b.eager.is_some_and(|e| e.block.0 == 0 && e.alloc <= at && e.free.is_none_or(|f| f >= at)))
    };
    let peak = (0..steps).max_by_key(|at| (live(*at).map(|b| b.max_bytes).sum::<u64>(), u32::MAX - at)).unwrap_or(0);
    let mut top: Vec<&plan::Buffer> = live(peak).collect();
    top.sort_by_key(|b| (u64::MAX - b.max_bytes, b.name.clone()));
    top.iter().take(8).map(|b| format!("{} {} bytes", b.name, b.max_bytes)).collect()
}

// ---- inputs and outputs --------------------------------------------------------------------------------------------------------

/// The dims of one declared input: extents, or the names of those without a value.
struct Dims<'o> {
    options: &'o Options,
    used: Vec<bool>,
    named: BTreeMap<String, ExprId>,
    missing: Vec<String>,
}

impl Dims<'_> {
    fn extent(&mut self, cx: &mut Cx<'_>, input: &str, position: u32, axis: usize, dim: &Dim) -> ExprId {
        if let Dim::Known(n) = dim {
            return cx.b.int(*n);
        }
        let name = if let Dim::Named(name) = dim { Some(name) } else { None };
        let wanted = |t: &DimTarget| match t {
            DimTarget::Axis { input: i, axis: a } => i == input && *a == axis,
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
        let label = name.cloned().unwrap_or_else(|| format!("{input}#{axis}"));
        let Some(option) = found.and_then(|i| self.options.dims.get(i)) else {
            self.missing.push(label);
            return cx.b.int(1);
        };
        let kind = SymbolKind::Input { input: position, axis: axis as u32 };
        // The last value of the range is the largest that the steps reach.
        let step = option.step.max(1);
        let hi = option.lo + (option.hi - option.lo) / step * step;
        let symbol = SymbolInfo { name: label, kind, lo: option.lo, hi, step, bound: None };
        let id = cx.b.exprs().symbol(symbol);
        let extent = cx.b.exprs().of_symbol(id);
        if let Some(name) = name {
            self.named.insert(name.clone(), extent);
        }
        extent
    }
}

fn bind_inputs<'m>(cx: &mut Cx<'m>, graph: &'m onnx::Graph, options: &Options) -> Result<(), Error> {
    for o in &options.dims {
        if o.lo < 0 || o.hi < o.lo || o.step < 1 {
            let text = format!("a dim cannot have the range {}..={}/{}", o.lo, o.hi, o.step);
            return Err(Error::new(ErrorKind::Options, text));
        }
    }
    let mut dims = Dims { options, used: vec![false; options.dims.len()], named: BTreeMap::new(), missing: Vec::new() };
    for input in &graph.inputs {
        // An optional tensor is always given.
        let (ty, optional) = if let Type::Optional(ty) = &input.ty { (&**ty, true) } else { (&input.ty, false) };
        let Type::Tensor { dtype, dims: declared } = ty else {
            let text = format!("input {} is no tensor: sequences, optionals and maps cannot be inputs", input.name);
            return Err(Error::new(ErrorKind::Unsupported, text));
        };
        let Some(dtype) = dtype_of(*dtype) else {
            let text = format!("input {} has elements of type {}", input.name, dtype.name());
            return Err(Error::new(ErrorKind::Unsupported, text));
        };
        let Some(declared) = declared else {
            let text = format!("input {} has no declared rank, so its dims cannot be planned", input.name);
            return Err(Error::new(ErrorKind::Unsupported, text));
        };
        let position = cx.b.graph.inputs.len() as u32;
        let fixed = options.fix.iter().find(|(name, _)| *name == input.name);
        let mut extents = Vec::new();
        for (axis, dim) in declared.iter().enumerate() {
            // A fixed input brings its dims along.
            extents.push(match (fixed, dim) {
                (Some((_, Fixed::Raw { dims, .. })), Dim::Named(_) | Dim::Free) => {
                    let n = dims.get(axis).copied().unwrap_or(1);
                    cx.b.int(n as i64)
                }
                _ => dims.extent(cx, &input.name, position, axis, dim),
            });
        }
        let value = match fixed {
            Some((_, value)) => fixed_input(cx, &input.name, dtype, &extents, value)?,
            None => {
                cx.b.input(&input.name, dtype, &extents)
                    .map_err(|p| Error::new(ErrorKind::Invalid, format!("input {}: {}", input.name, p.what)))?
            }
        };
        let val = Val::Tensor(value);
        cx.bind(&input.name, if optional { Val::Optional(Some(Box::new(val))) } else { val });
    }
    check_options(graph, options, &dims)
}

fn check_options(graph: &onnx::Graph, options: &Options, dims: &Dims<'_>) -> Result<(), Error> {
    let mut wrong = Vec::new();
    for (option, used) in options.dims.iter().zip(&dims.used) {
        if !used {
            wrong.push(match &option.target {
                DimTarget::Named(n) => format!("no input has a free dim named {n}"),
                DimTarget::Axis { input, axis } => {
                    format!("axis {axis} of input {input} does not exist or is not free")
                }
            });
        }
    }
    for (name, _) in &options.fix {
        if !graph.inputs.iter().any(|i| i.name == *name) {
            wrong.push(format!("there is no input {name} to fix"));
        }
    }
    if !dims.missing.is_empty() {
        let mut names = dims.missing.clone();
        names.dedup();
        wrong.push(format!(
            "free dims without a value or range: {}; give each one, for example `--dim {}=1` or `--dim {}=1..=8`",
            names.join(", "),
            names.first().map_or("", String::as_str),
            names.first().map_or("", String::as_str)
        ));
    }
    if wrong.is_empty() { Ok(()) } else { Err(Error::new(ErrorKind::Options, wrong.join("\n  "))) }
}

fn fixed_input(
    cx: &mut Cx<'_>,
    name: &str,
    dtype: DType,
    extents: &[ExprId],
    value: &Fixed,
) -> Result<crate::graph::V, Error> {
    let fail = |what: String| Error::new(ErrorKind::Options, format!("fixed input {name}: {what}"));
    let Some(dims) = cx.b.const_ints(extents) else { return Err(fail("its dims must be values, not ranges".into())) };
    let dims: Vec<usize> = dims.into_iter().map(|d| d.max(0) as usize).collect();
    let count: usize = dims.iter().product();
    let made = match value {
        Fixed::Raw { dims: given, bytes } if *given == dims => cx.b.constant(dtype, &dims, bytes.clone(), false),
        Fixed::Raw { dims: given, .. } => return Err(fail(format!("dims {given:?} where the model has {dims:?}"))),
        Fixed::Ints(list) if dtype.is_float() => {
            floats(cx, dtype, &dims, count, list.iter().map(|v| *v as f64).collect())
        }
        Fixed::Ints(list) => match spread(list, count) {
            Some(all) => cx.b.const_of_ints(dtype, &dims, &all),
            None => return Err(fail(format!("{} numbers for {count} elements", list.len()))),
        },
        Fixed::Floats(list) => floats(cx, dtype, &dims, count, list.clone()),
    };
    made.map_err(|p| fail(p.what))
}

/// As many as there are elements, or one for all.
fn spread<T: Copy>(list: &[T], count: usize) -> Option<Vec<T>> {
    match list {
        [one] => Some(vec![*one; count]),
        _ if list.len() == count => Some(list.to_vec()),
        _ => None,
    }
}

fn floats(
    cx: &mut Cx<'_>,
    dtype: DType,
    dims: &[usize],
    count: usize,
    list: Vec<f64>,
) -> Result<crate::graph::V, crate::graph::Problem> {
    let all = spread(&list, count)
        .ok_or_else(|| crate::graph::Problem::new(format!("{} numbers for {count} elements", list.len())))?;
    cx.b.const_of_floats(dtype, dims, &all)
}

fn bind_outputs(cx: &mut Cx<'_>, graph: &onnx::Graph, options: &Options) -> Result<(), Error> {
    for output in &graph.outputs {
        match cx.lookup(&output.name) {
            Some(Val::Tensor(v)) => {
                let value = *v;
                warn_of_declaration(cx, output, value);
                cx.b.graph.outputs.push(Port { name: output.name.clone(), value });
            }
            Some(Val::Optional(Some(inner))) if matches!(**inner, Val::Tensor(_)) => {
                if let Val::Tensor(value) = **inner {
                    cx.b.graph.outputs.push(Port { name: output.name.clone(), value });
                }
            }
            Some(_) => {
                let text =
                    format!("output {} is no tensor: sequences, optionals and strings cannot be outputs", output.name);
                return Err(Error::new(ErrorKind::Unsupported, text));
            }
            None => return Err(Error::new(ErrorKind::Invalid, format!("output {} is not computed", output.name))),
        }
    }
    for (input, output) in &options.states {
        let i = cx.b.graph.inputs.iter().position(|p| p.name == *input);
        let o = cx.b.graph.outputs.iter().position(|p| p.name == *output);
        let (Some(i), Some(o)) = (i, o) else {
            return Err(Error::new(ErrorKind::Options, format!("state {input}={output}: no such input or output")));
        };
        let values = (cx.b.graph.inputs.get(i).map(|p| p.value), cx.b.graph.outputs.get(o).map(|p| p.value));
        if let (Some(a), Some(b)) = values
            && (cx.b.dims(a) != cx.b.dims(b) || cx.b.dtype(a) != cx.b.dtype(b))
        {
            let text =
                format!("state {input}={output}: the input is {}, the output {}", cx.b.describe(a), cx.b.describe(b));
            return Err(Error::new(ErrorKind::Options, text));
        }
        cx.b.graph.states.push((i, o));
    }
    Ok(())
}

/// Declared dims of outputs are hints: what was inferred wins, and a mismatch is worth a warning.
fn warn_of_declaration(cx: &mut Cx<'_>, output: &onnx::ValueInfo, value: crate::graph::V) {
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
