//! Random naive plans: whatever the planner makes of them, the checker accepts.

use super::{build::*, run};
use crate::memory::{Options, optimise, pins::Pin};
use plan::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// A small counter-based generator.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n.max(1)
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// A tensor of rank two that steps may read.
#[derive(Clone, Copy)]
struct Known {
    value: ValueId,
    dims: [ExprId; 2],
    contiguous: bool,
    act: bool,
}

struct Gen {
    b: Build,
    rng: Rng,
    pool: Vec<Known>,
    rows: [ExprId; 3],
    columns: [ExprId; 3],
    cond: ValueId,
    stop: ValueId,
    trip: ValueId,
    /// Weights from each number of columns to each.
    products: [[ValueId; 3]; 3],
    /// Indices of one row and of two.
    picks: [ValueId; 2],
}

/// The numbers of columns.
const COLUMNS: [i64; 3] = [4, 5, 8];

/// A random plan, whose steps can be run.
pub fn random(seed: u64) -> Build {
    let mut rng = Rng::new(seed);
    let mut b = Build::new([16, 64, 256][rng.below(3)]);
    let one = b.number(1);
    let n = if rng.chance(60) { b.symbol(0, 1, 1 + rng.below(6) as i64) } else { b.number(3) };
    let rows = [one, n, b.number(2)];
    let columns = COLUMNS.map(|c| b.number(c));
    let x = b.input("x", DType::F32, &[n, columns[0]]);
    let cond = b.input("cond", DType::Bool, &[]);
    let trip = b.input("trip", DType::I64, &[]);
    let stop = b.input("stop", DType::Bool, &[]);
    let pool = vec![Known { value: x, dims: [n, columns[0]], contiguous: true, act: false }];
    let products = COLUMNS.map(|from| COLUMNS.map(|to| b.weight("product", &[from, to])));
    let picks = [1, 2].map(|n| b.indices("pick", n, 0, 1));
    let mut g = Gen { b, rng, pool, rows, columns, cond, stop, trip, products, picks };
    let weight = g.b.weight("w", &[2, 8]);
    g.pool.push(Known { value: weight, dims: [rows[2], columns[2]], contiguous: true, act: false });
    let state = g.rng.chance(40).then(|| {
        let dims = [g.rows[2], g.columns[1]];
        let current = g.b.tensor("state", Class::Persist, DType::F32, &dims);
        g.pool.push(Known { value: current, dims, contiguous: true, act: false });
        (current, dims)
    });
    let steps = 3 + g.rng.below(25);
    for _ in 0..steps {
        g.step(0);
    }
    for _ in 0..1 + g.rng.below(3) {
        let k = g.pick(|k| k.act);
        let out = k.map_or_else(|| g.fresh_copy(), |k| k.value);
        g.b.output(out);
    }
    if let Some((current, dims)) = state {
        let next = g.pick(|k| k.act && k.contiguous && k.dims == dims);
        let next = next.map_or_else(|| g.produce(dims), |k| k.value);
        g.b.commit(current, next);
    }
    g.b
}

impl Gen {
    fn pick(&mut self, fits: impl Fn(&Known) -> bool) -> Option<Known> {
        // Recent ones are wanted more, so that chains grow.
        let fitting: Vec<Known> = self.pool.iter().copied().filter(|k| fits(k)).collect();
        let n = fitting.len();
        let i = self.rng.below(n).max(self.rng.below(n));
        fitting.get(i).copied()
    }

    fn dims(&mut self) -> [ExprId; 2] {
        [self.rows[self.rng.below(3)], self.columns[self.rng.below(3)]]
    }

    fn tensor(&mut self, dims: [ExprId; 2]) -> ValueId {
        let name = format!("t{}", self.b.plan.values.len());
        self.b.tensor(&name, Class::Act, DType::F32, &dims)
    }

    fn know(&mut self, value: ValueId, dims: [ExprId; 2]) {
        self.pool.push(Known { value, dims, contiguous: true, act: true });
    }

    /// Which of the numbers of columns these are.
    fn column(&self, k: &Known) -> Option<usize> {
        self.columns.iter().position(|c| *c == k.dims[1])
    }

    /// A tensor of these extents from anything that has as many rows.
    fn produce(&mut self, dims: [ExprId; 2]) -> ValueId {
        let (columns, rows) = (self.columns, dims[0]);
        let source = loop {
            match self.pick(|k| k.dims[0] == rows && columns.contains(&k.dims[1])) {
                Some(k) => break k,
                None => self.gather(rows),
            }
        };
        let from = self.column(&source).unwrap();
        let to = columns.iter().position(|c| *c == dims[1]).unwrap();
        let out = self.tensor(dims);
        let read = Some(source.value);
        if from == to && source.contiguous && self.rng.chance(60) {
            let prim = match self.rng.below(2) {
                0 => softmax(1),
                _ => prim::Cumulative { product: false, axis: 1, exclusive: false, reverse: false }.into(),
            };
            self.b.run("Line", prim, &[read], &[out]);
            if self.rng.chance(30) {
                let bytes = 1 + self.rng.below(300) as i64;
                self.b.workspace(bytes);
            }
        } else {
            let mut reads = vec![read, Some(self.products[from][to])];
            if let Some(residual) = self.pick(|k| k.dims == dims && k.contiguous)
                && self.rng.chance(40)
            {
                reads.extend([None, Some(residual.value)]);
            }
            self.b.run("Product", matmul(), &reads, &[out]);
        }
        self.know(out, dims);
        out
    }

    /// So many rows of anything: one or two.
    fn gather(&mut self, rows: ExprId) {
        let columns = self.columns;
        let k = self.pick(|k| columns.contains(&k.dims[1])).unwrap_or(self.pool[0]);
        let dims = [rows, k.dims[1]];
        let out = self.tensor(dims);
        let pick = self.picks[usize::from(rows != self.rows[0])];
        self.b.run("Gather", gather(), &[Some(k.value), Some(pick)], &[out]);
        self.know(out, dims);
    }

    fn fresh_copy(&mut self) -> ValueId {
        let k = self.pool[self.rng.below(self.pool.len())];
        let out = self.tensor(k.dims);
        self.b.step("Copy", copy(), &[k.value], &[out]);
        self.know(out, k.dims);
        out
    }

    fn map(&mut self) {
        let Some(k) = self.pick(|_| true) else { return };
        let mut reads = vec![k.value];
        for _ in 0..self.rng.below(3) {
            reads.extend(self.pick(|o| o.dims == k.dims).map(|k| k.value));
        }
        let out = self.tensor(k.dims);
        self.b.step("Map", mix(DType::F32, reads.len()), &reads, &[out]);
        self.know(out, k.dims);
    }

    fn concat(&mut self) {
        let Some(first) = self.pick(|_| true) else { return };
        let axis = self.rng.below(2);
        let mut parts = vec![first];
        for _ in 0..1 + self.rng.below(2) {
            parts.extend(self.pick(|k| k.dims[1 - axis] == first.dims[1 - axis]));
        }
        let mut dims = first.dims;
        for part in &parts[1..] {
            dims[axis] = self.b.expr(Expr::Add(dims[axis], part.dims[axis]));
        }
        let out = self.tensor(dims);
        let reads: Vec<ValueId> = parts.iter().map(|k| k.value).collect();
        self.b.step("Concat", concat(axis as u8), &reads, &[out]);
        self.know(out, dims);
    }

    /// A view of a tensor: its first or last columns, its rows from the last to the first, its second row, or its transposed form.
    fn view(&mut self) {
        let Some(k) = self.pick(|k| k.contiguous) else { return };
        let Value { place, root, .. } = self.b.plan.values[k.value.index()].clone();
        let (one, two, rows) = (self.b.number(1), self.b.number(2), k.dims[0]);
        let ordinary = self.column(&k);
        let (delta, dims, strides) = match (self.rng.below(5), ordinary) {
            (0, Some(_)) => (self.b.number(0), [rows, two], Some([k.dims[1], one])),
            (1, Some(c)) => (self.b.number(COLUMNS[c] - 2), [rows, two], Some([k.dims[1], one])),
            (2, Some(c)) => {
                let last = self.b.expr(Expr::Sub(rows, one));
                let back = self.b.number(-COLUMNS[c]);
                (self.b.expr(Expr::Mul(last, k.dims[1])), k.dims, Some([back, one]))
            }
            (3, Some(_)) if rows == two => (k.dims[1], [one, k.dims[1]], None),
            _ => (self.b.number(0), [k.dims[1], rows], Some([one, k.dims[1]])),
        };
        let offset = self.b.expr(Expr::Add(place.offset, delta));
        let place = Place { buffer: place.buffer, offset, strides: strides.map(Axes::of) };
        // Some say what they are views of, perhaps a view itself, and of others it is found.
        let root = if root.is_some() || self.rng.chance(50) { Some(k.value) } else { None };
        self.b.plan.values.push(Value { name: "view".into(), dtype: DType::F32, dims: Axes::of(dims), place, root });
        let value = ValueId(self.b.plan.values.len() as u32 - 1);
        self.pool.push(Known { value, dims, contiguous: strides.is_none(), act: k.act });
    }

    /// The two largest of each row, and where they are, which nobody may want to know.
    fn largest(&mut self) {
        let columns = self.columns;
        let Some(k) = self.pick(|k| columns.contains(&k.dims[1])) else { return };
        let dims = [k.dims[0], self.b.number(2)];
        let (a, b) = (self.tensor(dims), self.b.tensor("places", Class::Act, DType::I64, &dims));
        self.b.step("TopK", top_k(1), &[k.value], &[a, b]);
        self.know(a, dims);
        if self.rng.chance(40) {
            let out = self.tensor(dims);
            self.b.step("Cast", unary(prim::MapOp::Cast, DType::I64, DType::F32), &[b], &[out]);
            self.know(out, dims);
        }
    }

    /// Sums over the places of what is not zero, as many as there are.
    fn found(&mut self) {
        let Some(k) = self.pick(|_| true) else { return };
        let room = self.b.expr(Expr::Mul(k.dims[0], k.dims[1]));
        let most = self.b.most(room);
        let count = self.b.any_symbol(SymbolKind::Run {}, 0, most);
        let Expr::Symbol(symbol) = self.b.plan.exprs[count.index()] else { return };
        let (one, two) = (self.b.number(1), self.b.number(2));
        let places = self.b.tensor("places", Class::Act, DType::I64, &[two, room]);
        self.b.step("NonZero", prim::NonZero {}.into(), &[k.value], &[places]);
        if let Some(Step { action: Action::Run { defines, .. }, capture, .. }) = self.b.last_step() {
            defines.push(symbol);
            *capture = Capture::Seam { reason: "the data tells an extent".into() };
        }
        let place = Place { strides: Some(Axes::of([room, one])), ..self.b.plan.values[places.index()].place.clone() };
        let dims = Axes::of([two, count]);
        let filled = Value { name: "filled".into(), dtype: DType::I64, dims, place, root: Some(places) };
        self.b.plan.values.push(filled);
        let filled = ValueId(self.b.plan.values.len() as u32 - 1);
        let (floats, sums) = (self.tensor([two, count]), self.tensor([two, one]));
        self.b.step("Cast", unary(prim::MapOp::Cast, DType::I64, DType::F32), &[filled], &[floats]);
        self.b.step("Sum", reduce(1), &[floats], &[sums]);
        self.know(sums, [two, one]);
    }

    /// Steps in a body, which see what is outside.
    fn body(&mut self, depth: usize, end: &mut dyn FnMut(&mut Gen)) -> BlockId {
        let known = self.pool.len();
        let (outer, id) = self.b.enter();
        for _ in 0..self.rng.below(5) {
            self.step(depth + 1);
        }
        end(self);
        self.b.leave(outer);
        self.pool.truncate(known);
        id
    }

    fn branch(&mut self, depth: usize) {
        let dims = self.dims();
        let out = self.tensor(dims);
        let mut write = |g: &mut Gen| {
            let k = g.pick(|k| k.dims == dims);
            let (from, mixed) = match k {
                Some(k) if g.rng.chance(80) => (k.value, g.rng.chance(40)),
                _ => (g.produce(dims), false),
            };
            g.b.step("Write", if mixed { mix(DType::F32, 1) } else { copy() }, &[from], &[out]);
        };
        let then_block = self.body(depth, &mut write);
        let else_block = self.body(depth, &mut write);
        self.b.act_step("If", Action::If { cond: self.cond, then_block, else_block });
        self.know(out, dims);
    }

    /// A loop that carries a tensor and stacks another.
    fn turns(&mut self, depth: usize) {
        let dims = self.dims();
        let start = self.produce(dims);
        let carried = self.tensor(dims);
        self.b.step("Start", copy(), &[start], &[carried]);
        let counter = self.b.any_symbol(SymbolKind::Run {}, 0, 4);
        let Some(Expr::Symbol(symbol)) = self.b.plan.exprs.last().copied() else { return };
        let max_trips = self.b.number(4);
        let row = [self.b.number(1), self.columns[0]];
        let stack = self.tensor([max_trips, row[1]]);
        let offset = self.b.expr(Expr::Mul(counter, row[1]));
        self.b.plan.values[stack.index()].dims = Axes::of([counter, row[1]]);
        let slice = {
            let buffer = self.b.plan.values[stack.index()].place.buffer;
            let place = Place { buffer, offset, strides: None };
            let value = Value { name: "slice".into(), dtype: DType::F32, dims: Axes::of(row), place, root: None };
            self.b.plan.values.push(value);
            ValueId(self.b.plan.values.len() as u32 - 1)
        };
        let cond = self.rng.chance(30).then(|| {
            let go = self.b.tensor("go", Class::Act, DType::Bool, &[]);
            self.b.step("Go", copy(), &[self.cond], &[go]);
            go
        });
        let inside = Known { value: carried, dims, contiguous: true, act: true };
        self.pool.push(inside);
        let body = self.body(depth, &mut |g| {
            let part = g.produce(row);
            g.b.step("Stack", copy(), &[part], &[slice]);
            let next = g.produce(dims);
            g.b.step("Carry", copy(), &[next], &[carried]);
            if let Some(go) = cond {
                g.b.step("Go", copy(), &[g.stop], &[go]);
            }
        });
        self.pool.pop();
        let trip = Some(self.trip);
        self.b.act_step("Loop", Action::Loop { trip, cond, counter: symbol, body, max_trips });
        self.know(carried, dims);
        let read = self.tensor(row);
        self.b.step("Read", reduce(0), &[stack], &[read]);
        self.know(read, row);
    }

    fn step(&mut self, depth: usize) {
        match self.rng.below(100) {
            0..28 => self.map(),
            28..43 => {
                let dims = self.dims();
                self.produce(dims);
            }
            43..58 => self.concat(),
            58..74 => self.view(),
            74..81 => {
                self.fresh_copy();
            }
            81..87 => self.largest(),
            87..89 => self.found(),
            89..95 if depth < 2 => self.branch(depth),
            95..100 if depth < 2 => self.turns(depth),
            _ => self.map(),
        }
    }
}

/// The plan after planning, which the checker must accept.
#[track_caller]
pub fn planned(seed: u64, options: &Options) -> Plan {
    let mut plan = random(seed).plan;
    optimise(&mut plan, options).unwrap();
    match checker::check(&plan, &checker::Points::default()) {
        Ok(report) => assert!(options.pin == Pin::Monotone || report.not_tight.is_empty(), "seed {seed}"),
        Err(rejection) => panic!("seed {seed}: {rejection}\n{}", listing(&plan)),
    }
    plan
}

/// Row L1. The checker accepts whatever the planner makes, and nothing in it is held longer than it must be.
#[test]
fn random_plans_are_accepted() {
    for seed in 0..seeds(250) {
        let plain = planned(seed, &Options { in_place: false, reorder: false, ..Options::default() });
        let merged = planned(seed, &Options { reorder: false, ..Options::default() });
        let ordered = planned(seed, &Options::default());
        assert!(ordered.certificate.lower_bound_bytes <= merged.certificate.lower_bound_bytes);
        let (a, b) = (plain.certificate, merged.certificate);
        assert_eq!(a.naive_bytes, b.naive_bytes);
        assert!(a.lower_bound_bytes >= b.lower_bound_bytes, "seed {seed}: sharing raised the peak");
        assert_eq!(a.lower_bound_bytes, a.eager_peak_bytes, "seed {seed}");
        // The eager executor takes all of a buffer at once; in the arena one that is written in parts grows.
        assert!(b.lower_bound_bytes <= b.eager_peak_bytes && b.lower_bound_bytes <= merged.arena_bytes, "seed {seed}");
    }
}

/// What graphs were run for.
#[derive(Default)]
struct Tally {
    graphs: u64,
    runs: usize,
    failed: usize,
    replays: usize,
}

/// Rows L3, A9 and C3. Naive = eager = static, captured and not, bit for bit, over three runs with changing shapes.
/// `FLIGHTPLAN_SEEDS=100000` makes it a long run.
#[test]
fn random_plans_leave_the_same_bits_everywhere() {
    let (count, next) = (seeds(2000), AtomicU64::new(0));
    let work = || {
        let mut all = Tally::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= count {
                return all;
            }
            same_everywhere(seed, &mut all);
            if (seed + 1) % 10_000 == 0 {
                println!("{} graphs", seed + 1);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let all = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let all = handles.into_iter().map(|h| h.join().unwrap_or_else(|e| std::panic::resume_unwind(e)));
        all.fold(Tally::default(), |a, b| Tally {
            graphs: a.graphs + b.graphs,
            runs: a.runs + b.runs,
            failed: a.failed + b.failed,
            replays: a.replays + b.replays,
        })
    });
    // A violation or a leak is a difference, and ends the test.
    let Tally { graphs, runs, failed, replays } = all;
    println!("{graphs} graphs, {runs} runs, {replays} replays, {failed} failed, 0 violations, 0 leaks");
    assert_eq!((graphs, runs as u64, failed), (count, graphs * 54, 0));
}

fn same_everywhere(seed: u64, all: &mut Tally) {
    let plan = planned(seed, &options(seed));
    let Build { plan: naive, weights, .. } = random(seed);
    // The sizes of the first run come back in the third, so that what it left could be read.
    let runs: Vec<_> = (0..3).map(|r| run::inputs(&plan, seed * 3 + r, seed * 2 + r % 2)).collect();
    assert!(run::like_unplanned(&naive, &plan, &weights, &runs), "seed {seed}: planning changed the bits");
    match run::differential(&plan, &weights, &runs) {
        Ok(done) => {
            all.graphs += 1;
            all.runs += done.runs;
            all.failed += done.failed;
            all.replays += done.replays;
        }
        Err(difference) => panic!("seed {seed}: {difference}\n{}", listing(&plan)),
    }
}

/// Every combination of what the planner may do.
fn options(seed: u64) -> Options {
    let pin = if seed.is_multiple_of(5) { Pin::Monotone } else { Pin::Exact };
    Options { in_place: !seed.is_multiple_of(4), reorder: !seed.is_multiple_of(3), pin, ..Options::default() }
}

/// The steps of a plan, a line each.
pub fn listing(plan: &Plan) -> String {
    let mut out = String::new();
    let point = |e: ExprId| evaluate(&plan.exprs, e, &|s| Some(plan.symbols[s.index()].hi)).unwrap_or(-1);
    let tensor = |v: &Option<ValueId>| {
        let Some(v) = v else { return "-".to_string() };
        let t = &plan.values[v.index()];
        let dims: Vec<i64> = t.dims.iter().map(|e| point(*e)).collect();
        let strides: Option<Vec<i64>> = t.place.strides.as_ref().map(|s| s.iter().map(|e| point(*e)).collect());
        let (b, at, root) = (t.place.buffer.0, point(t.place.offset), t.root.map(|r| r.0));
        format!("{}:{dims:?}@{b}+{at}{strides:?}^{root:?}", v.0)
    };
    for (b, block) in plan.blocks.iter().enumerate() {
        for (i, step) in block.steps.iter().enumerate() {
            let text = match &step.action {
                Action::Run { reads, writes, .. } => {
                    let list = |l: &[Option<ValueId>]| l.iter().map(tensor).collect::<Vec<_>>().join(", ");
                    format!("{} {} -> {}", step.name, list(reads), list(writes))
                }
                other => format!("{other:?}"),
            };
            out += &format!("{b}/{i} {text}\n");
        }
    }
    out
}

/// How many seeds to try: `FLIGHTPLAN_SEEDS`, or as given.
pub fn seeds(usual: u64) -> u64 {
    std::env::var("FLIGHTPLAN_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// A part of a result that a loop carries, and another part that the loop reads after it wrote the first one: different bytes.
#[test]
fn parts_beside_what_a_loop_carries() {
    planned(11078, &options(11078));
}
