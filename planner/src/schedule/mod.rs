//! From the graph to a naive plan: steps in order, each root value in a buffer of its own, views placed in their roots' buffers.
//!
//! Nothing is decided about memory here beyond what is correct: `memory` does that.

mod body;
mod place;
mod weights;

pub use weights::Weights;

use crate::graph::{B, Graph, Problem, Source, V};
use crate::workspace::{Declared, Sizer, Workspaces, compare};
use body::Body;
use place::Where;
use plan::{
    Action, Block, BlockId, Buffer, BufferId, Capture, Certificate, Class, DType, ExprId, Place, Plan, Port, Primitive,
    State, Step, Symbol, Value, ValueId, prim::Copy,
};
use std::collections::BTreeMap;

/// A graph being turned into a plan.
struct Scheduler<'g> {
    graph: &'g mut Graph,
    plan: Plan,
    weights: Weights,
    /// Where each value lies, once it is known.
    places: BTreeMap<V, Where>,
    /// The plan's value for each of the graph's.
    ids: BTreeMap<V, ValueId>,
    align: u64,
    /// Tensors that no machine can hold: all of them are told together.
    huge: Vec<String>,
    sizer: Sizer,
    declared: Vec<Declared>,
}

/// What came of a graph.
pub struct Scheduled {
    /// The naive plan.
    pub plan: Plan,
    /// Its weights.
    pub weights: Weights,
    /// The workspace of its steps, against what was reserved for the graph's nodes.
    pub workspace: Workspaces,
}

/// Larger buffers are refused: no machine has an arena of this size.
const LARGEST: u64 = 1 << 46;

/// The naive plan of a graph, its weights and its workspace.
///
/// # Errors
/// When an extent has no bound, or a kernel does not take its operands.
pub fn schedule(graph: &mut Graph, align: u64) -> Result<Scheduled, Problem> {
    let symbols = graph
        .exprs
        .symbols()
        .iter()
        .map(|s| Symbol { name: s.name.clone(), kind: s.kind.clone(), lo: s.lo, hi: s.hi, step: s.step })
        .collect();
    let plan = Plan {
        name: graph.name.clone(),
        producer: graph.producer.clone(),
        align,
        exprs: Vec::new(),
        symbols,
        guards: graph
            .guards
            .iter()
            .map(|g| plan::Guard { left: g.left, relation: g.relation, right: g.right, what: g.what.clone() })
            .collect(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        states: Vec::new(),
        values: Vec::new(),
        buffers: Vec::new(),
        blocks: Vec::new(),
        arena_bytes: 0,
        weight_bytes: 0,
        weight_digest: String::new(),
        weight_check: 0,
        certificate: Certificate::default(),
    };
    let mut s = Scheduler {
        graph,
        plan,
        weights: Weights::default(),
        places: BTreeMap::new(),
        ids: BTreeMap::new(),
        align,
        huge: Vec::new(),
        sizer: Sizer::default(),
        declared: Vec::new(),
    };
    s.inputs()?;
    let main = s.reserve_block();
    let mut body = Body::default();
    s.block(Graph::MAIN, &mut body)?;
    s.outputs(&mut body)?;
    s.fill_block(main, body);
    if !s.huge.is_empty() {
        return Err(s.too_large());
    }
    s.weights.finish();
    s.plan.weight_bytes = s.weights.len;
    s.plan.weight_digest = s.weights.digest();
    s.plan.weight_check = s.weights.checksum();
    s.plan.exprs = s.graph.exprs.nodes().to_vec();
    let workspace = compare(s.graph, &s.declared);
    Ok(Scheduled { plan: s.plan, weights: s.weights, workspace })
}

impl Scheduler<'_> {
    // ---- ports --------------------------------------------------------------------------------------------------------------

    fn inputs(&mut self) -> Result<(), Problem> {
        let states: Vec<usize> = self.graph.states.iter().map(|s| s.0).collect();
        for (i, port) in self.graph.inputs.clone().into_iter().enumerate() {
            let class = if states.contains(&i) { Class::Persist } else { Class::Input };
            let offset = if class == Class::Input { self.plan.inputs.len() as u64 } else { 0 };
            let buffer = self.buffer(&port.name, class, port.value, offset)?;
            self.places.insert(port.value, Where::whole(port.value, buffer, self.graph));
            let value = self.id(port.value)?;
            if class == Class::Input {
                self.renumber(i as u32, self.plan.inputs.len() as u32);
                self.plan.inputs.push(Port { name: port.name, value });
            }
        }
        Ok(())
    }

    /// Symbols name inputs by their place among the plan's inputs, which leave the states out.
    fn renumber(&mut self, from: u32, to: u32) {
        for (symbol, info) in self.plan.symbols.iter_mut().zip(self.graph.exprs.symbols()) {
            if let plan::SymbolKind::Input { input, axis } = info.kind
                && input == from
            {
                symbol.kind = plan::SymbolKind::Input { input: to, axis };
            }
        }
    }

    fn outputs(&mut self, body: &mut Body) -> Result<(), Problem> {
        let states = self.graph.states.clone();
        for (i, port) in self.graph.outputs.clone().into_iter().enumerate() {
            let fed_back = states.iter().find(|(_, out)| *out == i).map(|(input, _)| *input);
            if fed_back.is_some() {
                continue;
            }
            let value = self.owned(port.value, body)?;
            self.plan.outputs.push(Port { name: port.name, value });
        }
        // The states' own memory is written last, when nothing can fail any more; from places that no such write touches.
        let mut commits = Vec::new();
        for (input, output) in states {
            let (Some(input), Some(output)) =
                (self.graph.inputs.get(input).cloned(), self.graph.outputs.get(output).cloned())
            else {
                continue;
            };
            let (next, current) = (self.owned(output.value, body)?, self.id(input.value)?);
            commits.push((next, current));
            self.plan.states.push(State { input: input.name, output: output.name, current, next });
        }
        for (next, current) in commits {
            body.steps.push(copy_step("state", next, current));
        }
        Ok(())
    }

    /// A value in memory of its own class `Act`, contiguous: itself, or a copy of an input, a constant or a strided view.
    fn owned(&mut self, v: V, body: &mut Body) -> Result<ValueId, Problem> {
        let place = self.place(v, body)?;
        let class = self.plan.buffers.get(place.buffer.index()).map(|b| b.class);
        if class == Some(Class::Act) && place.is_contiguous() { self.id(v) } else { self.copied(v, body) }
    }

    // ---- blocks -------------------------------------------------------------------------------------------------------------

    fn reserve_block(&mut self) -> BlockId {
        let id = BlockId(self.plan.blocks.len() as u32);
        self.plan.blocks.push(Block::default());
        id
    }

    fn fill_block(&mut self, id: BlockId, body: Body) {
        if let Some(block) = self.plan.blocks.get_mut(id.index()) {
            block.steps = body.steps;
        }
    }

    // ---- values -------------------------------------------------------------------------------------------------------------

    /// A buffer that holds a whole value.
    fn buffer(&mut self, name: &str, class: Class, v: V, offset: u64) -> Result<BufferId, Problem> {
        let (dtype, dims) = (self.graph.value(v).dtype, self.graph.value(v).dims.to_vec());
        let bytes = self.bytes_of(dtype, &dims);
        let before = self.huge.len();
        let buffer = self.new_buffer(name, class, bytes, offset)?;
        if let Some(text) = self.huge.get_mut(before) {
            let dims = self.graph.exprs.display_dims(&dims);
            *text = text.replacen(name, &format!("{name} {dtype}{dims}"), 1);
        }
        Ok(buffer)
    }

    /// What is wrong where tensors exceed every machine.
    fn too_large(&mut self) -> Problem {
        const LISTED: usize = 8;
        let mut text = self.huge.iter().take(LISTED).cloned().collect::<Vec<_>>().join("\n  ");
        if self.huge.len() > LISTED {
            text.push_str(&format!("\n  and {} more", self.huge.len() - LISTED));
        }
        let ranges: Vec<String> = self
            .plan
            .symbols
            .iter()
            .filter(|s| s.lo < s.hi)
            .map(|s| format!("{} ({}..={})", s.name, s.lo, s.hi))
            .collect();
        let remedy = match ranges.as_slice() {
            [] => "these are the model's own dims: check them, and the values given to free dims".to_owned(),
            names => format!("give a smaller range to {}", names.join(", ")),
        };
        Problem::new(format!("no machine can hold what the model needs:\n  {text}")).with(remedy)
    }

    fn bytes_of(&mut self, dtype: DType, dims: &[ExprId]) -> ExprId {
        let x = &mut self.graph.exprs;
        let count = x.product(dims.iter().copied());
        match dtype.size() {
            Some(size) => {
                let size = x.int(size as i64);
                x.mul(count, size)
            }
            None => {
                let bits = x.int(dtype.bits() as i64);
                let eight = x.int(8);
                let all = x.mul(count, bits);
                x.ceil_div(all, eight)
            }
        }
    }

    fn new_buffer(&mut self, name: &str, class: Class, bytes: ExprId, offset: u64) -> Result<BufferId, Problem> {
        let max = self.graph.exprs.maximum(bytes).and_then(|m| u64::try_from(m).ok()).filter(|m| *m < LARGEST);
        let max_bytes = max.unwrap_or_else(|| {
            self.huge.push(format!("{name} needs {} bytes, more than 2^46", self.graph.exprs.display(bytes)));
            0
        });
        let id = BufferId(self.plan.buffers.len() as u32);
        self.plan.buffers.push(Buffer {
            name: name.to_owned(),
            class,
            bytes,
            max_bytes,
            offset,
            pinned_by: Vec::new(),
            eager: None,
        });
        Ok(id)
    }

    /// The plan's value for one of the graph's, whose place must be known.
    fn id(&mut self, v: V) -> Result<ValueId, Problem> {
        if let Some(id) = self.ids.get(&v) {
            return Ok(*id);
        }
        let place =
            self.places.get(&v).cloned().ok_or_else(|| Problem::new("a value is used before it has a place"))?;
        // The root may itself be a view of a copy.
        let root = if place.root == v { None } else { Some(self.id(place.root)?) };
        let root = root.map(|r| self.plan.values.get(r.index()).and_then(|root| root.root).unwrap_or(r));
        let value = self.graph.value(v);
        let (name, dtype, dims) = (value.name.clone(), value.dtype, value.dims);
        let strides = match place.is_contiguous() {
            true => None,
            false => Some(place.strides_list()?),
        };
        let id = self.new_plan_value(Value {
            name,
            dtype,
            dims,
            place: Place { buffer: place.buffer, offset: place.offset, strides },
            root,
        });
        self.ids.insert(v, id);
        Ok(id)
    }

    fn new_plan_value(&mut self, value: Value) -> ValueId {
        let id = ValueId(self.plan.values.len() as u32);
        self.plan.values.push(value);
        id
    }

    /// A value that a step of this body writes whole: a buffer of its own.
    fn define(&mut self, v: V) -> Result<ValueId, Problem> {
        let name = self.graph.value(v).name.clone();
        let buffer = self.buffer(&name, Class::Act, v, 0)?;
        self.places.insert(v, Where::whole(v, buffer, self.graph));
        self.id(v)
    }

    /// A contiguous copy of a value, made in this body (once).
    fn copied(&mut self, v: V, body: &mut Body) -> Result<ValueId, Problem> {
        if let Some(id) = body.copies.get(&v) {
            return Ok(*id);
        }
        let from = self.id(v)?;
        let (name, dtype, dims) = {
            let value = self.graph.value(v);
            (value.name.clone(), value.dtype, value.dims)
        };
        let to = self.fresh(&format!("{name} (contiguous)"), dtype, dims)?;
        body.steps.push(copy_step(&name, from, to));
        body.copies.insert(v, to);
        Ok(to)
    }

    /// A value of the plan alone, in a buffer of its own.
    fn fresh(&mut self, name: &str, dtype: DType, dims: plan::Axes<ExprId>) -> Result<ValueId, Problem> {
        let bytes = self.bytes_of(dtype, &dims);
        let buffer = self.new_buffer(name, Class::Act, bytes, 0)?;
        let zero = self.graph.exprs.int(0);
        let place = Place { buffer, offset: zero, strides: None };
        Ok(self.new_plan_value(Value { name: name.to_owned(), dtype, dims, place, root: None }))
    }
}

/// A step that copies.
fn copy_step(name: &str, from: ValueId, to: ValueId) -> Step {
    run_step(name, Primitive::Copy(Copy {}), vec![Some(from)], vec![Some(to)])
}

fn run_step(name: &str, prim: Primitive<ExprId>, reads: Vec<Option<ValueId>>, writes: Vec<Option<ValueId>>) -> Step {
    Step {
        name: name.to_owned(),
        action: Action::Run { prim, reads, writes, workspace: None, defines: Vec::new() },
        capture: Capture::Safe {},
    }
}

/// Blocks are numbered as they are met; a block of the graph is scheduled once.
impl Scheduler<'_> {
    fn sub_block(
        &mut self,
        b: B,
        outer: &Body,
        finish: impl FnOnce(&mut Self, &mut Body) -> Result<(), Problem>,
    ) -> Result<BlockId, Problem> {
        let id = self.reserve_block();
        let mut body = Body { copies: outer.copies.clone(), ..Body::default() };
        self.block(b, &mut body)?;
        finish(self, &mut body)?;
        // Views that look at this body's copies are placed anew where another body needs them.
        for v in body.local.drain(..) {
            self.places.remove(&v);
            self.ids.remove(&v);
        }
        self.fill_block(id, body);
        Ok(id)
    }

    fn is_source(&self, v: V) -> bool {
        matches!(self.graph.value(v).source, Source::Const(_))
    }
}
