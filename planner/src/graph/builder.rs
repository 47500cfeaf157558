//! Building a graph: the calls that lower an operator are composed of.
//!
//! Every call computes types and dims, checks its operands, and does at once what can be done while planning: known integers are
//! computed as expressions, constants by running the kernel.

use super::*;
use plan::{Filler, prim::*};

/// Why a node cannot be lowered. The caller adds which node it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

impl Problem {
    /// A problem without a particular remedy.
    pub fn new(what: impl Into<String>) -> Problem {
        Problem { what: what.into(), remedy: None }
    }

    /// Adds what to do.
    pub fn with(mut self, remedy: impl Into<String>) -> Problem {
        self.remedy = Some(remedy.into());
        self
    }
}

/// A graph under construction, and where in it new nodes go.
pub struct Builder {
    /// The graph so far.
    pub graph: Graph,
    /// The block that receives nodes.
    pub block: B,
    /// The name that new nodes and values get.
    pub origin: String,
    /// Things that a user should know.
    pub warnings: Vec<String>,
    pub(super) isa: kernels::Isa,
}

/// What a step of lowering gives.
pub type Result<T, E = Problem> = std::result::Result<T, E>;

impl Builder {
    /// A builder on an empty graph.
    pub fn new(name: impl Into<String>) -> Builder {
        let graph = Graph { name: name.into(), blocks: vec![Block::default()], ..Graph::default() };
        Builder { graph, block: Graph::MAIN, origin: String::new(), warnings: Vec::new(), isa: kernels::Isa::detect() }
    }

    // ---- extents ------------------------------------------------------------------------------------------------------------

    /// A constant extent.
    pub fn int(&mut self, value: i64) -> ExprId {
        self.graph.exprs.int(value)
    }

    /// Constant extents.
    pub fn ints(&mut self, values: &[i64]) -> Vec<ExprId> {
        values.iter().map(|v| self.int(*v)).collect()
    }

    /// The extents as constants, where all are.
    pub fn const_ints(&self, list: &[ExprId]) -> Option<Vec<i64>> {
        list.iter().map(|e| self.graph.exprs.as_const(*e)).collect()
    }

    /// The expression table.
    pub fn exprs(&mut self) -> &mut Exprs {
        &mut self.graph.exprs
    }

    /// Requires `a == b`: proven, or checked when a run begins.
    ///
    /// # Errors
    /// When they are equal for no value of the symbols.
    pub fn require_equal(&mut self, a: ExprId, b: ExprId, what: impl Into<String>) -> Result<()> {
        if self.graph.exprs.always_equal(a, b) {
            return Ok(());
        }
        let what = what.into();
        let (left, right) = (self.graph.exprs.display(a), self.graph.exprs.display(b));
        if self.graph.exprs.never_equal(a, b) {
            let problem = |rest: &str| Problem::new(format!("{what}: {left} is never {right}{rest}"));
            let fixed = [a, b].iter().all(|e| self.graph.exprs.as_const(*e).is_some());
            return Err(match fixed {
                true => problem(""),
                false => problem(" in the ranges of the dims").with("give the free dims other ranges"),
            });
        }
        if self.depends_on_run(a) || self.depends_on_run(b) {
            return Err(Problem::new(format!(
                "{what}: {left} must be {right}, which only the run can tell, so it cannot be checked when the run begins"
            )));
        }
        let guard = Guard { left: a, relation: Relation::Equal, right: b, what };
        if !self.graph.guards.contains(&guard) {
            self.graph.guards.push(guard);
        }
        Ok(())
    }

    /// Requires that an extent is not negative: proven, or checked when a run begins. An extent that only the run can tell is
    /// taken as 0 where it would be negative.
    ///
    /// # Errors
    /// When it is negative for all values of the symbols.
    pub fn extent(&mut self, e: ExprId, what: impl Into<String>) -> Result<ExprId> {
        let zero = self.int(0);
        let negative = self.graph.exprs.lt(e, zero);
        match self.graph.exprs.as_const(negative) {
            Some(0) => return Ok(e),
            Some(_) => {
                let text = self.graph.exprs.display(e);
                return Err(Problem::new(format!("{}: the extent {text} is negative", what.into())));
            }
            None if self.depends_on_run(e) => return Ok(self.graph.exprs.max(e, zero)),
            None => {}
        }
        let guard = Guard { left: zero, relation: Relation::LessOrEqual, right: e, what: what.into() };
        if !self.graph.guards.contains(&guard) {
            self.graph.guards.push(guard);
        }
        Ok(e)
    }

    /// Whether an expression depends on a symbol that the run defines.
    pub fn depends_on_run(&self, e: ExprId) -> bool {
        self.graph.exprs.symbols_of(e).iter().any(|s| {
            self.graph.exprs.symbols().get(s.index()).is_some_and(|s| matches!(s.kind, plan::SymbolKind::Run {}))
        })
    }

    /// A new symbol that the run defines, between 0 and `bound`.
    ///
    /// # Errors
    /// When nothing bounds it.
    pub fn run_symbol(&mut self, name: impl Into<String>, bound: ExprId) -> Result<SymbolId> {
        let name = name.into();
        let hi = self.graph.exprs.maximum(bound).ok_or_else(|| {
            Problem::new(format!("nothing bounds the extent {name}")).with("give the free dims it depends on a range")
        })?;
        Ok(self.graph.exprs.symbol(crate::shape::SymbolInfo {
            name,
            kind: plan::SymbolKind::Run {},
            lo: 0,
            hi,
            step: 1,
            bound: Some(bound),
        }))
    }

    // ---- facts --------------------------------------------------------------------------------------------------------------

    /// Element type.
    pub fn dtype(&self, v: V) -> DType {
        self.graph.value(v).dtype
    }

    /// Extents.
    pub fn dims(&self, v: V) -> Vec<ExprId> {
        self.graph.value(v).dims.to_vec()
    }

    /// How many axes.
    pub fn rank(&self, v: V) -> usize {
        self.graph.value(v).dims.len()
    }

    /// The extent of an axis.
    ///
    /// # Errors
    /// When there is no such axis.
    pub fn dim(&self, v: V, axis: usize) -> Result<ExprId> {
        self.graph
            .value(v)
            .dims
            .get(axis)
            .copied()
            .ok_or_else(|| Problem::new(format!("{} has no axis {axis}, which the operator needs", self.describe(v))))
    }

    /// How many elements.
    pub fn count(&mut self, v: V) -> ExprId {
        let dims = self.dims(v);
        self.graph.exprs.product(dims)
    }

    /// Dims and type as people write them, such as `f32[batch, 3]`.
    pub fn describe(&self, v: V) -> String {
        let value = self.graph.value(v);
        format!("{}{}", value.dtype, self.graph.exprs.display_dims(&value.dims))
    }

    /// The axis that an attribute names: negative ones count from the end.
    ///
    /// # Errors
    /// When it is out of range.
    pub fn axis(&self, axis: i64, rank: usize) -> Result<usize> {
        let n = rank as i64;
        let at = if axis < 0 { axis.checked_add(n) } else { Some(axis) };
        at.filter(|a| (0..n).contains(a))
            .map(|a| a as usize)
            .ok_or_else(|| Problem::new(format!("axis {axis} is out of range for rank {rank}")))
    }

    /// The elements as expressions, where they are known: those of integer and boolean constants, too.
    pub fn known(&self, v: V) -> Option<Vec<ExprId>> {
        self.graph.value(v).known.as_ref().map(|k| k.to_vec())
    }

    /// The elements, where they are known integers.
    pub fn known_ints(&self, v: V) -> Option<Vec<i64>> {
        self.known(v).and_then(|k| self.const_ints(&k))
    }

    /// The elements of a constant of any real type, as `f64`.
    pub fn known_floats(&self, v: V) -> Option<Vec<f64>> {
        if let Some(ints) = self.known_ints(v) {
            return Some(ints.into_iter().map(|i| i as f64).collect());
        }
        known::floats(self.dtype(v), self.graph.constant_of(v)?)
    }

    /// Whether the contents are a constant.
    pub fn is_const(&self, v: V) -> bool {
        self.graph.constant_of(v).is_some()
    }

    // ---- new values ---------------------------------------------------------------------------------------------------------

    pub(super) fn axes<T: Filler>(&self, list: &[T]) -> Result<Axes<T>> {
        Axes::from_slice(list).ok_or_else(|| Problem::new(format!("rank {} is above {}", list.len(), plan::MAX_RANK)))
    }

    pub(super) fn new_value(&mut self, dtype: DType, dims: &[ExprId], source: Source) -> Result<V> {
        let dims = self.axes(dims)?;
        for d in dims.iter() {
            if self.graph.exprs.range(*d).1 < 0 {
                return Err(Problem::new(format!("the extent {} is negative", self.graph.exprs.display(*d))));
            }
        }
        let id = V(self.graph.values.len() as u32);
        let name = if self.origin.is_empty() { format!("v{}", id.0) } else { self.origin.clone() };
        self.graph.values.push(Value { name, dtype, dims, source, known: None });
        Ok(id)
    }

    /// An input of the model.
    ///
    /// # Errors
    /// When the rank is too high.
    pub fn input(&mut self, name: &str, dtype: DType, dims: &[ExprId]) -> Result<V> {
        let v = self.new_value(dtype, dims, Source::Input(self.graph.inputs.len() as u32))?;
        self.graph.values[v.index()].name = name.to_owned();
        self.graph.inputs.push(Port { name: name.to_owned(), value: v });
        Ok(v)
    }

    /// What a loop's body sees of a carried value.
    ///
    /// # Errors
    /// When the rank is too high.
    pub fn carried(&mut self, dtype: DType, dims: &[ExprId]) -> Result<V> {
        self.new_value(dtype, dims, Source::Carried)
    }

    /// A constant from little-endian bytes.
    ///
    /// # Errors
    /// When the length is not that of the dims.
    pub fn constant(&mut self, dtype: DType, dims: &[usize], bytes: Bytes, original: bool) -> Result<V> {
        let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        if count.and_then(|n| dtype.bytes_of(n)) != Some(bytes.len()) {
            return Err(Problem::new(format!("a constant {dtype}{dims:?} cannot have {} bytes", bytes.len())));
        }
        let dims: Vec<ExprId> = dims.iter().map(|d| self.graph.exprs.int(*d as i64)).collect();
        let known = known::ints(dtype, &bytes).map(|ints| ints.into_iter().map(|i| self.int(i)).collect::<Rc<[_]>>());
        let c = C(self.graph.constants.len() as u32);
        if original {
            self.graph.given_bytes = self.graph.given_bytes.saturating_add(bytes.len());
        }
        self.graph.constants.push(Constant { bytes, original, counted: false });
        let v = self.new_value(dtype, &dims, Source::Const(c))?;
        self.graph.values[v.index()].known = known;
        Ok(v)
    }

    /// A constant that [`Builder::may_fold`] has counted.
    pub(super) fn folded(&mut self, dtype: DType, dims: &[usize], bytes: Bytes) -> Result<V> {
        let v = self.constant(dtype, dims, bytes, false)?;
        if let Some(constant) = self.graph.constants.last_mut() {
            constant.counted = true;
        }
        Ok(v)
    }

    /// A constant of integers (of any integer or boolean type).
    ///
    /// # Errors
    /// When the length is not that of the dims, or the type is no integer.
    pub fn const_of_ints(&mut self, dtype: DType, dims: &[usize], values: &[i64]) -> Result<V> {
        let mut bytes = Vec::new();
        for v in values {
            known::push_int(dtype, *v, &mut bytes)?;
        }
        self.constant(dtype, dims, bytes.into(), false)
    }

    /// A constant of numbers of any real or boolean type.
    ///
    /// # Errors
    /// When the length is not that of the dims, or the type has no such constants.
    pub fn const_of_floats(&mut self, dtype: DType, dims: &[usize], values: &[f64]) -> Result<V> {
        let mut bytes = Vec::new();
        for v in values {
            known::push_float(dtype, *v, &mut bytes)?;
        }
        self.constant(dtype, dims, bytes.into(), false)
    }

    /// A scalar constant of any real or boolean type.
    ///
    /// # Errors
    /// When the type has no such constants.
    pub fn scalar(&mut self, dtype: DType, value: f64) -> Result<V> {
        let mut bytes = Vec::new();
        known::push_float(dtype, value, &mut bytes)?;
        self.constant(dtype, &[], bytes.into(), false)
    }

    /// A value whose elements are these expressions.
    ///
    /// # Errors
    /// When the type is no integer.
    pub fn of_exprs(&mut self, dtype: DType, dims: &[ExprId], elements: &[ExprId]) -> Result<V> {
        if let (Some(ints), Some(dims)) = (self.const_ints(elements), self.const_ints(dims)) {
            let dims: Vec<usize> = dims.into_iter().map(|d| d.max(0) as usize).collect();
            return self.const_of_ints(dtype, &dims, &ints);
        }
        let mut parts = Vec::new();
        for chunk in elements.chunks(16) {
            let n = self.int(chunk.len() as i64);
            let elements = plan::List::from_slice(chunk).unwrap_or_default();
            let v = self.push(Op::Prim(Literal { elements }.into()), &[], &[(dtype, vec![n])])?;
            let v = v.first().copied().ok_or_else(|| Problem::new("no elements"))?;
            self.graph.values[v.index()].known = Some(chunk.into());
            parts.push(v);
        }
        let flat = match parts.as_slice() {
            [one] => *one,
            // Not through `concat`: what is known of the parts would lead back to here.
            _ => {
                let n = self.int(elements.len() as i64);
                let reads: Vec<Option<V>> = parts.iter().map(|p| Some(*p)).collect();
                let v = self.push(Op::Prim(Concat { axis: 0 }.into()), &reads, &[(dtype, vec![n])])?;
                v.first().copied().ok_or_else(|| Problem::new("no elements"))?
            }
        };
        let v = self.reshape(flat, dims)?;
        self.graph.values[v.index()].known = Some(elements.into());
        Ok(v)
    }

    /// A vector of expressions (i64), such as a shape.
    ///
    /// # Errors
    /// When there are none in sight of a limit.
    pub fn vector(&mut self, elements: &[ExprId]) -> Result<V> {
        let n = self.int(elements.len() as i64);
        self.of_exprs(DType::I64, &[n], elements)
    }

    /// Adds a node without looking at its operands.
    pub(super) fn push(&mut self, op: Op, reads: &[Option<V>], writes: &[(DType, Vec<ExprId>)]) -> Result<Vec<V>> {
        let n = N(self.graph.nodes.len() as u32);
        let mut ids = Vec::new();
        for (port, (dtype, dims)) in writes.iter().enumerate() {
            ids.push(self.new_value(*dtype, dims, Source::Node(n, port as u32))?);
        }
        self.graph.nodes.push(Node {
            name: self.origin.clone(),
            op,
            reads: reads.to_vec(),
            writes: ids.iter().map(|v| Some(*v)).collect(),
            defines: Vec::new(),
            reserved: None,
        });
        let block = self.block;
        self.graph.blocks[block.index()].nodes.push(n);
        Ok(ids)
    }

    /// Adds a control-flow node.
    ///
    /// # Errors
    /// When a rank is too high.
    pub fn control(&mut self, op: Op, reads: &[Option<V>], writes: &[(DType, Vec<ExprId>)]) -> Result<Vec<V>> {
        self.push(op, reads, writes)
    }

    /// Opens a new block and makes it receive nodes; returns it and the one before.
    pub fn open_block(&mut self) -> (B, B) {
        let b = B(self.graph.blocks.len() as u32);
        self.graph.blocks.push(Block::default());
        (b, std::mem::replace(&mut self.block, b))
    }

    /// Ends the block that receives nodes, with its results, and goes back to `outer`.
    pub fn close_block(&mut self, results: Vec<V>, outer: B) {
        let b = std::mem::replace(&mut self.block, outer);
        self.graph.blocks[b.index()].results = results;
    }
}
