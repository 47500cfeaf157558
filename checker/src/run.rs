//! Follows a plan through its blocks, for every point, way and executor.

use crate::{
    Executor, Owner, Points, Reason, Rejection, Report,
    facts::{Facts, root},
    footprint::Footprint,
    points::Point,
    shadow::{Shadow, Tag},
    symbols::{Dependents, Env},
};
use plan::{Action, BlockId, BufferId, Class, ExprId, Plan, State, SymbolId, SymbolKind, ValueId};

/// One way through what only the data decides.
#[derive(Clone, Copy)]
struct Way {
    /// Which branch is taken at first, and whether the other one next time.
    first: bool,
    alternate: bool,
    /// The turns of loops.
    trips: u32,
    /// Where in their ranges the extents lie that steps find: parts of two.
    extent: i64,
    /// A block to be gone through, whatever else is said.
    target: Option<u32>,
}

const WAYS: [Way; 4] = [
    Way { first: true, alternate: false, trips: 1, extent: 2, target: None },
    Way { first: false, alternate: false, trips: 2, extent: 0, target: None },
    Way { first: true, alternate: true, trips: 3, extent: 1, target: None },
    Way { first: false, alternate: true, trips: 0, extent: 2, target: None },
];

/// The turn of a state as the last run left it, and as this one writes it. Turns of blocks are above these.
pub const OLD_STATE: u64 = 0;
pub const NEW_STATE: u64 = 1;

/// Why a run ends early.
pub enum Stop {
    /// The plan is wrong.
    Reject(Rejection),
    /// The data that this way assumes cannot be.
    Abandon,
}

impl From<Rejection> for Stop {
    fn from(r: Rejection) -> Stop {
        Stop::Reject(r)
    }
}

/// Checks every combination; and every block that none of them went through.
pub fn check(plan: &Plan, facts: &Facts, points: &Points) -> Result<Report, Rejection> {
    let dependents = Dependents::new(plan);
    let found = plan.symbols.iter().any(|s| matches!(s.kind, SymbolKind::Run {}));
    let ways = if facts.control || found { &WAYS[..] } else { &WAYS[..1] };
    let (mut report, all) = (Report::default(), points.of(plan)?);
    let mut visited = vec![false; plan.blocks.len()];
    let mut go = |point: &Point, way: Way, visited: &mut Vec<bool>| {
        for executor in [Executor::Static, Executor::Eager] {
            let mut sim = Sim::new(plan, facts, points, &dependents, way, executor);
            sim.steps = report.steps;
            sim.runs(point, &mut report)?;
            report.steps = sim.steps;
            sim.visited.iter().zip(visited.iter_mut()).for_each(|(now, ever)| *ever |= now);
        }
        Ok::<(), Rejection>(())
    };
    for point in &all {
        ways.iter().try_for_each(|way| go(point, *way, &mut visited))?;
    }
    for block in facts.order.iter().copied() {
        for point in &all {
            if visited.get(block as usize).copied().unwrap_or(true) {
                break;
            }
            let way = Way { first: true, alternate: false, trips: 1, extent: 2, target: Some(block) };
            go(point, way, &mut visited)?;
        }
    }
    report.points = all.len();
    report.not_tight = facts.loose(plan);
    Ok(report)
}

/// The state of one execution.
pub struct Sim<'a> {
    pub plan: &'a Plan,
    pub facts: &'a Facts,
    points: &'a Points,
    dependents: &'a Dependents,
    way: Way,
    pub executor: Executor,
    pub env: Env<'a>,
    pub shadow: Shadow,
    /// Where each buffer lies, if it does.
    pub bases: Vec<Option<u64>>,
    next_base: u64,
    /// The turn in which each block is, and the last one given out.
    turns: Vec<u64>,
    last_turn: u64,
    /// Bytes that a loop carries: the body that wrote them last, and in which turn of it.
    carried: Shadow,
    /// Some extent was assumed that only the data can tell.
    pub assumed: bool,
    /// A state has been written in this run.
    pub committed: bool,
    branches: u32,
    /// Blocks that were gone through.
    visited: Vec<bool>,
    steps: u64,
    here: (BlockId, u32),
}

impl<'a> Sim<'a> {
    fn new(
        plan: &'a Plan,
        facts: &'a Facts,
        points: &'a Points,
        dependents: &'a Dependents,
        way: Way,
        executor: Executor,
    ) -> Self {
        let n = plan.buffers.len();
        let mut sim = Sim {
            plan,
            facts,
            points,
            dependents,
            way,
            executor,
            env: Env::new(plan, dependents, &[]),
            shadow: Shadow::default(),
            bases: vec![None; n],
            next_base: plan.align,
            turns: vec![0; plan.blocks.len()],
            last_turn: NEW_STATE,
            carried: Shadow::default(),
            assumed: false,
            committed: false,
            branches: 0,
            visited: vec![false; plan.blocks.len()],
            steps: 0,
            here: (BlockId(0), 0),
        };
        for (i, buffer) in plan.buffers.iter().enumerate() {
            let base = match (buffer.class, executor) {
                (Class::Const | Class::Input, _) => Some(0),
                (_, Executor::Static) => Some(buffer.offset),
                (Class::Persist, Executor::Eager) => sim.fresh(buffer.max_bytes),
                (Class::Act | Class::Work, Executor::Eager) => None,
            };
            sim.bases.get_mut(i).into_iter().for_each(|b| *b = base);
        }
        sim
    }

    /// An address that was never used.
    fn fresh(&mut self, bytes: u64) -> Option<u64> {
        let base = self.next_base;
        let room = bytes.checked_next_multiple_of(self.plan.align)?.checked_add(self.plan.align)?;
        self.next_base = base.checked_add(room).filter(|b| *b < 1 << 61)?;
        Some(base)
    }

    /// As many runs as show what one leaves to the next.
    fn runs(&mut self, point: &Point, report: &mut Report) -> Result<(), Rejection> {
        let runs = if self.plan.states.is_empty() { 1 } else { 2 };
        for _ in 0..runs {
            report.runs += 1;
            match self.run(point) {
                Ok(()) => {}
                Err(Stop::Abandon) => {
                    report.abandoned += 1;
                    break;
                }
                Err(Stop::Reject(r)) => return Err(r.within(self.plan, Some(self.here), Some(self.executor))),
            }
        }
        Ok(())
    }

    fn run(&mut self, point: &Point) -> Result<(), Stop> {
        self.env = Env::new(self.plan, self.dependents, point);
        (self.assumed, self.committed) = (false, false);
        let end = self.plan.blocks.first().map_or(0, |b| b.steps.len()) as u32;
        self.here = (BlockId(0), end);
        for state in &self.plan.states {
            let place = self.place(state.current)?;
            let tag = Tag { owner: state.current.0, turn: OLD_STATE };
            self.fill(&place.footprint, Some(tag))?;
        }
        self.block(BlockId(0))?;
        self.here = (BlockId(0), end);
        for port in &self.plan.outputs {
            self.read(port.value)?;
        }
        for state in &self.plan.states {
            self.settled(state)?;
        }
        // Outputs are given back when the caller has seen them.
        for (i, buffer) in self.plan.buffers.iter().enumerate() {
            if self.executor == Executor::Eager && matches!(buffer.class, Class::Act | Class::Work) {
                let held = self.bases.get_mut(i).and_then(Option::take);
                if held.is_some() && !self.facts.holds_output.get(i).copied().unwrap_or(false) {
                    let what = format!("buffer {i} `{}` is never given back", buffer.name);
                    return Err(Rejection::new(Reason::Leak, what).into());
                }
            }
        }
        Ok(())
    }

    /// Whether a run left a state's next value where the next run finds it.
    fn settled(&mut self, state: &State) -> Result<(), Stop> {
        let place = self.place(state.current)?.footprint;
        let (current, next) = (state.current.0, root(self.plan, state.next));
        let kept = next == state.current;
        let in_place = self.place(state.next).is_ok_and(|n| n.footprint == place);
        let new = self.tag_written(next);
        let mut bad = None;
        self.shadow.any(place.start, place.end, &mut |from, to, tag| {
            let good = tag.is_some_and(|t| {
                (t.owner == current && (t.turn == NEW_STATE || kept && t.turn == OLD_STATE)) || (in_place && t == new)
            });
            if !good {
                bad = Some((from, to, tag));
            }
            !good
        });
        let Some((from, to, tag)) = bad else { return Ok(()) };
        let found = self.owner_of(tag);
        let what = format!("the run does not leave `{}` in the state `{}`", state.output, state.input);
        Err(Rejection::new(Reason::State, what).of(state.next).at(from, to).owners(Owner::Value(next), found).into())
    }

    fn block(&mut self, block: BlockId) -> Result<(), Stop> {
        let b = block.index();
        self.last_turn += 1;
        if let Some(turn) = self.turns.get_mut(b) {
            *turn = self.last_turn;
        }
        self.visited.get_mut(b).into_iter().for_each(|v| *v = true);
        let (plan, facts) = (self.plan, self.facts);
        let Some(steps) = plan.blocks.get(b).map(|b| &b.steps) else { return Ok(()) };
        for (i, step) in steps.iter().enumerate() {
            self.here = (block, i as u32);
            self.work(1)?;
            let at = |lists: &'a [Vec<Vec<BufferId>>]| lists.get(b).and_then(|l| l.get(i)).map_or(&[][..], |l| l);
            at(&facts.takes).iter().try_for_each(|t| self.take(*t))?;
            match &step.action {
                Action::Run { prim, reads, writes, workspace, defines } => {
                    self.primitive(prim, reads, writes, *workspace, defines)?;
                }
                Action::If { cond, then_block, else_block } => {
                    self.read(*cond)?;
                    let flip = self.way.alternate && self.branches % 2 == 1;
                    self.branches += 1;
                    let first = self.leads(*then_block) || (!self.leads(*else_block) && self.way.first != flip);
                    self.block(if first { *then_block } else { *else_block })?;
                }
                Action::Loop { trip, cond, counter, body, max_trips } => {
                    self.turn(*trip, *cond, *counter, *body, *max_trips)?;
                }
                Action::Define { symbol, value } => {
                    let value = self.eval(*value)?;
                    self.define(*symbol, value)?;
                }
            }
            self.here = (block, i as u32);
            at(&facts.gives).iter().try_for_each(|g| self.give(*g))?;
        }
        Ok(())
    }

    /// Whether a block is on the way to the one that is wanted.
    fn leads(&self, block: BlockId) -> bool {
        self.way.target.is_some_and(|target| self.facts.within(target, block.0))
    }

    /// Runs a loop.
    fn turn(
        &mut self,
        trip: Option<ValueId>,
        cond: Option<ValueId>,
        counter: SymbolId,
        body: BlockId,
        max: ExprId,
    ) -> Result<(), Stop> {
        let here = self.here;
        if let Some(trip) = trip {
            self.read(trip)?;
        }
        let max = self.eval(max)?.max(0);
        let fixed = match (cond, trip) {
            (None, None) => Some(max),
            (None, Some(trip)) => self.fixed_trips(trip, max),
            _ => None,
        };
        let most = self.way.trips.max(u32::from(self.leads(body))).min(self.points.max_trips);
        let trips = fixed.unwrap_or_else(|| i64::from(most).min(max));
        for k in 0..trips {
            if let Some(cond) = cond {
                self.read(cond)?;
            }
            self.set(counter, k)?;
            self.block(body)?;
            self.here = here;
        }
        if let Some(cond) = cond {
            self.read(cond)?;
        }
        self.set(counter, trips)
    }

    /// The turns of a loop whose number is no matter of data: a constant, or extents written out by a step.
    fn fixed_trips(&mut self, trip: ValueId, max: i64) -> Option<i64> {
        let trip = root(self.plan, trip);
        let buffer = self.plan.values.get(trip.index())?.place.buffer;
        if self.plan.buffers.get(buffer.index())?.class == Class::Const {
            return Some(max);
        }
        let written = self.facts.literals.get(&trip).copied()?;
        Some(self.env.get(written)?.clamp(0, max))
    }

    /// Counts work done.
    pub fn work(&mut self, steps: u64) -> Result<(), Stop> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps <= self.points.max_steps {
            return Ok(());
        }
        Err(Rejection::new(Reason::TooLarge, "the plan takes too many steps to be checked").into())
    }

    /// The value of an expression. Where it has none because of an assumed extent, the way cannot be gone.
    pub fn eval(&self, e: ExprId) -> Result<i64, Stop> {
        match self.env.value(e) {
            Err(_) if self.assumed => Err(Stop::Abandon),
            other => Ok(other?),
        }
    }

    fn set(&mut self, symbol: SymbolId, value: i64) -> Result<(), Stop> {
        let changed = self.env.set(symbol, value);
        self.work(changed as u64 / 32)
    }

    /// Gives a symbol a value that must be in its range.
    pub fn define(&mut self, symbol: SymbolId, value: i64) -> Result<(), Stop> {
        if let Some(s) = self.plan.symbols.get(symbol.index())
            && (value < s.lo || value > s.hi)
        {
            if self.assumed {
                return Err(Stop::Abandon);
            }
            let what = format!("`{}` becomes {value}, outside {}..={}", s.name, s.lo, s.hi);
            return Err(Rejection::new(Reason::SymbolRange, what).into());
        }
        self.set(symbol, value)
    }

    /// A value for an extent that a step finds, at most `limit`.
    pub fn assume(&mut self, symbol: SymbolId, limit: Option<i64>) -> Result<(), Stop> {
        let Some(s) = self.plan.symbols.get(symbol.index()) else { return Ok(()) };
        let hi = limit.unwrap_or(s.hi).min(s.hi).max(0);
        let lo = s.lo.min(hi);
        let value = i128::from(lo) + (i128::from(hi) - i128::from(lo)) * i128::from(self.way.extent) / 2;
        self.assumed = true;
        self.set(symbol, i64::try_from(value).unwrap_or(lo))
    }

    fn take(&mut self, buffer: BufferId) -> Result<(), Stop> {
        let Some(b) = self.plan.buffers.get(buffer.index()) else { return Ok(()) };
        if self.executor == Executor::Static {
            return Ok(());
        }
        self.capacity(buffer)?;
        if self.bases.get(buffer.index()).copied().flatten().is_some() {
            let what = format!("buffer {} `{}` is taken while it is held", buffer.0, b.name);
            return Err(Rejection::new(Reason::TakenTwice, what).into());
        }
        // Addresses for the maximum, so that ranges never meet; tensors are held to the bytes of now.
        let base = self.fresh(b.max_bytes).ok_or_else(|| Rejection::new(Reason::TooLarge, "addresses are used up"))?;
        self.bases.get_mut(buffer.index()).into_iter().for_each(|b| *b = Some(base));
        Ok(())
    }

    fn give(&mut self, buffer: BufferId) -> Result<(), Stop> {
        let i = buffer.index();
        if self.executor == Executor::Static {
            return Ok(());
        }
        let Some(base) = self.bases.get_mut(i).and_then(Option::take) else {
            let what = format!("buffer {} is given back but not held", buffer.0);
            return Err(Rejection::new(Reason::FreedTwice, what).into());
        };
        let bytes = self.plan.buffers.get(i).map_or(0, |b| b.max_bytes);
        self.shadow.set(base, base.saturating_add(bytes), None);
        Ok(())
    }

    /// The bytes of a buffer now, which must not be more than its maximum.
    pub fn capacity(&self, buffer: BufferId) -> Result<u64, Stop> {
        let Some(b) = self.plan.buffers.get(buffer.index()) else { return Ok(0) };
        let bytes = u64::try_from(self.eval(b.bytes)?).unwrap_or(u64::MAX);
        if bytes > b.max_bytes {
            let what = format!("buffer {} `{}` needs {bytes} bytes, its maximum is {}", buffer.0, b.name, b.max_bytes);
            return Err(Rejection::new(Reason::Capacity, what).into());
        }
        Ok(bytes)
    }

    /// The tag of bytes that the current turn writes as a tensor.
    pub fn tag_written(&self, root: ValueId) -> Tag {
        let turn = if self.is_state(root) { NEW_STATE } else { self.turn_of(root) };
        Tag { owner: root.0, turn }
    }

    /// The tag that bytes must have to be read as a tensor.
    pub fn tag_read(&self, root: ValueId) -> Tag {
        let turn = if self.is_state(root) { OLD_STATE } else { self.turn_of(root) };
        Tag { owner: root.0, turn }
    }

    fn turn_of(&self, root: ValueId) -> u64 {
        let scope = self.facts.scopes.get(root.index()).copied().unwrap_or(0);
        self.turns.get(scope as usize).copied().unwrap_or(0)
    }

    fn is_state(&self, root: ValueId) -> bool {
        self.facts.is_state.get(root.index()).copied().unwrap_or(false)
    }

    /// Tags the bytes of a footprint.
    pub fn fill(&mut self, f: &Footprint, tag: Option<Tag>) -> Result<(), Stop> {
        self.work(f.pieces() / 8)?;
        let (shadow, run) = (&mut self.shadow, f.run);
        f.for_each_piece(&mut |at| shadow.set(at, at + run, tag));
        Ok(())
    }

    /// The body of a loop that the current block lies in, within the block that a tensor belongs to: there the tensor is carried
    /// from turn to turn, and may be written again.
    pub fn carrier(&self, root: ValueId) -> Option<u32> {
        let scope = self.facts.scopes.get(root.index()).copied().unwrap_or(0);
        self.facts.repeats(self.here.0.0, scope)
    }

    /// Notes which bytes a turn of a loop has written for the next one.
    pub fn carry(&mut self, f: &Footprint, root: ValueId) {
        let tag = self.carrier(root).and_then(|b| Some(Tag { owner: b, turn: *self.turns.get(b as usize)? }));
        if tag.is_some() || !self.carried.is_empty() {
            let (carried, run) = (&mut self.carried, f.run);
            f.for_each_piece(&mut |at| carried.set(at, at + run, tag));
        }
    }

    /// Bytes of a footprint that the current turn of a loop has overwritten for the next one.
    pub fn overwritten(&self, f: &Footprint) -> Option<(u64, u64)> {
        let mut found = None;
        self.carried.any(f.start, f.end, &mut |from, to, tag| {
            let now = tag.is_some_and(|t| {
                self.turns.get(t.owner as usize) == Some(&t.turn) && self.facts.within(self.here.0.0, t.owner)
            });
            if now && f.meets(from, to) {
                found = Some((from, to));
            }
            found.is_some()
        });
        found
    }

    /// Who owns bytes with this tag.
    pub fn owner_of(&self, tag: Option<Tag>) -> Owner {
        match tag {
            None => Owner::Nobody,
            Some(t) if t.owner == crate::shadow::WORKSPACE => Owner::Workspace,
            Some(t) => {
                let v = ValueId(t.owner);
                let now = t == self.tag_written(v) || t == self.tag_read(v);
                if now { Owner::Value(v) } else { Owner::Old(v) }
            }
        }
    }
}
