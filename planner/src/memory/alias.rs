//! Which buffers become one.
//!
//! A step that may write over what it reads does so where [`Alias::may_take`] permits; a copy whose source ends there is
//! no step at all. `concat` and `states` build on the same ground.

use super::{
    exprs::{Exprs, constant},
    lives::{Life, lives_by},
    pack::Window,
    poly::Poly,
    rules::{Rule, Rules},
    schedule::size,
    take::{Ground, Refused},
    tree::{Timeline, Tree},
    windows::{self, Part},
};
use plan::{Action, BufferId, Class, ExprId, Plan, Primitive, Refusal, Step, Value, ValueId, prim::MapOp};
use std::collections::BTreeMap;

/// One use of a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// The block.
    pub block: u32,
    /// The step.
    pub step: u32,
    /// The tensor.
    pub value: ValueId,
    /// Which operand it is; none: a condition or a number of turns.
    pub operand: Option<usize>,
    /// Whether it is written.
    pub write: bool,
}

/// A plan whose buffers are being merged.
pub struct Alias<'a> {
    /// The plan.
    pub plan: &'a mut Plan,
    /// Its blocks.
    pub tree: &'a Tree,
    /// Its expressions.
    pub exprs: Exprs,
    /// The lives of its buffers.
    pub lives: Vec<Option<Life>>,
    /// The tensors in each buffer.
    pub members: Vec<Vec<ValueId>>,
    /// The uses of each buffer.
    pub uses: Vec<Vec<Use>>,
    /// Steps that others take the place of.
    pub replaced: BTreeMap<(u32, u32), Vec<Step>>,
    /// The parts of buffers that do not need all of their bytes for all of their lives.
    pub parts: Vec<Option<Vec<Part>>>,
    /// What these come to.
    windows: Vec<Option<Vec<Window>>>,
    /// The rules.
    pub rules: Rules,
    timeline: Timeline,
}

/// Merges what can be merged.
pub fn merge(plan: &mut Plan, tree: &Tree) {
    merge_by(plan, tree, Rules::default());
}

/// As [`merge`], by these rules.
pub fn merge_by(plan: &mut Plan, tree: &Tree, rules: Rules) {
    let mut alias = Alias::new(plan, tree, rules);
    super::states::take(&mut alias);
    for &b in &tree.order {
        let steps = alias.plan.blocks.get(b as usize).map_or(0, |x| x.steps.len());
        for i in 0..steps {
            alias.step(b, i as u32);
        }
    }
    alias.finish();
}

impl<'a> Alias<'a> {
    fn new(plan: &'a mut Plan, tree: &'a Tree, rules: Rules) -> Alias<'a> {
        let exprs = Exprs::new(plan);
        let lives = lives_by(plan, tree, rules);
        let timeline = Timeline::new(plan, tree);
        let mut members = vec![Vec::new(); plan.buffers.len()];
        for (i, value) in plan.values.iter().enumerate() {
            members[value.place.buffer.index()].push(ValueId(i as u32));
        }
        let mut uses = vec![Vec::new(); plan.buffers.len()];
        for &b in &tree.order {
            let Some(block) = plan.blocks.get(b as usize) else { continue };
            for (i, step) in block.steps.iter().enumerate() {
                operands(step, &mut |value, operand, write| {
                    let buffer = plan.values.get(value.index()).map(|v| v.place.buffer);
                    if let Some(list) = buffer.and_then(|b| uses.get_mut(b.index())) {
                        list.push(Use { block: b, step: i as u32, value, operand, write });
                    }
                });
            }
        }
        let parts = windows::parts(plan, tree);
        let windows = windows::of_plan(plan, tree, &timeline, &lives);
        Alias { plan, tree, exprs, lives, members, uses, replaced: BTreeMap::new(), parts, windows, rules, timeline }
    }

    /// A tensor.
    pub fn value(&self, v: ValueId) -> Option<&Value> {
        self.plan.values.get(v.index())
    }

    /// The buffer of a tensor.
    pub fn buffer(&self, v: ValueId) -> BufferId {
        self.value(v).map_or(BufferId(u32::MAX), |v| v.place.buffer)
    }

    /// The class of a buffer.
    pub fn class(&self, b: BufferId) -> Option<Class> {
        self.plan.buffers.get(b.index()).map(|b| b.class)
    }

    /// The life of a buffer.
    pub fn life(&self, b: BufferId) -> Option<Life> {
        self.lives.get(b.index()).copied().flatten()
    }

    /// The tensor that a view is a view of.
    pub fn root(&self, v: ValueId) -> ValueId {
        self.value(v).and_then(|x| x.root).unwrap_or(v)
    }

    /// Notes what could not be shared.
    pub fn refuse(&mut self, block: u32, step: u32, value: ValueId, reason: impl Into<String>) {
        let name = self.plan.blocks.get(block as usize).and_then(|b| b.steps.get(step as usize));
        let step = name.map(|s| s.name.clone()).unwrap_or_default();
        self.plan.certificate.refusals.push(Refusal { step, value, reason: reason.into() });
    }

    fn step(&mut self, block: u32, i: u32) {
        let Some(step) = self.plan.blocks.get(block as usize).and_then(|b| b.steps.get(i as usize)) else { return };
        let Action::Run { prim, reads, writes, .. } = &step.action else { return };
        if self.replaced.contains_key(&(block, i)) {
            return;
        }
        let (prim, reads, writes) = (*prim, reads.clone(), writes.clone());
        match (&prim, reads.first().copied().flatten(), writes.first().copied().flatten()) {
            (Primitive::Copy(_), Some(r), Some(w)) => match self.may_write_over(r, w, (block, i), &reads) {
                Ok(()) => {
                    self.join(self.buffer(w), self.buffer(r));
                    self.rename(r, w);
                    self.replaced.insert((block, i), Vec::new());
                }
                Err(why) => self.refuse(block, i, r, format!("the copy stays: {why}")),
            },
            (Primitive::Concat(p), _, Some(w)) => super::concat::place(self, (block, i), p.axis as usize, &reads, w),
            _ => self.write_over(&prim, &reads, &writes, (block, i)),
        }
    }

    /// Lets each write take the first operand that it may.
    fn write_over(
        &mut self,
        prim: &Primitive<ExprId>,
        reads: &[Option<ValueId>],
        writes: &[Option<ValueId>],
        at: (u32, u32),
    ) {
        for (j, w) in writes.iter().enumerate() {
            let Some(w) = *w else { continue };
            let mut refused = Vec::new();
            let permitted = |i: &usize| prim.traits().in_place.contains(&(*i as u8, j as u8));
            for i in (0..reads.len().min(256)).filter(|i| permitted(i) || !self.rules.hold(Rule::KernelPermits)) {
                let Some(r) = reads.get(i).copied().flatten() else { continue };
                match self.may_write_over(r, w, at, reads) {
                    Ok(()) => {
                        self.join(self.buffer(w), self.buffer(r));
                        refused.clear();
                        break;
                    }
                    // Nobody expects a constant to be written over.
                    Err(_) if self.class(self.buffer(r)) == Some(Class::Const) => {}
                    Err(why) => refused.push((r, why)),
                }
            }
            for (r, why) in refused {
                self.refuse(at.0, at.1, r, why);
            }
        }
    }

    /// What decides who may take what.
    pub fn ground(&self) -> Ground<'_> {
        Ground { plan: self.plan, lives: &self.lives, rules: self.rules }
    }

    /// Whether the step at `at` may write `w` where it reads `r`: it may take that memory, reads nothing else there, and what it
    /// writes fits it and is not elsewhere yet.
    pub fn may_write_over(
        &self,
        r: ValueId,
        w: ValueId,
        at: (u32, u32),
        reads: &[Option<ValueId>],
    ) -> Result<(), Refused> {
        let (from, to) = (self.buffer(r), self.buffer(w));
        if from == to {
            return Err("both lie in one buffer already");
        }
        self.ground().of_the_run(from)?;
        self.same_shape(r, w)?;
        let once = reads.iter().flatten().filter(|v| self.buffer(**v) == from).count() == 1;
        self.rules.ask(Rule::ReadOnce, once, "the step reads it more than once")?;
        self.ground().may_take(from, at)?;
        self.rules.ask(Rule::NoStateWritten, self.class(to) == Some(Class::Act), "the result is a state")?;
        if self.rules.hold(Rule::ResultBegins) { self.begins_at(to, at) } else { Ok(()) }
    }

    /// Whether two tensors fill their buffers alike.
    pub fn same_shape(&self, r: ValueId, w: ValueId) -> Result<(), Refused> {
        let (Some(a), Some(b)) = (self.value(r), self.value(w)) else { return Err("it does not exist") };
        let (Some(from), Some(to)) =
            (self.plan.buffers.get(a.place.buffer.index()), self.plan.buffers.get(b.place.buffer.index()))
        else {
            return Err("it does not exist");
        };
        let bits = a.dtype.bits() == b.dtype.bits();
        self.rules.ask(Rule::SameSize, bits, "its elements are of another size")?;
        let extents = a.dims.len() == b.dims.len()
            && a.dims.iter().zip(b.dims.iter()).all(|(x, y)| self.exprs.same(self.plan, *x, *y));
        self.rules.ask(Rule::SameExtents, extents, "its extents are others")?;
        let whole = self.fills(a) && self.fills(b);
        self.rules.ask(Rule::WholeBuffer, whole, "it is a part of a larger tensor, or in another order")?;
        self.rules.ask(Rule::SameSize, from.max_bytes == to.max_bytes, "its buffer is of another size")
    }

    /// Whether a tensor lies contiguously and takes up its whole buffer.
    pub fn fills(&self, v: &Value) -> bool {
        constant(self.plan, v.place.offset) == Some(0)
            && v.place.strides.as_ref().is_none_or(|s| self.row_major(&v.dims, s))
            && self.is_whole(v) == Some(true)
    }

    fn is_whole(&self, v: &Value) -> Option<bool> {
        let buffer = self.plan.buffers.get(v.place.buffer.index())?;
        let of = |e: ExprId| Poly::of(self.plan, &self.exprs, e);
        let mut bits = Poly::number(v.dtype.bits() as i64);
        for d in v.dims.iter() {
            bits = bits.times(&of(*d)?)?;
        }
        Some(bits == of(buffer.bytes)?.times(&Poly::number(8))?)
    }

    /// Whether these strides, all constant, are those of row-major order.
    pub fn row_major(&self, dims: &[ExprId], strides: &[ExprId]) -> bool {
        let mut step = 1i64;
        for (d, s) in dims.iter().zip(strides).rev() {
            let (Some(d), Some(s)) = (constant(self.plan, *d), constant(self.plan, *s)) else { return false };
            if d != 1 {
                if s != step {
                    return false;
                }
                step = step.saturating_mul(d);
            }
        }
        true
    }

    /// Whether nothing touches a buffer before a step. A buffer of an outer block is used on only one way to the step: through
    /// branches, not loops.
    fn begins_at(&self, buffer: BufferId, at: (u32, u32)) -> Result<(), Refused> {
        let life = self.life(buffer).ok_or("the result is not used")?;
        let (mut block, mut step) = at;
        while block != life.block {
            if self.first_use(buffer, block) != Some(step) {
                return Err("the result's memory is in use before");
            }
            let (outer, outer_step) = self.tree.parent(block).ok_or("the result belongs to another block")?;
            let parent = self.plan.blocks.get(outer as usize).and_then(|b| b.steps.get(outer_step as usize));
            if !matches!(parent.map(|s| &s.action), Some(Action::If { .. })) {
                return Err("the result outlives the turn of a loop");
            }
            (block, step) = (outer, outer_step);
        }
        if life.first == step { Ok(()) } else { Err("the result's memory is in use before") }
    }

    fn first_use(&self, buffer: BufferId, block: u32) -> Option<u32> {
        let step = |u: &Use| if u.block == block { Some(u.step) } else { self.tree.step_in(block, u.block) };
        self.uses.get(buffer.index())?.iter().filter_map(step).min()
    }

    /// Puts two buffers together: everything into the one that lives in the outer block.
    pub fn join(&mut self, a: BufferId, b: BufferId) {
        let depth = |s: &Self, x: BufferId| s.life(x).map_or(0, |l| s.tree.depth(l.block));
        let persists = |s: &Self, x: BufferId| s.class(x) == Some(Class::Persist);
        let a_outlives = persists(self, a) || (!persists(self, b) && depth(self, a) < depth(self, b));
        let (from, into) = if a_outlives { (b, a) } else { (a, b) };
        let life = match (self.life(from), self.life(into)) {
            (Some(x), Some(y)) => Some(x.join(y, self.tree)),
            (x, y) => x.or(y),
        };
        if self.parts[from.index()].is_some() || self.parts[into.index()].is_some() {
            let mut parts = self.parts_of(into);
            parts.extend(self.parts_of(from));
            self.set_parts(into, life, parts);
        }
        self.drop_parts(from);
        self.lives[into.index()] = life;
        self.lives[from.index()] = None;
        for v in std::mem::take(&mut self.members[from.index()]) {
            self.plan.values[v.index()].place.buffer = into;
            self.members[into.index()].push(v);
        }
        let uses = std::mem::take(&mut self.uses[from.index()]);
        self.uses[into.index()].extend(uses);
    }

    /// What was written as `r` is now written as (a part of) `w`.
    pub fn rename(&mut self, r: ValueId, w: ValueId) {
        if !self.rules.hold(Rule::Renamed) {
            return;
        }
        let (old, new) = (self.root(r), self.root(w));
        let buffer = self.buffer(w);
        for v in &self.members[buffer.index()] {
            let value = &mut self.plan.values[v.index()];
            if *v != new && (*v == old || value.root == Some(old)) {
                value.root = Some(new);
            }
        }
    }

    /// The most bytes live at once.
    pub fn peak(&self) -> u64 {
        super::schedule::peak(self.plan, &self.lives, &self.timeline, &self.windows).unwrap_or(u64::MAX)
    }

    /// The same if a buffer had another life and these parts, and some others were no more.
    pub fn peak_with(&self, buffer: BufferId, life: Option<Life>, parts: &[Part], gone: &[BufferId]) -> u64 {
        let (mut lives, mut windows) = (self.lives.clone(), self.windows.clone());
        for b in gone {
            (lives[b.index()], windows[b.index()]) = (None, None);
        }
        (lives[buffer.index()], windows[buffer.index()]) = (life, self.windows_for(buffer, life, parts));
        super::schedule::peak(self.plan, &lives, &self.timeline, &windows).unwrap_or(u64::MAX)
    }

    /// The parts of a buffer; one for all of it where it has no others.
    pub fn parts_of(&self, b: BufferId) -> Vec<Part> {
        match (self.parts.get(b.index()), self.life(b), self.plan.buffers.get(b.index())) {
            (Some(Some(parts)), _, _) => parts.clone(),
            (_, Some(life), Some(buffer)) => vec![Part { life, low: 0, high: buffer.max_bytes }],
            _ => Vec::new(),
        }
    }

    /// Gives a buffer parts that fit its life.
    pub fn set_parts(&mut self, b: BufferId, life: Option<Life>, mut parts: Vec<Part>) {
        // Parts in one place are one.
        parts.sort_by_key(|p| (p.low, p.high, p.life.block, p.life.first));
        let mut merged: Vec<Part> = Vec::with_capacity(parts.len());
        for part in parts {
            match merged.last_mut() {
                Some(last) if (last.low, last.high) == (part.low, part.high) => {
                    last.life = last.life.join(part.life, self.tree);
                }
                _ => merged.push(part),
            }
        }
        self.windows[b.index()] = self.windows_for(b, life, &merged);
        self.parts[b.index()] = Some(merged);
    }

    /// Takes its parts from a buffer.
    pub fn drop_parts(&mut self, b: BufferId) {
        (self.parts[b.index()], self.windows[b.index()]) = (None, None);
    }

    fn windows_for(&self, b: BufferId, life: Option<Life>, parts: &[Part]) -> Option<Vec<Window>> {
        let size = size(self.plan, b.index()).ok().filter(|_| self.class(b) == Some(Class::Act))?;
        windows::windows(self.plan, self.tree, &self.timeline, size, life?, parts)
    }

    /// Puts replaced steps in place and drops buffers that hold nothing any more.
    fn finish(self) {
        let Alias { plan, replaced, .. } = self;
        for (b, block) in plan.blocks.iter_mut().enumerate() {
            let steps = std::mem::take(&mut block.steps);
            for (i, step) in steps.into_iter().enumerate() {
                match replaced.get(&(b as u32, i as u32)) {
                    Some(others) => block.steps.extend(others.iter().cloned()),
                    None => block.steps.push(step),
                }
            }
        }
        drop_unused(plan);
    }
}

/// The operands of a step: tensor, number among the reads or writes, whether it is written.
fn operands(step: &Step, f: &mut dyn FnMut(ValueId, Option<usize>, bool)) {
    match &step.action {
        Action::Run { reads, writes, .. } => {
            for (list, write) in [(reads, false), (writes, true)] {
                for (i, v) in list.iter().enumerate() {
                    v.iter().for_each(|v| f(*v, Some(i), write));
                }
            }
        }
        Action::If { cond, .. } => f(*cond, None, false),
        Action::Loop { trip, cond, .. } => trip.iter().chain(cond).for_each(|v| f(*v, None, false)),
        Action::Define { .. } => {}
    }
}

/// Whether the data can make a primitive fail.
pub fn can_fail(prim: &Primitive<ExprId>) -> bool {
    match prim {
        Primitive::Map(map) => {
            map.code.iter().any(|i| matches!(i.op, MapOp::Div | MapOp::Mod | MapOp::Fmod) && i.dtype.is_integer())
        }
        _ => prim.traits().fallible,
    }
}

/// Drops buffers that no tensor lies in and no step works in.
fn drop_unused(plan: &mut Plan) {
    let mut used = vec![false; plan.buffers.len()];
    let mut mark = |b: BufferId| {
        if let Some(u) = used.get_mut(b.index()) {
            *u = true;
        }
    };
    plan.values.iter().for_each(|v| mark(v.place.buffer));
    for step in plan.blocks.iter().flat_map(|b| &b.steps) {
        if let Action::Run { workspace: Some(b), .. } = step.action {
            mark(b);
        }
    }
    let mut next = 0;
    let new: Vec<BufferId> = used
        .iter()
        .map(|u| {
            let id = BufferId(next);
            next += u32::from(*u);
            id
        })
        .collect();
    let mut keep = used.iter();
    plan.buffers.retain(|_| keep.next().copied().unwrap_or(true));
    plan.values.iter_mut().for_each(|v| v.place.buffer = new[v.place.buffer.index()]);
    for step in plan.blocks.iter_mut().flat_map(|b| &mut b.steps) {
        if let Action::Run { workspace: Some(b), .. } = &mut step.action {
            *b = new[b.index()];
        }
    }
}
