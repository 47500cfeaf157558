//! Builds naive plans for tests: every tensor in a buffer of its own. Plans whose primitives fit their operands can be run.

use plan::*;

#[derive(Clone)]
pub struct Build {
    pub plan: Plan,
    /// What the weights file holds.
    pub weights: Vec<u8>,
    block: u32,
}

pub fn map() -> Primitive<ExprId> {
    prim::Map { code: List::EMPTY }.into()
}

/// An elementwise program that can be run: the sum of `n` operands, and of floats its tangent, so that doing it twice shows.
pub fn mix(dtype: DType, n: usize) -> Primitive<ExprId> {
    let instr = |op, args| prim::MapInstr::new(op, dtype, dtype, args, 0);
    let mut code = List::EMPTY;
    let mut last = 0;
    for i in 1..n {
        code.push(instr(prim::MapOp::Add, [last, i as u8, 0])).unwrap();
        last = (n + code.len() - 1) as u8;
    }
    let op = if dtype.is_float() { prim::MapOp::Tanh } else { prim::MapOp::Neg };
    code.push(instr(op, [last, 0, 0])).unwrap();
    prim::Map { code }.into()
}

/// One elementwise operation.
pub fn unary(op: prim::MapOp, from: DType, to: DType) -> Primitive<ExprId> {
    prim::Map { code: List::of([prim::MapInstr::new(op, from, to, [0; 3], 0)]) }.into()
}

pub fn reduce(axis: u8) -> Primitive<ExprId> {
    prim::Reduce { op: prim::ReduceOp::Sum, axes: Axes::of([axis]) }.into()
}

pub fn softmax(axis: u8) -> Primitive<ExprId> {
    prim::Softmax { kind: prim::SoftmaxKind::Softmax, axis }.into()
}

pub fn top_k(axis: u8) -> Primitive<ExprId> {
    prim::TopK { axis, largest: true, sorted: true }.into()
}

pub fn copy() -> Primitive<ExprId> {
    prim::Copy {}.into()
}

pub fn concat(axis: u8) -> Primitive<ExprId> {
    prim::Concat { axis }.into()
}

pub fn matmul() -> Primitive<ExprId> {
    prim::MatMul { activation: prim::Activation::IDENTITY, b: prim::MatLayout::Plain }.into()
}

pub fn gather() -> Primitive<ExprId> {
    prim::Gather { axis: 0 }.into()
}

impl Build {
    pub fn new(align: u64) -> Build {
        let plan = Plan {
            name: "test".into(),
            producer: String::new(),
            align,
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
        Build { plan, weights: Vec::new(), block: 0 }
    }

    pub fn expr(&mut self, e: Expr) -> ExprId {
        let found = self.plan.exprs.iter().position(|x| *x == e).unwrap_or_else(|| {
            self.plan.exprs.push(e);
            self.plan.exprs.len() - 1
        });
        ExprId(found as u32)
    }

    pub fn number(&mut self, v: i64) -> ExprId {
        self.expr(Expr::Const(v))
    }

    /// A symbol that is axis 0 of input `input`.
    pub fn symbol(&mut self, input: u32, lo: i64, hi: i64) -> ExprId {
        self.any_symbol(SymbolKind::Input { input, axis: 0 }, lo, hi)
    }

    pub fn any_symbol(&mut self, kind: SymbolKind, lo: i64, hi: i64) -> ExprId {
        let id = SymbolId(self.plan.symbols.len() as u32);
        self.plan.symbols.push(Symbol { name: format!("s{}", id.0), kind, lo, hi, step: 1 });
        self.expr(Expr::Symbol(id))
    }

    /// The largest value of an expression.
    pub fn most(&self, e: ExprId) -> i64 {
        evaluate(&self.plan.exprs, e, &|s| Some(self.plan.symbols[s.index()].hi)).unwrap()
    }

    pub fn buffer(&mut self, name: &str, class: Class, dtype: DType, dims: &[ExprId]) -> BufferId {
        let mut bytes = self.number((dtype.bits() / 8) as i64);
        for d in dims {
            bytes = self.expr(Expr::Mul(bytes, *d));
        }
        let max_bytes = self.most(bytes) as u64;
        self.plan.buffers.push(Buffer {
            name: name.into(),
            class,
            bytes,
            max_bytes,
            offset: 0,
            pinned_by: Vec::new(),
            eager: None,
        });
        BufferId(self.plan.buffers.len() as u32 - 1)
    }

    fn in_buffer(&mut self, name: &str, dtype: DType, dims: &[ExprId], buffer: BufferId) -> ValueId {
        let offset = self.number(0);
        let dims = Axes::from_slice(dims).unwrap();
        let place = Place { buffer, offset, strides: None };
        self.plan.values.push(Value { name: name.into(), dtype, dims, place, root: None });
        ValueId(self.plan.values.len() as u32 - 1)
    }

    pub fn tensor(&mut self, name: &str, class: Class, dtype: DType, dims: &[ExprId]) -> ValueId {
        let buffer = self.buffer(name, class, dtype, dims);
        self.in_buffer(name, dtype, dims, buffer)
    }

    /// An activation of so many bytes.
    pub fn bytes(&mut self, name: &str, n: i64) -> ValueId {
        let n = self.number(n);
        self.tensor(name, Class::Act, DType::U8, &[n])
    }

    pub fn act(&mut self, name: &str, dims: &[i64]) -> ValueId {
        let dims: Vec<ExprId> = dims.iter().map(|d| self.number(*d)).collect();
        self.tensor(name, Class::Act, DType::F32, &dims)
    }

    pub fn input(&mut self, name: &str, dtype: DType, dims: &[ExprId]) -> ValueId {
        let v = self.tensor(name, Class::Input, dtype, dims);
        let index = self.plan.inputs.len() as u64;
        self.buffer_of(v).offset = index;
        self.plan.inputs.push(Port { name: name.into(), value: v });
        v
    }

    pub fn input_bytes(&mut self, name: &str, n: i64) -> ValueId {
        let n = self.number(n);
        self.input(name, DType::U8, &[n])
    }

    pub fn weight(&mut self, name: &str, dims: &[i64]) -> ValueId {
        let n = dims.iter().product::<i64>();
        let data: Vec<f32> = (0..n).map(|i| ((i * 7 + n) % 11 - 5) as f32 / 8.0).collect();
        self.constant(name, DType::F32, dims, &data.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
    }

    /// Indices `0, step, 2 step …`, each within `0..below`.
    pub fn indices(&mut self, name: &str, n: i64, step: i64, below: i64) -> ValueId {
        let data = (0..n).flat_map(|i| (i * step % below).to_le_bytes()).collect::<Vec<_>>();
        self.constant(name, DType::I64, &[n], &data)
    }

    pub fn constant(&mut self, name: &str, dtype: DType, dims: &[i64], data: &[u8]) -> ValueId {
        let dims: Vec<ExprId> = dims.iter().map(|d| self.number(*d)).collect();
        let v = self.tensor(name, Class::Const, dtype, &dims);
        assert_eq!(self.buffer_of(v).max_bytes, data.len() as u64);
        self.buffer_of(v).offset = self.weights.len() as u64;
        self.weights.extend(data);
        self.weights.resize(self.weights.len().next_multiple_of(256), 0);
        self.plan.weight_bytes = self.weights.len() as u64;
        self.plan.weight_check = Checksum::of(&self.weights);
        v
    }

    pub fn buffer_of(&mut self, v: ValueId) -> &mut Buffer {
        let b = self.plan.values[v.index()].place.buffer;
        &mut self.plan.buffers[b.index()]
    }

    pub fn view(&mut self, name: &str, of: ValueId, dims: &[i64], offset: i64, strides: Option<&[i64]>) -> ValueId {
        let dims: Vec<ExprId> = dims.iter().map(|d| self.number(*d)).collect();
        let dims = Axes::from_slice(&dims).unwrap();
        let strides = strides.map(|s| Axes::collect(s.iter().map(|d| self.number(*d))).unwrap());
        let offset = self.number(offset);
        let Value { dtype, place, .. } = self.plan.values[of.index()].clone();
        let place = Place { buffer: place.buffer, offset, strides };
        self.plan.values.push(Value { name: name.into(), dtype, dims, place, root: None });
        ValueId(self.plan.values.len() as u32 - 1)
    }

    pub fn step(&mut self, name: &str, prim: Primitive<ExprId>, reads: &[ValueId], writes: &[ValueId]) {
        let some = |l: &[ValueId]| l.iter().map(|v| Some(*v)).collect();
        let (reads, writes) = (some(reads), some(writes));
        self.act_step(name, Action::Run { prim, reads, writes, workspace: None, defines: Vec::new() });
    }

    /// A step with operands left out, and the workspace that its kernel needs.
    pub fn run(&mut self, name: &str, prim: Primitive<ExprId>, reads: &[Option<ValueId>], writes: &[ValueId]) {
        let writes: Vec<Option<ValueId>> = writes.iter().copied().map(Some).collect();
        let meta = |v: &Option<ValueId>| {
            let value = &self.plan.values[(*v)?.index()];
            let dims = Axes::collect(value.dims.iter().map(|d| self.most(*d) as usize)).unwrap();
            Some(kernels::Meta { dtype: value.dtype, dims })
        };
        let list = |l: &[Option<ValueId>]| l.iter().map(meta).collect::<Vec<_>>();
        let largest = prim.map_extents(&mut |e| self.most(e));
        let bytes = kernels::workspace(&largest, &list(reads), &list(&writes)).unwrap();
        let (reads, workspace, defines) = (reads.to_vec(), None, Vec::new());
        self.act_step(name, Action::Run { prim, reads, writes, workspace, defines });
        if bytes > 0 {
            self.workspace(bytes as i64);
        }
    }

    pub fn act_step(&mut self, name: &str, action: Action) {
        let decides = match &action {
            Action::Run { defines, .. } => !defines.is_empty(),
            _ => true,
        };
        let capture = if decides { Capture::Seam { reason: "the host decides".into() } } else { Capture::Safe {} };
        let step = Step { name: name.into(), action, capture };
        self.plan.blocks[self.block as usize].steps.push(step);
    }

    pub fn workspace(&mut self, bytes: i64) {
        let n = self.number(bytes);
        let buffer = self.buffer("workspace", Class::Work, DType::U8, &[n]);
        if let Some(Step { action: Action::Run { workspace, .. }, .. }) = self.last_step() {
            *workspace = Some(buffer);
        }
    }

    /// The step that was added last.
    pub fn last_step(&mut self) -> Option<&mut Step> {
        self.plan.blocks[self.block as usize].steps.last_mut()
    }

    pub fn output(&mut self, v: ValueId) {
        let name = self.plan.values[v.index()].name.clone();
        self.plan.outputs.push(Port { name, value: v });
    }

    /// Begins a block; returns the one before and the new one.
    pub fn enter(&mut self) -> (u32, BlockId) {
        let (outer, id) = (self.block, self.plan.blocks.len() as u32);
        self.plan.blocks.push(Block::default());
        self.block = id;
        (outer, BlockId(id))
    }

    /// Goes on with the block before.
    pub fn leave(&mut self, outer: u32) {
        self.block = outer;
    }

    /// Puts the steps that `f` adds into a block of their own.
    pub fn body(&mut self, f: impl FnOnce(&mut Build)) -> BlockId {
        let (outer, id) = self.enter();
        f(self);
        self.leave(outer);
        id
    }

    pub fn branch(&mut self, cond: ValueId, then: impl FnOnce(&mut Build), other: impl FnOnce(&mut Build)) {
        let then_block = self.body(then);
        let else_block = self.body(other);
        self.act_step("If", Action::If { cond, then_block, else_block });
    }

    pub fn state(&mut self, name: &str, n: i64) -> ValueId {
        let n = self.number(n);
        self.tensor(name, Class::Persist, DType::U8, &[n])
    }

    /// `next` is left in `current`, by a copy at the end.
    pub fn commit(&mut self, current: ValueId, next: ValueId) {
        self.step("Commit", copy(), &[next], &[current]);
        self.plan.states.push(State { input: "in".into(), output: "out".into(), current, next });
    }
}
