//! Elementwise operations, products and reductions with their rules on dims.

use super::{Builder, Problem, V, builder::Result};
use plan::{DType, ExprId, List, prim::*};

impl Builder {
    /// The dims of two operands broadcast against each other, by the rules of NumPy.
    ///
    /// # Errors
    /// When they never fit.
    pub fn broadcast_dims(&mut self, a: &[ExprId], b: &[ExprId]) -> Result<Vec<ExprId>> {
        let one = self.int(1);
        let rank = a.len().max(b.len());
        let mut out = Vec::new();
        for i in 0..rank {
            let get = |d: &[ExprId]| (i + d.len()).checked_sub(rank).and_then(|k| d.get(k).copied()).unwrap_or(one);
            let (x, y) = (get(a), get(b));
            out.push(if x == y || y == one {
                x
            } else if x == one {
                y
            } else {
                let (p, q) = (self.graph.exprs.display_dims(a), self.graph.exprs.display_dims(b));
                self.require_equal(x, y, format!("broadcast of {p} against {q}, axis {i}"))?;
                // Of two that must be equal, the constant says more.
                if self.graph.exprs.as_const(y).is_some() { y } else { x }
            });
        }
        Ok(out)
    }

    /// An elementwise program of one instruction; operands are broadcast against each other.
    ///
    /// # Errors
    /// When the dims do not fit.
    pub fn map(&mut self, op: MapOp, dtype: DType, out: DType, operands: &[V]) -> Result<V> {
        let mut args = [0u8; 3];
        for (i, a) in args.iter_mut().enumerate().take(operands.len()) {
            *a = i as u8;
        }
        self.map_program(&[MapInstr { op, dtype, out, args, bits: 0 }], operands, out)
    }

    /// An elementwise program of several instructions; operands are broadcast against each other.
    ///
    /// # Errors
    /// When the dims do not fit, or the program is too long.
    pub fn map_program(&mut self, code: &[MapInstr], operands: &[V], out: DType) -> Result<V> {
        let mut dims = Vec::new();
        for o in operands {
            let own = self.dims(*o);
            dims = self.broadcast_dims(&dims, &own)?;
        }
        let mut reads = Vec::new();
        for o in operands {
            reads.push(Some(self.broadcast(*o, &dims)?));
        }
        let code = List::from_slice(code)
            .ok_or_else(|| Problem::new("an elementwise program of more than 32 instructions"))?;
        self.emit1(Map { code }, &reads, out, &dims)
    }

    /// A unary operation.
    ///
    /// # Errors
    /// As [`Builder::map`].
    pub fn unary(&mut self, op: MapOp, v: V) -> Result<V> {
        let t = self.dtype(v);
        let out = if matches!(op, MapOp::IsNan | MapOp::IsPosInf | MapOp::IsNegInf) { DType::Bool } else { t };
        self.map(op, t, out, &[v])
    }

    /// A binary operation on operands of one type, broadcast. Comparisons give booleans.
    ///
    /// # Errors
    /// When types differ or dims do not fit.
    pub fn binary(&mut self, op: MapOp, a: V, b: V) -> Result<V> {
        let t = self.dtype(a);
        if self.dtype(b) != t {
            return Err(Problem::new(format!("{} and {} have different types", self.describe(a), self.describe(b))));
        }
        let out = if matches!(op, MapOp::Eq | MapOp::Lt | MapOp::Le) { DType::Bool } else { t };
        self.map(op, t, out, &[a, b])
    }

    /// A binary operation with a scalar constant on the right.
    ///
    /// # Errors
    /// As [`Builder::binary`].
    pub fn binary_scalar(&mut self, op: MapOp, a: V, b: f64) -> Result<V> {
        let t = self.dtype(a);
        let b = self.scalar(t, b)?;
        self.binary(op, a, b)
    }

    /// `b` where `a` else `c`, broadcast.
    ///
    /// # Errors
    /// When types or dims do not fit.
    pub fn select(&mut self, a: V, b: V, c: V) -> Result<V> {
        let t = self.dtype(b);
        if self.dtype(a) != DType::Bool || self.dtype(c) != t {
            return Err(Problem::new(format!(
                "a choice by {} between {} and {}",
                self.describe(a),
                self.describe(b),
                self.describe(c)
            )));
        }
        self.map(MapOp::Select, t, t, &[a, b, c])
    }

    /// Converted to another type; the operand itself where it has it.
    ///
    /// # Errors
    /// As [`Builder::map`].
    pub fn cast(&mut self, v: V, to: DType) -> Result<V> {
        let from = self.dtype(v);
        if from == to { Ok(v) } else { self.map(MapOp::Cast, from, to, &[v]) }
    }

    /// Reduced over axes (ascending, no duplicates). Without `keep`, the axes are dropped.
    ///
    /// # Errors
    /// When an axis is out of range.
    pub fn reduce(&mut self, op: ReduceOp, v: V, axes: &[usize], keep: bool) -> Result<V> {
        let (one, mut dims) = (self.int(1), self.dims(v));
        for a in axes {
            *dims.get_mut(*a).ok_or_else(|| {
                Problem::new(format!("{} has no axis {a}, which the operator needs", self.describe(v)))
            })? = one;
        }
        let list: Vec<u8> = axes.iter().map(|a| *a as u8).collect();
        let axes8 = self.axes(&list)?;
        let dtype = self.dtype(v);
        let out = self.emit1(Reduce { op, axes: axes8 }, &[Some(v)], dtype, &dims)?;
        self.drop_axes(out, axes, keep)
    }

    /// Drops axes of extent 1, unless `keep`.
    ///
    /// # Errors
    /// When there is no such axis.
    pub fn drop_axes(&mut self, v: V, axes: &[usize], keep: bool) -> Result<V> {
        if keep {
            return Ok(v);
        }
        let dims: Vec<ExprId> =
            self.dims(v).into_iter().enumerate().filter(|(i, _)| !axes.contains(i)).map(|(_, d)| d).collect();
        self.reshape(v, &dims)
    }

    /// The matrix product of operands of any rank from 1 on, by the rules of NumPy; `out` is the result's type.
    ///
    /// # Errors
    /// When the dims do not fit.
    pub fn matmul(&mut self, a: V, b: V, out: DType, zero_points: [Option<V>; 2]) -> Result<V> {
        let (vector_a, vector_b) = (self.rank(a) == 1, self.rank(b) == 1);
        let a = if vector_a { self.unsqueeze(a, &[0])? } else { a };
        let b = if vector_b { self.unsqueeze(b, &[1])? } else { b };
        let (da, db) = (self.dims(a), self.dims(b));
        let ([lead_a @ .., m, k], [lead_b @ .., k2, n]) = (da.as_slice(), db.as_slice()) else {
            return Err(Problem::new("a matrix product of scalars"));
        };
        self.require_equal(*k, *k2, format!("matrix product of {} and {}", self.describe(a), self.describe(b)))?;
        let lead = self.broadcast_dims(lead_a, lead_b)?;
        let with = |tail: [ExprId; 2]| [lead.as_slice(), &tail].concat();
        let (full_a, full_b, dims) = (with([*m, *k]), with([*k2, *n]), with([*m, *n]));
        let reads = [
            Some(self.broadcast(a, &full_a)?),
            Some(self.broadcast(b, &full_b)?),
            None,
            None,
            zero_points[0],
            zero_points[1],
        ];
        let used = if zero_points == [None, None] { &reads[..2] } else { &reads[..] };
        let prim = MatMul { activation: Activation::IDENTITY, b: MatLayout::Plain };
        let product = self.emit1(prim, used, out, &dims)?;
        let n_axis = dims.len() - 1;
        let drop: Vec<usize> =
            [(vector_a, n_axis - 1), (vector_b, n_axis)].iter().filter(|d| d.0).map(|d| d.1).collect();
        self.drop_axes(product, &drop, false)
    }
}
