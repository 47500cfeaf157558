// Plans made by hand, each of which shows one thing. Shared by the build script and the tests.

use plan::{
    Action, Axes, Block, BlockId, Buffer, BufferId, Capture, Certificate, Class, DType, Expr, ExprId, Guard, List,
    Place, Plan, Port, Primitive, Relation, State, Step, Symbol, SymbolId, SymbolKind, Value, ValueId,
    prim::{self, MapInstr, MapOp},
};
use sha2::Digest;

/// A plan in the making. Buffers are laid one after another.
struct Maker {
    plan: Plan,
    weights: Vec<u8>,
}

/// A plan and its weights.
pub struct Made {
    pub plan: Plan,
    pub weights: Vec<u8>,
}

impl Maker {
    fn new(name: &str) -> Maker {
        let plan = Plan {
            name: name.into(),
            producer: "hand".into(),
            align: 64,
            exprs: Vec::new(),
            symbols: Vec::new(),
            guards: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            states: Vec::new(),
            values: Vec::new(),
            buffers: Vec::new(),
            blocks: vec![Block::default()],
            arena_bytes: 0,
            weight_bytes: 0,
            weight_digest: String::new(),
            weight_check: 0,
            certificate: Certificate::default(),
        };
        Maker { plan, weights: Vec::new() }
    }

    fn expr(&mut self, expr: Expr) -> ExprId {
        self.plan.exprs.push(expr);
        ExprId(self.plan.exprs.len() as u32 - 1)
    }

    fn int(&mut self, value: i64) -> ExprId {
        self.expr(Expr::Const(value))
    }

    fn symbol(&mut self, name: &str, kind: SymbolKind, lo: i64, hi: i64, step: i64) -> (SymbolId, ExprId) {
        self.plan.symbols.push(Symbol { name: name.into(), kind, lo, hi, step });
        let id = SymbolId(self.plan.symbols.len() as u32 - 1);
        (id, self.expr(Expr::Symbol(id)))
    }

    /// The largest value of a product of extents.
    fn largest(&self, dims: &[ExprId]) -> u64 {
        let all = plan::evaluate_all(&self.plan.exprs, |s| self.plan.symbols.get(s.index()).map(|s| s.hi));
        dims.iter().map(|d| all[d.index()].unwrap() as u64).product()
    }

    fn buffer(&mut self, name: &str, class: Class, dtype: DType, dims: &[ExprId]) -> BufferId {
        let bytes = self.largest(dims) * dtype.bits() as u64 / 8;
        let mut exact = self.int(dtype.bits() as i64 / 8);
        for dim in dims {
            exact = self.expr(Expr::Mul(exact, *dim));
        }
        let offset = match class {
            Class::Input => self.plan.inputs.len() as u64,
            Class::Const => self.weights.len() as u64,
            _ => self.plan.arena_bytes,
        };
        if matches!(class, Class::Act | Class::Persist | Class::Work) {
            self.plan.arena_bytes += bytes.next_multiple_of(64);
        }
        self.plan.buffers.push(Buffer {
            name: name.into(),
            class,
            bytes: exact,
            max_bytes: bytes,
            offset,
            pinned_by: Vec::new(),
            eager: None,
        });
        BufferId(self.plan.buffers.len() as u32 - 1)
    }

    fn view(
        &mut self,
        name: &str,
        dtype: DType,
        dims: &[ExprId],
        buffer: BufferId,
        first: i64,
        strides: Option<&[i64]>,
    ) -> ValueId {
        let offset = self.int(first);
        let strides = strides.map(|s| s.iter().map(|v| self.int(*v)).collect::<Vec<_>>());
        self.plan.values.push(Value {
            name: name.into(),
            dtype,
            dims: Axes::from_slice(dims).unwrap(),
            place: Place { buffer, offset, strides: strides.map(|s| Axes::from_slice(&s).unwrap()) },
            root: None,
        });
        ValueId(self.plan.values.len() as u32 - 1)
    }

    fn tensor(&mut self, name: &str, class: Class, dtype: DType, dims: &[ExprId]) -> ValueId {
        let buffer = self.buffer(name, class, dtype, dims);
        self.view(name, dtype, dims, buffer, 0, None)
    }

    fn input(&mut self, name: &str, dtype: DType, dims: &[ExprId]) -> ValueId {
        let value = self.tensor(name, Class::Input, dtype, dims);
        self.plan.inputs.push(Port { name: name.into(), value });
        value
    }

    fn output(&mut self, name: &str, value: ValueId) {
        self.plan.outputs.push(Port { name: name.into(), value });
    }

    fn constant(&mut self, name: &str, data: &[f32]) -> BufferId {
        let dim = self.int(data.len() as i64);
        let buffer = self.buffer(name, Class::Const, DType::F32, &[dim]);
        self.weights.extend(data.iter().flat_map(|v| v.to_le_bytes()));
        self.weights.resize(self.weights.len().next_multiple_of(64), 0);
        buffer
    }

    fn block(&mut self) -> BlockId {
        self.plan.blocks.push(Block::default());
        BlockId(self.plan.blocks.len() as u32 - 1)
    }

    fn step(&mut self, block: BlockId, name: &str, action: Action) {
        self.plan.blocks[block.index()].steps.push(Step { name: name.into(), action, capture: Capture::Safe {} });
    }

    fn run(&mut self, block: BlockId, name: &str, prim: Primitive<ExprId>, reads: &[ValueId], write: ValueId) {
        let reads = reads.iter().map(|r| Some(*r)).collect();
        self.step(
            block,
            name,
            Action::Run { prim, reads, writes: vec![Some(write)], workspace: None, defines: Vec::new() },
        );
    }

    fn finish(mut self) -> Made {
        self.plan.weight_bytes = self.weights.len() as u64;
        self.plan.weight_check = plan::Checksum::of(&self.weights);
        self.plan.weight_digest = sha2::Sha256::digest(&self.weights).iter().map(|b| format!("{b:02x}")).collect();
        Made { plan: self.plan, weights: self.weights }
    }
}

/// A program of one instruction on operands of one type.
fn map(op: MapOp, dtype: DType) -> Primitive<ExprId> {
    let args = if op.arity() == 1 { [0, 0, 0] } else { [0, 1, 0] };
    prim::Map { code: List::of([MapInstr::new(op, dtype, dtype, args, 0)]) }.into()
}

const MAIN: BlockId = BlockId(0);

/// A free dim, an expression of it, a guard, a broadcast constant and a join.
pub fn rows() -> Made {
    let mut m = Maker::new("rows");
    let (_, rows) = m.symbol("rows", SymbolKind::Input { input: 0, axis: 0 }, 2, 8, 2);
    let four = m.int(4);
    let two = m.int(2);
    let twice = m.expr(Expr::Mul(rows, two));
    let x = m.input("x", DType::F32, &[rows, four]);
    let more = m.input("more.data", DType::F32, &[twice, four]);
    let limit = m.int(12);
    m.plan.guards.push(Guard {
        left: twice,
        relation: Relation::LessOrEqual,
        right: limit,
        what: "twice the rows fit the table".into(),
    });
    let scale = m.constant("scale", &[1.0, 2.0, 3.0, 4.0]);
    let scale = m.view("scale", DType::F32, &[rows, four], scale, 0, Some(&[0, 1]));
    let y = m.tensor("y", Class::Act, DType::F32, &[rows, four]);
    m.run(MAIN, "scaled", map(MapOp::Mul, DType::F32), &[x, scale], y);
    let all = m.expr(Expr::Add(rows, twice));
    let z = m.tensor("z", Class::Act, DType::F32, &[all, four]);
    m.run(MAIN, "joined", prim::Concat { axis: 0 }.into(), &[y, more], z);
    m.output("z", z);
    m.finish()
}

/// `If` and `Loop`: `chosen` is `-x` or `x`; `sum` is `x` added up `trip + 1` times.
pub fn control() -> Made {
    let mut m = Maker::new("control");
    let (one, four) = (m.int(1), m.int(4));
    let x = m.input("x", DType::F32, &[four]);
    let flag = m.input("if", DType::Bool, &[one]);
    let trip = m.input("trip", DType::I64, &[one]);
    let chosen = m.tensor("chosen", Class::Act, DType::F32, &[four]);
    let sum = m.tensor("sum", Class::Act, DType::F32, &[four]);
    let (yes, no, body) = (m.block(), m.block(), m.block());
    m.run(yes, "negated", map(MapOp::Neg, DType::F32), &[x], chosen);
    m.run(no, "kept", prim::Copy {}.into(), &[x], chosen);
    m.step(MAIN, "choice", Action::If { cond: flag, then_block: yes, else_block: no });
    m.run(MAIN, "first", prim::Copy {}.into(), &[x], sum);
    let (counter, _) = m.symbol("i", SymbolKind::Run {}, 0, 5, 1);
    let max_trips = m.int(5);
    m.run(body, "added", map(MapOp::Add, DType::F32), &[sum, x], sum);
    m.step(MAIN, "again", Action::Loop { trip: Some(trip), cond: None, counter, body, max_trips });
    m.output("chosen", chosen);
    m.output("sum", sum);
    m.finish()
}

/// A state that is committed by the last step, after one that can fail: `next = total + 1000 / x`.
pub fn total() -> Made {
    let mut m = Maker::new("total");
    let four = m.int(4);
    let x = m.input("x", DType::I32, &[four]);
    let thousand = m.constant("thousand", &[f32::from_bits(1000)]);
    let thousand = m.view("thousand", DType::I32, &[four], thousand, 0, Some(&[0]));
    let current = m.tensor("total", Class::Persist, DType::I32, &[four]);
    let part = m.tensor("part", Class::Act, DType::I32, &[four]);
    let next = m.tensor("next", Class::Act, DType::I32, &[four]);
    m.run(MAIN, "added first", map(MapOp::Add, DType::I32), &[current, current], next);
    m.run(MAIN, "divided", map(MapOp::Div, DType::I32), &[thousand, x], part);
    m.run(MAIN, "added", map(MapOp::Add, DType::I32), &[current, part], next);
    m.run(MAIN, "committed", prim::Copy {}.into(), &[next], current);
    m.output("next", next);
    m.plan.states.push(State { input: "total".into(), output: "next".into(), current, next });
    m.finish()
}

/// An extent that only the data tells: the places of elements that are not zero.
pub fn found() -> Made {
    let mut m = Maker::new("found");
    let (one, six) = (m.int(1), m.int(6));
    let x = m.input("x", DType::F32, &[six]);
    let (count, extent) = m.symbol("count", SymbolKind::Run {}, 0, 6, 1);
    let places = m.tensor("places", Class::Act, DType::I64, &[one, six]);
    let buffer = m.plan.values[places.index()].place.buffer;
    let exact = m.view("exact", DType::I64, &[one, extent], buffer, 0, Some(&[6, 1]));
    m.step(
        MAIN,
        "places",
        Action::Run {
            prim: prim::NonZero {}.into(),
            reads: vec![Some(x)],
            writes: vec![Some(places)],
            workspace: None,
            defines: vec![count],
        },
    );
    let out = m.tensor("out", Class::Act, DType::I64, &[one, extent]);
    m.run(MAIN, "kept", prim::Copy {}.into(), &[exact], out);
    m.output("out", out);
    m.finish()
}

/// Every step divides by an element of its own, and so fails where that is 0: 0, 1 and 4 in the main block, 2 and 3 in a loop's
/// body, 5 or 6 in the branches of an `If`.
pub fn chain() -> Made {
    let mut m = Maker::new("chain");
    let (one, four, seven) = (m.int(1), m.int(4), m.int(7));
    let x = m.input("x", DType::I32, &[four]);
    let by = m.input("by", DType::I32, &[seven]);
    let flag = m.input("flag", DType::Bool, &[one]);
    let trip = m.input("trip", DType::I64, &[one]);
    let divisors = m.plan.values[by.index()].place.buffer;
    let divisor = |m: &mut Maker, k| m.view("divisor", DType::I32, &[four], divisors, k, Some(&[0]));
    let act = |m: &mut Maker, name: &str| m.tensor(name, Class::Act, DType::I32, &[four]);
    let (body, yes, no) = (m.block(), m.block(), m.block());
    let div = |m: &mut Maker, block, k: i64, from, to| {
        let by = divisor(m, k);
        m.run(block, &format!("divided by {k}"), map(MapOp::Div, DType::I32), &[from, by], to);
    };
    let (a, b, c) = (act(&mut m, "a"), act(&mut m, "b"), act(&mut m, "c"));
    div(&mut m, MAIN, 0, x, a);
    div(&mut m, MAIN, 1, x, b);
    // Within the body, a buffer of its own.
    let t = act(&mut m, "t");
    div(&mut m, body, 2, b, t);
    div(&mut m, body, 3, t, b);
    let (counter, _) = m.symbol("i", SymbolKind::Run {}, 0, 9, 1);
    let max_trips = m.int(9);
    m.step(MAIN, "again", Action::Loop { trip: Some(trip), cond: None, counter, body, max_trips });
    m.run(MAIN, "added", map(MapOp::Add, DType::I32), &[a, b], c);
    let d = act(&mut m, "d");
    div(&mut m, MAIN, 4, c, d);
    let y = act(&mut m, "y");
    let u = act(&mut m, "u");
    div(&mut m, yes, 5, d, u);
    m.run(yes, "negated", map(MapOp::Neg, DType::I32), &[u], y);
    div(&mut m, no, 6, d, y);
    m.step(MAIN, "choice", Action::If { cond: flag, then_block: yes, else_block: no });
    m.output("y", y);
    m.output("d", d);
    m.finish()
}

/// Four steps, one after the other, on tensors of 256 bytes.
pub fn relus() -> Made {
    let mut m = Maker::new("relus");
    let n = m.int(64);
    let mut last = m.input("x", DType::F32, &[n]);
    for (step, out) in [("R1", "a"), ("R2", "b"), ("R3", "c"), ("R4", "y")] {
        let next = m.tensor(out, Class::Act, DType::F32, &[n]);
        m.run(MAIN, step, map(MapOp::Neg, DType::F32), &[last], next);
        last = next;
    }
    m.output("y", last);
    m.finish()
}

/// All of them.
pub fn all() -> Vec<Made> {
    vec![rows(), control(), total(), found(), chain()]
}

/// A plan with everything that the planner adds to one: lifetimes, the eager schedule, the certificate. Named `NAME_eager`.
pub fn eager(made: Made, in_place: bool) -> Made {
    let Made { mut plan, weights } = made;
    let options = planner::memory::Options { reorder: false, in_place, ..Default::default() };
    planner::memory::optimise(&mut plan, &options).unwrap();
    plan.name.push_str("_eager");
    Made { plan, weights }
}

/// All of them for the eager executor; nothing is written in place, so that more is held.
pub fn all_eager() -> Vec<Made> {
    all().into_iter().map(|made| eager(made, false)).collect()
}
