//! Random naive plans: whatever the planner makes of them, the checker accepts.

use super::build::*;
use crate::memory::{Options, optimise};
use plan::*;

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
    trip: ValueId,
}

/// A random plan.
pub fn random(seed: u64) -> Build {
    let mut rng = Rng::new(seed);
    let mut b = Build::new([16, 64, 256][rng.below(3)]);
    let one = b.number(1);
    let n = if rng.chance(60) { b.symbol(0, 1, 1 + rng.below(6) as i64) } else { b.number(3) };
    let rows = [one, n, b.number(2)];
    let columns = [b.number(4), b.number(5), b.number(8)];
    let x = b.input("x", DType::F32, &[n, columns[0]]);
    let cond = b.input("cond", DType::Bool, &[]);
    let trip = b.input("trip", DType::I64, &[]);
    let pool = vec![Known { value: x, dims: [n, columns[0]], contiguous: true, act: false }];
    let mut g = Gen { b, rng, pool, rows, columns, cond, trip };
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

    /// A tensor of these extents from anything contiguous.
    fn produce(&mut self, dims: [ExprId; 2]) -> ValueId {
        let (x, y) = (self.pick(|k| k.contiguous), self.pick(|k| k.contiguous));
        let out = self.tensor(dims);
        let reads = [x.map_or(self.pool[0].value, |k| k.value), y.map_or(self.pool[0].value, |k| k.value)];
        self.b.step("Gather", gather(), &reads, &[out]);
        if self.rng.chance(30) {
            let bytes = 1 + self.rng.below(300) as i64;
            self.b.workspace(bytes);
        }
        self.know(out, dims);
        out
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
        self.b.step("Map", map(), &reads, &[out]);
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

    /// The first columns of a tensor, or its transposed form.
    fn view(&mut self) {
        let Some(k) = self.pick(|k| k.contiguous) else { return };
        let place = self.b.plan.values[k.value.index()].place.clone();
        if place.strides.is_some() {
            return;
        }
        let one = self.b.number(1);
        let (dims, strides) = if self.rng.chance(50) || !self.columns.contains(&k.dims[1]) {
            ([k.dims[1], k.dims[0]], [one, k.dims[1]])
        } else {
            ([k.dims[0], self.b.number(2)], [k.dims[1], one])
        };
        let offset = place.offset;
        let place = Place { buffer: place.buffer, offset, strides: Some(Axes::of(strides)) };
        let dims_list = Axes::of(dims);
        self.b.plan.values.push(Value { name: "view".into(), dtype: DType::F32, dims: dims_list, place, root: None });
        let value = ValueId(self.b.plan.values.len() as u32 - 1);
        self.pool.push(Known { value, dims, contiguous: false, act: k.act });
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
            match k {
                Some(k) if g.rng.chance(80) => {
                    let prim = if g.rng.chance(60) { copy() } else { map() };
                    g.b.step("Write", prim, &[k.value], &[out]);
                }
                _ => {
                    let k = g.pool[0].value;
                    g.b.step("Write", gather(), &[k, k], &[out]);
                }
            }
        };
        let then_block = self.body(depth, &mut write);
        let else_block = self.body(depth, &mut write);
        self.b.act_step("If", Action::If { cond: self.cond, then_block, else_block });
        self.know(out, dims);
    }

    /// A loop that carries a tensor and stacks another.
    fn turns(&mut self, depth: usize) {
        let dims = self.dims();
        let carried = self.produce(dims);
        self.pool.pop();
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
        let inside = Known { value: carried, dims, contiguous: true, act: true };
        self.pool.push(inside);
        let body = self.body(depth, &mut |g| {
            let part = g.produce(row);
            g.b.step("Stack", copy(), &[part], &[slice]);
            let next = g.produce(dims);
            g.b.step("Carry", copy(), &[next], &[carried]);
        });
        self.pool.pop();
        let trip = Some(self.trip);
        self.b.act_step("Loop", Action::Loop { trip, cond: None, counter: symbol, body, max_trips });
        self.know(carried, dims);
        let read = self.tensor(row);
        self.b.step("Read", gather(), &[stack, stack], &[read]);
        self.know(read, row);
    }

    fn step(&mut self, depth: usize) {
        match self.rng.below(100) {
            0..30 => self.map(),
            30..45 => {
                let dims = self.dims();
                self.produce(dims);
            }
            45..60 => self.concat(),
            60..75 => self.view(),
            75..83 => {
                self.fresh_copy();
            }
            83..88 => {
                let Some(k) = self.pick(|_| true) else { return };
                let dims = self.dims();
                let (a, b) = (self.tensor(dims), self.tensor(dims));
                let prim = prim::TopK { axis: 0, largest: true, sorted: true };
                self.b.step("TopK", prim.into(), &[k.value], &[a, b]);
                self.know(a, dims);
            }
            88..95 if depth < 2 => self.branch(depth),
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
        Ok(report) => assert_eq!(report.not_tight, [], "seed {seed}"),
        Err(rejection) => panic!("seed {seed}: {rejection}\n{}", listing(&plan)),
    }
    plan
}

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
