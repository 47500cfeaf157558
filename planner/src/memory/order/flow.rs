//! A block as a graph of steps and the memory that they need.

use super::super::{
    alias::can_fail,
    exprs::Exprs,
    known::found_symbols,
    lives::{Life, lives, touches},
    tree::{Tree, bodies},
};
use plan::{Action, Class, ExprId, Plan, Primitive, Step, SymbolId};
use std::collections::{BTreeMap, BTreeSet};

/// One block.
#[derive(Default)]
pub struct Flow {
    /// The steps that each step waits for, and those that wait for it.
    pub before: Vec<Vec<u32>>,
    pub after: Vec<Vec<u32>>,
    /// Bytes of each buffer that belongs to the block, and whether it is held to the run's end.
    sizes: Vec<u64>,
    held: Vec<bool>,
    /// The steps that touch each buffer.
    users: Vec<Vec<u32>>,
    /// The buffers that each step touches.
    touched: Vec<Vec<u32>>,
    /// Bytes that each step needs only while it runs.
    extra: Vec<u64>,
    /// For each step the pairs of buffers (read, written) of which the second may take the place of the first.
    shares: Vec<Vec<(u32, u32)>>,
}

/// What has been done of a block, and what that leaves in memory.
#[derive(Clone)]
pub struct Progress {
    /// A bit for each step.
    pub done: Vec<u64>,
    /// Bytes live between steps.
    pub live: u64,
}

/// What a step costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Bytes live while it runs.
    pub during: u64,
    /// Bytes live after it.
    pub after: u64,
    /// Bytes it adds while it runs.
    pub adds: u64,
    /// Bytes it gives back.
    pub frees: u64,
}

impl Flow {
    /// Steps of which each makes one tensor of these bytes from those of others; what nobody reads is held.
    #[cfg(test)]
    pub fn of(reads: &[Vec<u32>], sizes: &[u64]) -> Flow {
        let n = reads.len();
        let mut flow = Flow { before: reads.to_vec(), after: vec![Vec::new(); n], ..Flow::default() };
        flow.sizes = sizes.to_vec();
        flow.touched = (0u32..).zip(reads).map(|(i, r)| r.iter().copied().chain([i]).collect()).collect();
        flow.users = (0..n as u32).map(|i| vec![i]).collect();
        for (i, reads) in (0u32..).zip(reads) {
            for r in reads {
                flow.after[*r as usize].push(i);
                flow.users[*r as usize].push(i);
            }
        }
        flow.held = flow.after.iter().map(Vec::is_empty).collect();
        (flow.extra, flow.shares) = (vec![0; n], vec![Vec::new(); n]);
        flow
    }

    /// How many steps there are.
    pub fn len(&self) -> usize {
        self.before.len()
    }

    /// Nothing done.
    pub fn start(&self) -> Progress {
        Progress { done: vec![0; self.len().div_ceil(64)], live: 0 }
    }

    /// What running a step next would cost.
    pub fn cost(&self, p: &Progress, step: u32) -> Cost {
        let (mut adds, mut frees) = (0u64, 0u64);
        let touched = &self.touched[step as usize];
        for b in touched {
            if self.is_born(p, *b) {
                adds += self.sizes[*b as usize];
            }
            if self.dies(p, *b, step) {
                frees += self.sizes[*b as usize];
            }
        }
        // What is written over what is read last need not be there twice.
        let mut saved = 0;
        for (r, w) in &self.shares[step as usize] {
            if self.dies(p, *r, step) && self.is_born(p, *w) {
                saved += self.sizes[*r as usize];
            }
        }
        let adds_while = (adds + self.extra[step as usize]).saturating_sub(saved.min(adds));
        Cost { during: p.live + adds_while, after: (p.live + adds).saturating_sub(frees), adds: adds_while, frees }
    }

    /// Runs a step.
    pub fn run(&self, p: &mut Progress, step: u32) -> Cost {
        let cost = self.cost(p, step);
        p.live = cost.after;
        if let Some(word) = p.done.get_mut(step as usize / 64) {
            *word |= 1 << (step % 64);
        }
        cost
    }

    /// Whether a step has run.
    pub fn is_done(&self, p: &Progress, step: u32) -> bool {
        p.done.get(step as usize / 64).is_some_and(|w| w >> (step % 64) & 1 == 1)
    }

    /// Whether a step has nothing to wait for.
    pub fn is_ready(&self, p: &Progress, step: u32) -> bool {
        self.before[step as usize].iter().all(|b| self.is_done(p, *b))
    }

    /// Whether nothing has touched a buffer yet.
    fn is_born(&self, p: &Progress, buffer: u32) -> bool {
        !self.users[buffer as usize].iter().any(|u| self.is_done(p, *u))
    }

    /// Whether a step is the last to touch a buffer.
    fn dies(&self, p: &Progress, buffer: u32, step: u32) -> bool {
        !self.held[buffer as usize] && self.users[buffer as usize].iter().all(|u| *u == step || self.is_done(p, *u))
    }

    /// The most bytes live in an order.
    pub fn peak(&self, order: &[u32]) -> u64 {
        let mut p = self.start();
        order.iter().map(|s| self.run(&mut p, *s).during).max().unwrap_or(0)
    }

    /// No order can have a lower peak.
    pub fn bound(&self) -> u64 {
        let one = |s: u32| {
            // At best the step is alone with what it touches, written over as far as that goes.
            let i = s as usize;
            let all: u64 = self.touched[i].iter().map(|b| self.sizes[*b as usize]).sum();
            let saved: u64 = self.shares[i].iter().map(|(r, _)| self.sizes[*r as usize]).sum();
            (all + self.extra[i]).saturating_sub(saved)
        };
        (0..self.len() as u32).map(one).max().unwrap_or(0)
    }

    /// The steps that are ready now.
    pub fn ready(&self, p: &Progress) -> Vec<u32> {
        (0..self.len() as u32).filter(|s| !self.is_done(p, *s) && self.is_ready(p, *s)).collect()
    }
}

/// What a step or a body touches: buffers and symbols under one numbering, and whether they are written.
type Touched = BTreeMap<u32, bool>;

struct Reader<'a> {
    plan: &'a Plan,
    exprs: Exprs,
    symbols: BTreeMap<ExprId, Vec<SymbolId>>,
}

impl Reader<'_> {
    fn symbol(&self, s: SymbolId) -> u32 {
        self.plan.buffers.len() as u32 + s.0
    }

    /// The step that can fail, and what must not have been changed before it.
    fn failure(&self) -> u32 {
        (self.plan.buffers.len() + self.plan.symbols.len()) as u32
    }

    fn needs(&mut self, e: ExprId, into: &mut Touched) {
        if !self.exprs.is_found(e) {
            return;
        }
        let (plan, exprs) = (self.plan, &self.exprs);
        let found = self.symbols.entry(e).or_insert_with(|| found_symbols(plan, exprs, e).into_iter().collect());
        for s in found.clone() {
            into.entry(self.symbol(s)).or_insert(false);
        }
    }

    fn step(&mut self, step: &Step, inner: &[Touched]) -> Touched {
        let mut all = Touched::new();
        let mut values = Vec::new();
        let mut persists = false;
        touches(self.plan, step, &mut |t| {
            let class = self.plan.buffers.get(t.buffer.index()).map(|b| b.class);
            if !matches!(class, Some(Class::Const | Class::Input)) {
                *all.entry(t.buffer.0).or_insert(false) |= t.write;
            }
            persists |= t.write && class == Some(Class::Persist);
            values.extend(t.value);
        });
        let mut exprs = Vec::new();
        for v in values {
            let Some(v) = self.plan.values.get(v.index()) else { continue };
            exprs.push(v.place.offset);
            exprs.extend(v.dims.iter().chain(v.place.strides.iter().flat_map(|s| s.iter())));
        }
        let mut defines = Vec::new();
        match &step.action {
            Action::Run { prim, defines: found, .. } => {
                prim.map_extents(&mut |e: ExprId| {
                    exprs.push(e);
                    e
                });
                defines.extend(found);
                if can_fail(prim) {
                    all.entry(self.failure()).or_insert(false);
                }
            }
            Action::Define { symbol, value } => {
                exprs.push(*value);
                defines.push(*symbol);
            }
            Action::Loop { counter, max_trips, .. } => {
                exprs.push(*max_trips);
                defines.push(*counter);
            }
            Action::If { .. } => {}
        }
        for e in exprs {
            self.needs(e, &mut all);
        }
        for s in defines {
            all.insert(self.symbol(s), true);
        }
        if persists {
            all.insert(self.failure(), true);
        }
        for body in bodies(step).into_iter().flatten().filter_map(|b| inner.get(b.index())) {
            for (resource, write) in body {
                *all.entry(*resource).or_insert(false) |= *write;
            }
        }
        all
    }
}

/// The flow of every block.
pub fn flows(plan: &Plan, tree: &Tree) -> Vec<Flow> {
    let lives = lives(plan, tree);
    let mut reader = Reader { plan, exprs: Exprs::new(plan), symbols: BTreeMap::new() };
    let mut flows: Vec<Flow> = plan.blocks.iter().map(|_| Flow::default()).collect();
    let mut inner: Vec<Touched> = vec![Touched::new(); plan.blocks.len()];
    let mut peaks = vec![0u64; plan.blocks.len()];
    for &b in tree.order.iter().rev() {
        let Some(block) = plan.blocks.get(b as usize) else { continue };
        let steps: Vec<Touched> = block.steps.iter().map(|s| reader.step(s, &inner)).collect();
        let flow = flow(plan, b, &steps, &lives, &peaks);
        peaks[b as usize] = flow.peak(&(0..flow.len() as u32).collect::<Vec<_>>());
        flows[b as usize] = flow;
        for step in steps {
            for (resource, write) in step {
                *inner[b as usize].entry(resource).or_insert(false) |= write;
            }
        }
    }
    flows
}

fn flow(plan: &Plan, b: u32, steps: &[Touched], lives: &[Option<Life>], peaks: &[u64]) -> Flow {
    let mut flow = Flow { before: edges(steps), ..Flow::default() };
    flow.after = vec![Vec::new(); steps.len()];
    for (i, before) in flow.before.iter().enumerate() {
        before.iter().for_each(|j| flow.after[*j as usize].push(i as u32));
    }
    let mut local: BTreeMap<u32, u32> = BTreeMap::new();
    let size = |i: u32| plan.buffers.get(i as usize).map_or(0, |b| b.max_bytes.next_multiple_of(plan.align));
    for (i, touched) in steps.iter().enumerate() {
        flow.touched.push(Vec::new());
        flow.extra.push(0);
        for resource in touched.keys() {
            let Some(buffer) = plan.buffers.get(*resource as usize) else { continue };
            let Some(life) = lives.get(*resource as usize).copied().flatten().filter(|l| l.block == b) else {
                continue;
            };
            match buffer.class {
                Class::Work => flow.extra[i] += size(*resource),
                Class::Act => {
                    let id = *local.entry(*resource).or_insert_with(|| {
                        flow.sizes.push(size(*resource));
                        flow.held.push(life.last as usize >= steps.len());
                        flow.users.push(Vec::new());
                        flow.sizes.len() as u32 - 1
                    });
                    flow.users[id as usize].push(i as u32);
                    flow.touched[i].push(id);
                }
                Class::Const | Class::Input | Class::Persist => {}
            }
        }
    }
    let Some(block) = plan.blocks.get(b as usize) else { return flow };
    for (i, step) in block.steps.iter().enumerate() {
        let bodies = bodies(step).into_iter().flatten();
        flow.extra[i] += bodies.filter_map(|c| peaks.get(c.index())).max().copied().unwrap_or(0);
        let shares = shares(plan, step, &local);
        flow.shares.push(shares.into_iter().filter(|(r, w)| fit(&flow, step, *r, *w)).collect());
    }
    flow
}

fn fit(flow: &Flow, step: &Step, read: u32, write: u32) -> bool {
    let (r, w) = (flow.sizes[read as usize], flow.sizes[write as usize]);
    let concat = matches!(&step.action, Action::Run { prim: Primitive::Concat(_), .. });
    r == w || (concat && r < w)
}

/// Pairs of buffers (read, written) that may become one: for each write one read, but all operands of a concatenation.
fn shares(plan: &Plan, step: &Step, local: &BTreeMap<u32, u32>) -> Vec<(u32, u32)> {
    let Action::Run { prim, reads, writes, .. } = &step.action else { return Vec::new() };
    let buffer = |v: Option<&Option<plan::ValueId>>| {
        let v = plan.values.get((*v?)?.index())?;
        local.get(&v.place.buffer.0).copied()
    };
    let times = |b: u32| reads.iter().filter(|v| buffer(Some(v)) == Some(b)).count();
    if matches!(prim, Primitive::Concat(_) | Primitive::Copy(_)) {
        let Some(w) = buffer(writes.first()) else { return Vec::new() };
        let reads: BTreeSet<u32> = reads.iter().filter_map(|v| buffer(Some(v))).collect();
        return reads.into_iter().filter(|r| *r != w).map(|r| (r, w)).collect();
    }
    let mut out: Vec<(u32, u32)> = Vec::new();
    for (i, j) in prim.traits().in_place {
        if let (Some(r), Some(w)) = (buffer(reads.get(*i as usize)), buffer(writes.get(*j as usize)))
            && times(r) == 1
            && r != w
            && !out.iter().any(|(a, b)| *a == r || *b == w)
        {
            out.push((r, w));
        }
    }
    out
}

/// For each step the steps that it waits for: who wrote what it reads, and who touched what it writes.
fn edges(steps: &[Touched]) -> Vec<Vec<u32>> {
    let mut writer: BTreeMap<u32, u32> = BTreeMap::new();
    let mut readers: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut before = Vec::with_capacity(steps.len());
    for (i, touched) in steps.iter().enumerate() {
        let mut waits = Vec::new();
        for (resource, write) in touched {
            waits.extend(writer.get(resource));
            if *write {
                waits.extend(readers.remove(resource).unwrap_or_default());
                writer.insert(*resource, i as u32);
            } else {
                readers.entry(*resource).or_default().push(i as u32);
            }
        }
        waits.sort_unstable();
        waits.dedup();
        waits.retain(|w| *w != i as u32);
        before.push(waits);
    }
    before
}
