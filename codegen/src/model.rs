//! The module of a plan: the types that callers see, and `Model` with its constructors.

use crate::{
    Error, Mode, Options, WeightsIn,
    context::Context,
    docs::{self, Ports},
    exprs::Exprs,
    layout::Lines,
    names::Namer,
    operands::{Operands, buffer, rust_type, value, value_exprs},
    places::Places,
    steps::{self, Steps},
};
use plan::{ExprId, Plan, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// A tensor at the border: field, tensor, and the model's name for it.
pub(crate) type Port = (String, ValueId, String);

/// What a module is written from.
pub(crate) struct Generator<'p> {
    pub(crate) plan: &'p Plan,
    pub(crate) options: &'p Options,
    pub(crate) hash: String,
    pub(crate) exprs: Exprs<'p>,
    pub(crate) places: Places,
    blocks: Vec<plan::BlockId>,
    pub(crate) inputs: Vec<Port>,
    pub(crate) outputs: Vec<Port>,
    pub(crate) states: Vec<Port>,
}

/// The fields of a list of named tensors.
fn fields<'a>(ports: impl Iterator<Item = (&'a str, ValueId)>) -> Vec<Port> {
    let mut namer = Namer::default();
    ports.map(|(name, id)| (namer.fresh(name), id, name.to_owned())).collect()
}

impl<'p> Generator<'p> {
    pub(crate) fn new(plan: &'p Plan, options: &'p Options) -> Result<Generator<'p>, Error> {
        let hash = plan.hash()?;
        let blocks = steps::reachable(plan)?;
        let inputs = fields(plan.inputs.iter().map(|p| (&*p.name, p.value)));
        let outputs = fields(plan.outputs.iter().map(|p| (&*p.name, p.value)));
        let states = fields(plan.states.iter().map(|s| (&*s.input, s.current)));
        let (mut roots, mut values) = (BTreeSet::<ExprId>::new(), BTreeSet::<ValueId>::new());
        for block in &blocks {
            steps::uses(plan, *block, &mut roots, &mut values);
        }
        values.extend(inputs.iter().chain(&outputs).chain(&states).map(|(_, id, _)| *id));
        for id in values {
            roots.extend(value_exprs(value(plan, id)?));
        }
        roots.extend(plan.guards.iter().flat_map(|g| [g.left, g.right]));
        let places = Places::new(plan, options.mode)?;
        for id in places.taken() {
            roots.insert(buffer(plan, id)?.bytes);
        }
        let exprs = Exprs::new(plan, &roots);
        Ok(Generator { plan, options, hash, exprs, places, blocks, inputs, outputs, states })
    }

    /// What code is written from.
    pub(crate) fn context(&self) -> Context<'_, 'p> {
        Context { plan: self.plan, exprs: &self.exprs, places: &self.places }
    }

    /// The whole text.
    pub(crate) fn module(&self) -> Result<String, Error> {
        let mut operands = Operands::default();
        let mut steps = Steps::default();
        let context = self.context();
        for block in &self.blocks {
            steps.block(context, &mut operands, *block)?;
        }
        let kinds = steps.kinds();
        let mut model = Lines::default();
        self.ports(&mut model)?;
        self.model(&kinds, &mut operands, &mut model)?;

        let mut code = Lines::default();
        if self.exprs.is_dynamic() {
            self.exprs.emit(&mut code);
        }
        operands.emit(&self.places, &mut code);
        steps.emit(&mut code);
        let (model, code) = (model.finish(), code.finish());

        let mut out = Lines::default();
        self.head(&model, &code, &mut out);
        let mut text = out.finish();
        text.push_str(&model);
        text.push_str(&code);
        text.truncate(text.trim_end().len());
        text.push('\n');
        Ok(text)
    }

    /// The structs that callers fill and read.
    fn ports(&self, out: &mut Lines) -> Result<(), Error> {
        self.views("Inputs", "What a run reads.", &self.inputs, out)?;
        self.views("Outputs", "What a run leaves, borrowed from the model.", &self.outputs, out)?;
        if !self.states.is_empty() {
            self.views("States", "What the model keeps from one run to the next.", &self.states, out)?;
        }
        out.line("/// Memory of the caller for what a run leaves.");
        if self.outputs.is_empty() {
            out.line("pub struct Buffers;");
        } else {
            out.open("pub struct Buffers<'a> {");
            for (field, id, name) in &self.outputs {
                out.line(&format!("/// {}", self.describe(*id, name)?));
                out.line(&format!("pub {field}: &'a mut [{}],", rust_type(value(self.plan, *id)?.dtype).0));
            }
            out.close("}");
        }
        out.line("");
        Ok(())
    }

    fn views(&self, name: &str, doc: &str, ports: &[Port], out: &mut Lines) -> Result<(), Error> {
        out.line(&format!("/// {doc}"));
        out.line("#[derive(Clone, Copy, Debug)]");
        if ports.is_empty() {
            out.line(&format!("pub struct {name};"));
        } else {
            out.open(&format!("pub struct {name}<'a> {{"));
            for (field, id, name) in ports {
                let found = value(self.plan, *id)?;
                out.line(&format!("/// {}", self.describe(*id, name)?));
                let ty = rust_type(found.dtype).0;
                out.line(&format!("pub {field}: rt::View<'a, {ty}, {}>,", found.dims.len()));
            }
            out.close("}");
        }
        out.line("");
        Ok(())
    }

    fn describe(&self, id: ValueId, name: &str) -> Result<String, Error> {
        let found = value(self.plan, id)?;
        let dims: Vec<String> = found.dims.iter().map(|e| self.exprs.human(*e)).collect();
        let name = crate::names::comment(name).replace('`', "'");
        Ok(format!("`{name}`: {} `[{}]`.", found.dtype, dims.join(", ")))
    }

    /// `struct Model` and its functions.
    fn model(
        &self,
        kinds: &BTreeMap<&'static str, usize>,
        operands: &mut Operands,
        out: &mut Lines,
    ) -> Result<(), Error> {
        let ports = Ports { inputs: &self.inputs, outputs: &self.outputs, states: &self.states };
        docs::model(self.plan, &self.exprs, self.options.mode, &ports, kinds, out)?;
        let eager = self.options.mode == Mode::Eager;
        out.open(if eager { "pub struct Model {" } else { "pub struct Model<'a> {" });
        if eager {
            out.line("states: rt::Arena<'static>,");
            out.line("heap: rt::Heap,");
        } else {
            out.line("arena: rt::Arena<'a>,");
        }
        if !self.embeds() {
            out.line("weights: rt::SharedWeights,");
        }
        out.line("isa: rt::Isa,");
        if self.exprs.is_dynamic() {
            out.line("sizes: Sizes,");
        }
        out.close("}");
        out.line("");
        self.constructors(out);
        out.open(if eager { "impl Model {" } else { "impl<'a> Model<'a> {" });
        if !eager {
            self.with_arena(out);
        }
        if !self.embeds() {
            out.line("/// The weights, to be shared with another model.");
            out.open("pub fn weights(&self) -> rt::SharedWeights {");
            out.line("self.weights.clone()");
            out.close("}");
            out.line("");
        }
        self.run(operands, out)?;
        self.run_into(out);
        if eager {
            held(out);
        }
        self.reset(out)?;
        self.state_functions(operands, out)?;
        out.close("}");
        out.line("");
        out.open("fn failed(step: usize, fault: Fault) -> rt::Error {");
        out.line("let (name, primitive) = STEPS.get(step).copied().unwrap_or((\"unknown\", \"unknown\"));");
        out.line("rt::Error::step(step, name, primitive, PLAN_HASH, fault)");
        out.close("}");
        out.line("");
        Ok(())
    }

    /// Whether the binary holds the weights.
    fn embeds(&self) -> bool {
        self.options.weights == WeightsIn::Binary
    }

    /// The expression that makes a model; `arena` is that of its arena.
    fn construct(&self, arena: &str) -> String {
        let memory = match self.options.mode {
            Mode::Static => format!("arena: {arena}"),
            Mode::Eager => {
                let (buffers, align) = (self.places.numbers, self.plan.align.max(1));
                format!("states: {arena}, heap: rt::Heap::new({buffers}, {align})")
            }
        };
        let weights = if self.embeds() { "" } else { ", weights" };
        let sizes = if self.exprs.is_dynamic() { ", sizes: Sizes::default()" } else { "" };
        format!("Ok(Model {{ {memory}{weights}, isa: rt::Isa::detect(){sizes} }})")
    }

    /// The function that takes the caller's memory.
    fn with_arena(&self, out: &mut Lines) {
        let extra = if self.embeds() { "" } else { "weights: rt::SharedWeights, " };
        out.line(
            "/// A model in the caller's memory: `ARENA_BYTES` at a multiple of `ARENA_ALIGN`, which are set to zero.",
        );
        out.line("///");
        out.line("/// # Errors");
        out.line("/// When the memory is too small or misaligned.");
        out.open(&format!("pub fn with_arena({extra}memory: &'a mut [u8]) -> Result<Self, rt::Error> {{"));
        out.line(&self.construct("rt::Arena::borrowed(memory, ARENA_BYTES, ARENA_ALIGN)?"));
        out.close("}");
        out.line("");
    }

    /// The functions that take memory themselves, where there is an allocator.
    fn constructors(&self, out: &mut Lines) {
        let (owner, kept) = match self.options.mode {
            Mode::Static => ("impl Model<'static> {", "all of which is taken here"),
            Mode::Eager => ("impl Model {", "of which only that of the states is taken here"),
        };
        let made = self.construct(&format!("rt::Arena::owned({})?", self.places.bound()));
        // An eager model has no meaning without an allocator, so only the others can do without this function.
        let optional = self.embeds() && self.options.mode == Mode::Static;
        if optional {
            out.open("::flightplan::if_alloc! {");
        }
        out.open(owner);
        if self.embeds() {
            out.line(&format!("/// A model in memory of its own, {kept}. States are zero."));
            out.line("///");
            out.line("/// # Errors");
            out.line("/// When the memory cannot be had.");
            out.open("pub fn new() -> Result<Self, rt::Error> {");
        } else {
            open(out);
            out.line("/// A model with weights that others may share, in memory of its own. States are zero.");
            out.line("///");
            out.line("/// # Errors");
            out.line("/// When the memory cannot be had.");
            out.open("pub fn with_weights(weights: rt::SharedWeights) -> Result<Self, rt::Error> {");
        }
        out.line(&made);
        out.close("}");
        out.close("}");
        if optional {
            out.close("}");
        }
        out.line("");
    }

    /// A type that borrows, unless it has no fields.
    pub(crate) fn lifetime(ports: &[Port], name: &str) -> String {
        if ports.is_empty() { name.to_owned() } else { format!("{name}<'_>") }
    }
}

/// The function that maps the weights.
fn open(out: &mut Lines) {
    out.line(
        "/// A model with the weights in a file, which is mapped and compared with `WEIGHT_DIGEST`. States are zero.",
    );
    out.line("///");
    out.line("/// # Errors");
    out.line("/// When the file is not the one that belongs to this code, or memory cannot be had.");
    out.open("pub fn open(path: impl AsRef<::std::path::Path>) -> Result<Self, rt::Error> {");
    out.line("let weights = rt::Weights::open(path.as_ref(), WEIGHT_BYTES, WEIGHT_DIGEST)?;");
    out.line("Model::with_weights(weights.into())");
    out.close("}");
    out.line("");
}

/// What an eager model says of its memory.
fn held(out: &mut Lines) {
    for (doc, signature, body) in [
        (
            "Gives back the outputs of the last run, which are held until the next one otherwise.",
            "release(&mut self)",
            "self.heap.clear();",
        ),
        (
            "Bytes of activations and workspaces that are held: between runs, those of the outputs of the last one. States are \
             not among them.",
            "live_bytes(&self) -> usize",
            "self.heap.account().live_bytes()",
        ),
        (
            "The most of these that the last run held at once.",
            "peak_bytes(&self) -> usize",
            "self.heap.account().peak_bytes()",
        ),
        (
            "The same figures for someone who watches while the model runs.",
            "account(&self) -> rt::Account",
            "self.heap.account().clone()",
        ),
    ] {
        out.line(&format!("/// {doc}"));
        out.open(&format!("pub fn {signature} {{"));
        out.line(body);
        out.close("}");
        out.line("");
    }
}
