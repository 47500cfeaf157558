//! Builds naive plans for tests: every tensor in a buffer of its own.

use plan::*;

pub struct Build {
    pub plan: Plan,
    block: u32,
    weight: u64,
}

pub fn map() -> Primitive<ExprId> {
    prim::Map { code: List::EMPTY }.into()
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
        Build { plan, block: 0, weight: 0 }
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

    fn most(&self, e: ExprId) -> i64 {
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
        let dims: Vec<ExprId> = dims.iter().map(|d| self.number(*d)).collect();
        let v = self.tensor(name, Class::Const, DType::F32, &dims);
        let at = self.weight;
        let bytes = self.buffer_of(v).max_bytes;
        self.buffer_of(v).offset = at;
        self.weight = (at + bytes).next_multiple_of(self.plan.align);
        self.plan.weight_bytes = self.weight;
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

    pub fn act_step(&mut self, name: &str, action: Action) {
        let step = Step { name: name.into(), action, capture: Capture::Safe {} };
        self.plan.blocks[self.block as usize].steps.push(step);
    }

    pub fn workspace(&mut self, bytes: i64) {
        let n = self.number(bytes);
        let buffer = self.buffer("workspace", Class::Work, DType::U8, &[n]);
        if let Some(Step { action: Action::Run { workspace, .. }, .. }) =
            self.plan.blocks[self.block as usize].steps.last_mut()
        {
            *workspace = Some(buffer);
        }
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
