//! Steps as calls, in functions of bounded size.

use crate::{
    Error, Mode,
    context::Context,
    layout::{Lines, WIDTH},
    literal::parameters,
    names::{comment, quoted, snake_case},
    operands::{Operands, Shared, buffer},
    places::Spot,
};
use plan::{Action, BlockId, BufferId, ExprId, Plan, Primitive, Step, ValueId, for_each_primitive};
use std::collections::{BTreeMap, BTreeSet};

/// Steps in one function.
const STAGE: usize = 32;
/// Before a statement of a function.
const INDENT: usize = 4;

/// The functions of a plan's blocks, and the constants that they use.
#[derive(Default)]
pub(crate) struct Steps {
    functions: Lines,
    /// Parameters by their text, so that equal ones are one constant.
    parameters: BTreeMap<String, String>,
    parameter_lines: Lines,
    counts: BTreeMap<&'static str, usize>,
    /// Workspaces by their text.
    scratches: BTreeMap<String, usize>,
    /// What steps give back and take, where that is known, and where only the run knows the bytes.
    turns: Shared,
    dynamic_turns: Shared,
    /// Name and kind of each step.
    table: Vec<(String, &'static str)>,
}

macro_rules! type_names {
    ($($name:ident($ty:ty) = $module:ident::$kernel:ident { $($rest:tt)* }),* $(,)?) => {
        /// The type of a primitive's parameters, ready to run.
        fn type_name(prim: &Primitive<ExprId>) -> String {
            let (name, ty) = match prim { $(Primitive::$name(_) => (stringify!($name), stringify!($ty))),* };
            if ty.contains('<') { format!("prim::{name}<i64>") } else { format!("prim::{name}") }
        }
    };
}
for_each_primitive!(type_names);

/// The blocks that a run can reach, the first first.
pub(crate) fn reachable(plan: &Plan) -> Result<Vec<BlockId>, Error> {
    let mut order = Vec::new();
    let mut path = Vec::new();
    visit(plan, BlockId(0), &mut path, &mut order)?;
    order.sort_unstable();
    Ok(order)
}

fn visit(plan: &Plan, id: BlockId, path: &mut Vec<BlockId>, done: &mut Vec<BlockId>) -> Result<(), Error> {
    if path.contains(&id) || path.len() > 64 {
        return Err(Error::Plan(format!("block {} runs itself", id.0)));
    }
    if done.contains(&id) {
        return Ok(());
    }
    let block = plan.blocks.get(id.index()).ok_or_else(|| Error::missing("block", id))?;
    path.push(id);
    for step in &block.steps {
        match &step.action {
            Action::If { then_block, else_block, .. } => {
                visit(plan, *then_block, path, done)?;
                visit(plan, *else_block, path, done)?;
            }
            Action::Loop { body, .. } => visit(plan, *body, path, done)?,
            Action::Run { .. } | Action::Define { .. } => {}
        }
    }
    path.pop();
    done.push(id);
    Ok(())
}

/// The expressions and tensors that a block's steps use.
pub(crate) fn uses(plan: &Plan, block: BlockId, exprs: &mut BTreeSet<ExprId>, values: &mut BTreeSet<ValueId>) {
    let steps = plan.blocks.get(block.index()).map_or(&[][..], |b| &b.steps);
    for step in steps {
        match &step.action {
            Action::Run { prim, reads, writes, .. } => {
                let _ = prim.map_extents(&mut |e| {
                    exprs.insert(e);
                    0i64
                });
                values.extend(reads.iter().chain(writes).flatten());
            }
            Action::If { cond, .. } => {
                values.insert(*cond);
            }
            Action::Loop { trip, cond, max_trips, .. } => {
                values.extend(trip.iter().chain(cond));
                exprs.insert(*max_trips);
            }
            Action::Define { value, .. } => {
                exprs.insert(*value);
            }
        }
    }
}

impl Steps {
    /// Writes the functions of a block.
    pub(crate) fn block(&mut self, c: Context<'_, '_>, operands: &mut Operands, id: BlockId) -> Result<(), Error> {
        let block = c.plan.blocks.get(id.index()).ok_or_else(|| Error::missing("block", id))?;
        let stages: Vec<&[Step]> = block.steps.chunks(STAGE).collect();
        if stages.len() <= 1 {
            return self.stage(c, operands, &format!("block_{}", id.0), (id, 0), &block.steps);
        }
        let mut names = Vec::with_capacity(stages.len());
        for (k, stage) in stages.iter().enumerate() {
            let name = format!("stage_{}_{k}", id.0);
            self.stage(c, operands, &name, (id, k * STAGE), stage)?;
            names.push(name);
        }
        // Of many stages, parts; of many parts, parts again: no function grows with the model.
        for level in 0.. {
            if names.len() <= STAGE {
                break;
            }
            let mut parts = Vec::new();
            for (k, group) in names.chunks(STAGE).enumerate() {
                let name = format!("part_{}_{level}_{k}", id.0);
                self.calls(c, &name, group);
                parts.push(name);
            }
            names = parts;
        }
        self.calls(c, &format!("block_{}", id.0), &names);
        Ok(())
    }

    /// A function that calls others, one after another.
    fn calls(&mut self, c: Context<'_, '_>, name: &str, others: &[String]) {
        self.functions.open(&format!("fn {name}({}) -> Result<(), Fault> {{", c.signature(true, true)));
        for other in others {
            self.functions.line(&format!("{other}({})?;", c.arguments()));
        }
        self.functions.line("Ok(())");
        self.functions.close("}");
        self.functions.line("");
    }

    /// The function of those steps of a block that stand together from `first` on.
    fn stage(
        &mut self,
        c: Context<'_, '_>,
        operands: &mut Operands,
        name: &str,
        (block, first): (BlockId, usize),
        steps: &[Step],
    ) -> Result<(), Error> {
        let mut body = Body::default();
        for (i, step) in (first..).zip(steps) {
            let mut takes = Vec::new();
            let mut gives = Vec::new();
            if let Some(turn) = c.places.turn(block, i) {
                takes = c.takes(&turn.takes)?;
                gives.clone_from(&turn.gives);
            }
            self.step(c, operands, step, &takes, &mut body)?;
            body.spent = gives;
        }
        if !body.spent.is_empty() {
            let gives = list(&std::mem::take(&mut body.spent));
            body.code(format!("f.give(&[{gives}])?;"));
        }
        let signature = c.signature(!body.lines.is_empty(), body.sizes);
        self.functions.open(&format!("fn {name}({signature}) -> Result<(), Fault> {{"));
        for line in &body.lines {
            match line {
                Line::Open(text, name) => {
                    self.functions.commented(text, name);
                    self.functions.indent();
                }
                Line::Turn(text) => self.functions.turn(text),
                Line::Close(text) => self.functions.close(text),
                Line::Code(text, name) => self.functions.commented(text, name),
            }
        }
        self.functions.line("Ok(())");
        self.functions.close("}");
        self.functions.line("");
        Ok(())
    }

    /// One step, which begins by taking `takes`, after what the step before it was the last to use has been given back.
    fn step(
        &mut self,
        c: Context<'_, '_>,
        operands: &mut Operands,
        step: &Step,
        takes: &[String],
        body: &mut Body,
    ) -> Result<(), Error> {
        let index = self.table.len();
        let kind = match &step.action {
            Action::Run { prim, .. } => prim.traits().name,
            Action::If { .. } => "If",
            Action::Loop { .. } => "Loop",
            Action::Define { .. } => "Define",
        };
        self.table.push((step.name.clone(), kind));
        body.comment(&step.name);
        let gives = std::mem::take(&mut body.spent);
        let at = if takes.is_empty() && gives.is_empty() {
            format!("f.at({index})")
        } else {
            format!("f.begin({index}, {})?", self.turn(&gives, takes))
        };
        match &step.action {
            Action::Run { .. } => self.primitive(c, operands, step, &at, body),
            Action::If { cond, then_block, else_block } => {
                let cond = operands.reference(c, *cond)?;
                body.open(format!("if {at}.flag({cond})? {{"));
                body.code(format!("block_{}({})?;", then_block.0, c.arguments()));
                body.lines.push(Line::Turn(String::from("} else {")));
                body.code(format!("block_{}({})?;", else_block.0, c.arguments()));
                body.close();
                Ok(())
            }
            Action::Loop { .. } => {
                if c.places.mode == Mode::Eager {
                    body.code(format!("{at};"));
                }
                repeated(c, operands, step, index, body)
            }
            Action::Define { symbol, value } => {
                body.code(format!("{at};"));
                body.code(format!("sizes.set_{}({})?;", c.exprs.symbol(*symbol), c.exprs.integer(*value)));
                Ok(())
            }
        }
    }

    /// A reference to what a step gives back and takes.
    fn turn(&mut self, gives: &[u32], takes: &[String]) -> String {
        let ty = format!("Turn<{}, {}>", gives.len(), takes.len());
        let text = format!("Turn::new([{}], [{}])", list(gives), takes.join(", "));
        if takes.iter().any(|take| take.contains("sizes")) {
            let i = self.dynamic_turns.add(format!("Result<{ty}, Fault>\nOk({text})"), "");
            return format!("&t{i}(sizes)?");
        }
        format!("&T{}", self.turns.add(format!("{ty} = {text}"), ""))
    }

    /// The call of a primitive; `at` is the frame in that step.
    fn primitive(
        &mut self,
        c: Context<'_, '_>,
        operands: &mut Operands,
        step: &Step,
        at: &str,
        body: &mut Body,
    ) -> Result<(), Error> {
        let Action::Run { prim, reads, writes, workspace, defines } = &step.action else { return Ok(()) };
        let params = self.parameters(c, prim)?;
        let reads = tensors(c, operands, reads)?;
        let writes = tensors(c, operands, writes)?;
        let scratch = match workspace {
            Some(id) => self.scratch(c, *id)?,
            None => String::from("Scratch::NONE"),
        };
        if defines.is_empty() {
            let call = format!("call({params}, {reads}, {writes}, {scratch}, &mut [])?;");
            // Where one line with its comment has no room for both, two have.
            if c.places.mode == Mode::Eager && at.len() + call.len() + body.comment.len() + INDENT + 4 > WIDTH {
                body.code(format!("{at};"));
                body.code(format!("f.{call}"));
            } else {
                body.code(format!("{at}.{call}"));
            }
            return Ok(());
        }
        let names: Vec<String> = (0..defines.len()).map(|i| format!("found_{i}")).collect();
        body.code(format!("let mut found = [0; {}];", defines.len()));
        body.code(format!("{at}.call({params}, {reads}, {writes}, {scratch}, &mut found)?;"));
        body.code(format!("let [{}] = found;", names.join(", ")));
        for (symbol, name) in defines.iter().zip(&names) {
            body.code(format!("sizes.set_{}({name})?;", c.exprs.symbol(*symbol)));
        }
        Ok(())
    }

    /// A reference to a primitive's parameters.
    fn parameters(&mut self, c: Context<'_, '_>, prim: &Primitive<ExprId>) -> Result<String, Error> {
        let text = parameters(prim, c.exprs)?;
        let mut dynamic = false;
        let _ = prim.map_extents(&mut |e| {
            dynamic |= c.exprs.constant(e).is_none();
            0i64
        });
        if dynamic {
            return Ok(format!("&{text}"));
        }
        let kind = prim.traits().name;
        let count = self.counts.entry(kind).or_default();
        let lines = &mut self.parameter_lines;
        let name = self.parameters.entry(format!("{kind} {text}")).or_insert_with(|| {
            let name = format!("{}_{count}", snake_case(kind).to_uppercase());
            *count += 1;
            lines.line(&format!("const {name}: {} = {text};", type_name(prim)));
            name
        });
        Ok(format!("&{name}"))
    }

    /// The constant of a workspace.
    fn scratch(&mut self, c: Context<'_, '_>, id: BufferId) -> Result<String, Error> {
        let bytes = buffer(c.plan, id)?.max_bytes;
        let text = match c.places.spot(c.plan, id)? {
            Spot::Arena(offset) => format!("Scratch::at({offset}, {bytes}).within(ARENA_BYTES)"),
            Spot::Heap(number) => format!("Scratch::held({number})"),
            Spot::Weights(_) | Spot::Input(_) => {
                return Err(Error::Plan(String::from("a workspace lies where nothing is written")));
            }
        };
        let next = self.scratches.len();
        Ok(format!("S{}", self.scratches.entry(text).or_insert(next)))
    }

    /// The constants that the functions use, then the functions.
    pub(crate) fn emit(self, out: &mut Lines) {
        let mut scratches: Vec<_> = self.scratches.into_iter().collect();
        scratches.sort_by_key(|(_, number)| *number);
        for (text, number) in scratches {
            out.line(&format!("const S{number}: Scratch = {text};"));
        }
        for (i, definition, _) in self.turns.each() {
            out.line(&format!("const T{i}: {definition};"));
        }
        for (i, definition, _) in self.dynamic_turns.each() {
            let (ty, body) = definition.split_once('\n').unwrap_or_default();
            out.function(&format!("fn t{i}(sizes: &Sizes) -> {ty}"), body, "");
        }
        out.append(self.parameter_lines);
        out.line("");
        out.line("/// Name and kind of each step, for messages.");
        let entries: Vec<String> =
            self.table.iter().map(|(name, kind)| format!("({}, \"{kind}\")", quoted(name))).collect();
        out.line(&format!("static STEPS: [(&str, &str); {}] = [{}];", entries.len(), entries.join(", ")));
        out.line("");
        out.append(self.functions);
    }

    /// How many steps of each kind there are.
    pub(crate) fn kinds(&self) -> BTreeMap<&'static str, usize> {
        let mut kinds = BTreeMap::new();
        for (_, kind) in &self.table {
            *kinds.entry(*kind).or_insert(0) += 1;
        }
        kinds
    }
}

/// A step that runs a block again and again.
fn repeated(
    c: Context<'_, '_>,
    operands: &mut Operands,
    step: &Step,
    index: usize,
    body: &mut Body,
) -> Result<(), Error> {
    let Action::Loop { trip, cond, counter, body: inner, max_trips } = &step.action else { return Ok(()) };
    let at = format!("f.at({index})");
    let limit = match trip {
        Some(trip) => format!("{at}.integer({})?", operands.reference(c, *trip)?),
        None => String::from("i64::MAX"),
    };
    let counter = c.exprs.symbol(*counter);
    let (done, limit_name, room) = (format!("done_{index}"), format!("limit_{index}"), format!("room_{index}"));
    body.code(format!("let {limit_name} = {limit};"));
    body.code(format!("let {room} = {};", c.exprs.integer(*max_trips)));
    body.code(format!("let mut {done} = 0;"));
    body.open(format!("while {done} < {limit_name} {{"));
    if let Some(cond) = cond {
        body.open(format!("if !{at}.flag({})? {{", operands.reference(c, *cond)?));
        body.code(String::from("break;"));
        body.close();
    }
    body.open(format!("if {done} >= {room} {{"));
    body.code(format!("{at};"));
    body.code(format!("return Err(rt::no_room({done} + 1, {room}));"));
    body.close();
    body.code(format!("sizes.set_{counter}({done})?;"));
    body.code(format!("block_{}({})?;", inner.0, c.arguments()));
    body.code(format!("{done} += 1;"));
    body.close();
    body.code(format!("sizes.set_{counter}({done})?;"));
    Ok(())
}

/// Numbers as the items of a list.
fn list(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// A list of operands.
fn tensors(c: Context<'_, '_>, operands: &mut Operands, list: &[Option<ValueId>]) -> Result<String, Error> {
    let mut items = Vec::with_capacity(list.len());
    for id in list {
        items.push(match id {
            Some(id) => format!("Some({})", operands.reference(c, *id)?),
            None => String::from("None"),
        });
    }
    Ok(format!("[{}]", items.join(", ")))
}

/// The lines of a function, and whether they use the extents.
#[derive(Default)]
struct Body {
    lines: Vec<Line>,
    sizes: bool,
    /// The comment of the next line.
    comment: String,
    /// What the step before was the last to use: given back when the next one begins.
    spent: Vec<u32>,
}

enum Line {
    /// Code and its comment.
    Code(String, String),
    /// Code that opens a block, and its comment.
    Open(String, String),
    Turn(String),
    Close(&'static str),
}

impl Body {
    fn code(&mut self, text: String) {
        self.sizes |= text.contains("sizes");
        let comment = std::mem::take(&mut self.comment);
        self.lines.push(Line::Code(text, comment));
    }

    fn open(&mut self, text: String) {
        self.sizes |= text.contains("sizes");
        let comment = std::mem::take(&mut self.comment);
        self.lines.push(Line::Open(text, comment));
    }

    fn close(&mut self) {
        self.lines.push(Line::Close("}"));
    }

    fn comment(&mut self, name: &str) {
        self.comment = comment(name);
    }
}
