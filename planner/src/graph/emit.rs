//! Adding nodes: what can be computed while planning is not added.

use super::fold::{SMALL, aligned, space, static_strides};
use super::{Builder, Op, Problem, Source, V, View, builder::Result};
use bytes::Bytes;
use kernels::{Call, Dst, Fault, Shape, Src};
use plan::{DType, ExprId, Primitive, prim::*};

impl Builder {
    /// Adds a primitive; gives its writes. Folded where the operands are known.
    ///
    /// # Errors
    /// When operands are too few or too many, or a constant makes the kernel fail.
    pub fn emit(
        &mut self,
        prim: impl Into<Primitive<ExprId>>,
        reads: &[Option<V>],
        writes: &[(DType, Vec<ExprId>)],
    ) -> Result<Vec<V>> {
        let prim = prim.into();
        let t = prim.traits();
        if reads.len() < t.reads.0 || reads.len() > t.reads.1 || writes.len() < t.writes.0 || writes.len() > t.writes.1
        {
            return Err(Problem::new(format!("{} with {} reads and {} writes", t.name, reads.len(), writes.len())));
        }
        if let [(dtype, dims)] = writes
            && let Some(known) = self.eval_known(&Op::Prim(prim), reads, *dtype, dims)
        {
            // Expressions of constants leave the range of 64 bits where the kernel wraps.
            let constant = !reads.is_empty() && reads.iter().flatten().all(|v| self.is_const(*v));
            if constant
                && self.const_ints(&known).is_none()
                && let Some(folded) = self.fold(&prim, reads, writes)?
            {
                return Ok(folded);
            }
            return self.of_exprs(*dtype, dims, &known).map(|v| vec![v]);
        }
        if let Some(folded) = self.fold(&prim, reads, writes)? {
            return Ok(folded);
        }
        self.push(Op::Prim(prim), reads, writes)
    }

    /// As [`Builder::emit`], for a primitive with one write.
    ///
    /// # Errors
    /// As [`Builder::emit`].
    pub fn emit1(
        &mut self,
        prim: impl Into<Primitive<ExprId>>,
        reads: &[Option<V>],
        dtype: DType,
        dims: &[ExprId],
    ) -> Result<V> {
        let writes = self.emit(prim, reads, &[(dtype, dims.to_vec())])?;
        writes.first().copied().ok_or_else(|| Problem::new("a primitive without a result"))
    }

    /// Adds a primitive with one write as it is: nothing is folded.
    ///
    /// # Errors
    /// When the rank is too high.
    pub fn push_prim(
        &mut self,
        prim: impl Into<Primitive<ExprId>>,
        reads: &[Option<V>],
        dtype: DType,
        dims: &[ExprId],
    ) -> Result<V> {
        let out = self.push(Op::Prim(prim.into()), reads, &[(dtype, dims.to_vec())])?;
        out.first().copied().ok_or_else(|| Problem::new("a primitive without a result"))
    }

    /// A value of `extent` elements in a row, or of one, as a vector of `extent` elements.
    ///
    /// # Errors
    /// When it has another count.
    pub fn reshape_or_spread(&mut self, v: V, extent: ExprId) -> Result<V> {
        let one = self.int(1);
        let count = self.count(v);
        let flat = self.reshape(v, &[count])?;
        if count != one || extent == one {
            return Ok(flat);
        }
        let spread = self.broadcast(flat, &[extent])?;
        // A constant stays one: it is short.
        if self.is_const(flat) && self.graph.static_dims(spread).is_some() {
            let dtype = self.dtype(spread);
            return self.emit1(Copy {}, &[Some(spread)], dtype, &[extent]);
        }
        Ok(spread)
    }

    // ---- views --------------------------------------------------------------------------------------------------------------

    fn view(&mut self, view: View, v: V, dims: &[ExprId]) -> Result<V> {
        let dtype = self.dtype(v);
        let known = self.eval_known(&Op::View(view), &[Some(v)], dtype, dims);
        if let Some(known) = &known
            && self.const_ints(known).is_some()
        {
            return self.of_exprs(dtype, dims, known);
        }
        if let Some(folded) = self.fold_view(&view, v, dims)? {
            return Ok(folded);
        }
        let out = self.push(Op::View(view), &[Some(v)], &[(dtype, dims.to_vec())])?;
        let out = out.first().copied().ok_or_else(|| Problem::new("a view without a result"))?;
        self.graph.values[out.index()].known = known;
        Ok(out)
    }

    /// A view of a constant as a constant.
    fn fold_view(&mut self, view: &View, v: V, dims: &[ExprId]) -> Result<Option<V>> {
        let (Some(bytes), Some(old), Some(new)) =
            (self.graph.constant_of(v).cloned(), self.graph.static_dims(v), self.const_ints(dims))
        else {
            return Ok(None);
        };
        let new: Vec<usize> = new.into_iter().map(|d| d.max(0) as usize).collect();
        let dtype = self.dtype(v);
        if *view == View::Reshape {
            return self.constant(dtype, &new, bytes, false).map(Some);
        }
        let count = new.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        let Some(wanted) = count.and_then(|n| dtype.bytes_of(n)) else { return Ok(None) };
        // A broadcast repeats in memory what strides repeat for nothing.
        let room = if *view == View::Broadcast { 256 } else { SMALL };
        if dtype.size().is_none() || (wanted > room && wanted > bytes.len()) {
            return Ok(None);
        }
        let Some((offset, strides)) = static_strides(view, &old, &new, &self.graph) else { return Ok(None) };
        if !self.may_fold(wanted, wanted <= bytes.len()) {
            return Ok(None);
        }
        let copied = (|| {
            let held = aligned(&bytes, dtype)?;
            let (out, from) = space(wanted)?;
            let mut out = out;
            let src = Src::from_bytes(&held, dtype, &old)?.window(offset, Shape::strided(&new, &strides)?)?;
            let place = out.get_mut(from..from + wanted).ok_or(Fault::OutOfBounds)?;
            let dst = Dst::from_bytes(place, dtype, &new)?;
            let mut call_writes = [Some(dst)];
            kernels::copy::copy(&Copy {}, &mut Call::new(&[Some(src)], &mut call_writes, &mut [], &mut [], self.isa))?;
            Ok::<_, Fault>(Bytes::from(out).slice(from..from + wanted))
        })();
        match copied {
            Ok(bytes) => self.folded(dtype, &new, bytes).map(Some),
            Err(Fault::Unsupported(_)) => Ok(None),
            Err(fault) => Err(Problem::new(format!("a view of a constant: {fault}"))),
        }
    }

    /// The same elements under other dims.
    ///
    /// # Errors
    /// When the counts are never equal.
    pub fn reshape(&mut self, v: V, dims: &[ExprId]) -> Result<V> {
        if self.dims(v) == dims {
            return Ok(v);
        }
        let old = self.count(v);
        let new = self.graph.exprs.product(dims.iter().copied());
        let what = format!("reshape of {} to {}", self.describe(v), self.graph.exprs.display_dims(dims));
        self.require_equal(old, new, what)?;
        // A reshape of a reshape is one reshape.
        if let Some((n, _)) = self.graph.producer_of(v)
            && self.graph.node(n).op == Op::View(View::Reshape)
            && let Some(inner) = self.graph.node(n).reads.first().copied().flatten()
        {
            return if self.dims(inner) == dims { Ok(inner) } else { self.view(View::Reshape, inner, dims) };
        }
        self.view(View::Reshape, v, dims)
    }

    /// Axis `i` of the result is axis `perm[i]` of the operand.
    ///
    /// # Errors
    /// When `perm` is no permutation of the axes.
    pub fn permute(&mut self, v: V, perm: &[usize]) -> Result<V> {
        let rank = self.rank(v);
        let mut sorted = perm.to_vec();
        sorted.sort();
        if !sorted.iter().copied().eq(0..rank) {
            return Err(Problem::new(format!("{perm:?} is no permutation of {rank} axes")));
        }
        if perm.iter().copied().eq(0..rank) {
            return Ok(v);
        }
        let dims = self.dims(v);
        let dims: Vec<ExprId> = perm.iter().filter_map(|p| dims.get(*p).copied()).collect();
        // Where only axes of extent 1 change their place, nothing moves.
        let long = |p: &&usize| self.graph.exprs.as_const(self.graph.value(v).dims[**p]) != Some(1);
        if perm.iter().filter(long).is_sorted() {
            return self.reshape(v, &dims);
        }
        let perm: Vec<u8> = perm.iter().map(|p| *p as u8).collect();
        let perm = self.axes(&perm)?;
        self.view(View::Permute(perm), v, &dims)
    }

    /// Along each axis from `start` with `step`; the extents are `dims`. The caller has made sure that all lies inside.
    ///
    /// # Errors
    /// When the lists do not fit the rank.
    pub fn slice(&mut self, v: V, start: &[ExprId], step: &[i64], dims: &[ExprId]) -> Result<V> {
        let rank = self.rank(v);
        if start.len() != rank || step.len() != rank || dims.len() != rank || step.contains(&0) {
            return Err(Problem::new(format!("a slice of rank {} of a tensor of rank {rank}", start.len())));
        }
        let zero = self.int(0);
        if self.dims(v) == dims && start.iter().all(|s| *s == zero) && step.iter().all(|s| *s == 1) {
            return Ok(v);
        }
        let (start, step) = (self.axes(start)?, self.axes(step)?);
        self.view(View::Slice { start, step }, v, dims)
    }

    /// Elements `from..from + count` of one axis.
    ///
    /// # Errors
    /// When there is no such axis.
    pub fn narrow(&mut self, v: V, axis: usize, from: ExprId, count: ExprId) -> Result<V> {
        self.dim(v, axis)?;
        let zero = self.int(0);
        let (mut start, mut dims) = (vec![zero; self.rank(v)], self.dims(v));
        if let (Some(s), Some(d)) = (start.get_mut(axis), dims.get_mut(axis)) {
            (*s, *d) = (from, count);
        }
        let step = vec![1; start.len()];
        self.slice(v, &start, &step, &dims)
    }

    /// The operand repeated to `dims`, by the rules of NumPy.
    ///
    /// # Errors
    /// When it cannot be.
    pub fn broadcast(&mut self, v: V, dims: &[ExprId]) -> Result<V> {
        let own = self.dims(v);
        if own == dims {
            return Ok(v);
        }
        let Some(lead) = dims.len().checked_sub(own.len()) else {
            return Err(Problem::new(format!("{} cannot be broadcast to {} axes", self.describe(v), dims.len())));
        };
        let one = self.int(1);
        for (o, d) in own.iter().zip(dims.iter().skip(lead)) {
            if *o != one && o != d {
                let what = format!("broadcast of {} to {}", self.describe(v), self.graph.exprs.display_dims(dims));
                self.require_equal(*o, *d, what)?;
            }
        }
        // Where nothing is repeated, only axes of extent 1 are added.
        if dims.iter().take(lead).all(|d| *d == one) && own.iter().zip(dims.iter().skip(lead)).all(|(o, d)| o == d) {
            return self.reshape(v, dims);
        }
        self.view(View::Broadcast, v, dims)
    }

    /// Adds axes of extent 1 so that they stand at `axes` of the result.
    ///
    /// # Errors
    /// When an axis is out of range or named twice.
    pub fn unsqueeze(&mut self, v: V, axes: &[i64]) -> Result<V> {
        let rank = self.rank(v) + axes.len();
        let mut at = Vec::new();
        for a in axes {
            at.push(self.axis(*a, rank)?);
        }
        at.sort();
        at.dedup();
        if at.len() != axes.len() {
            return Err(Problem::new(format!("an axis is named twice in {axes:?}")));
        }
        let one = self.int(1);
        let (own, mut dims) = (self.dims(v), Vec::new());
        let mut own = own.into_iter();
        for i in 0..rank {
            dims.push(if at.contains(&i) { one } else { own.next().unwrap_or(one) });
        }
        self.reshape(v, &dims)
    }

    /// Drops axes, whose extents must be 1.
    ///
    /// # Errors
    /// When an axis is out of range or its extent is never 1.
    pub fn squeeze(&mut self, v: V, axes: &[i64]) -> Result<V> {
        let (rank, mut drop) = (self.rank(v), Vec::new());
        for a in axes {
            drop.push(self.axis(*a, rank)?);
        }
        let (one, own) = (self.int(1), self.dims(v));
        let mut dims = Vec::new();
        for (i, d) in own.iter().enumerate() {
            if drop.contains(&i) {
                self.require_equal(*d, one, format!("squeeze of axis {i} of {}", self.describe(v)))?;
            } else {
                dims.push(*d);
            }
        }
        self.reshape(v, &dims)
    }

    /// One after another along an axis.
    ///
    /// # Errors
    /// When types or other extents differ.
    pub fn concat(&mut self, parts: &[V], axis: usize) -> Result<V> {
        let Some(first) = parts.first().copied() else { return Err(Problem::new("nothing to concatenate")) };
        if parts.len() == 1 {
            return Ok(first);
        }
        let (dtype, mut dims) = (self.dtype(first), self.dims(first));
        let mut total = self.dim(first, axis)?;
        for p in parts.iter().skip(1) {
            if self.dtype(*p) != dtype || self.rank(*p) != dims.len() {
                return Err(Problem::new(format!("{} beside {}", self.describe(*p), self.describe(first))));
            }
            for (i, d) in self.dims(*p).into_iter().enumerate() {
                if i == axis {
                    total = self.graph.exprs.add(total, d);
                } else {
                    self.require_equal(d, dims[i], format!("concatenation along axis {axis}: axis {i}"))?;
                }
            }
        }
        let prim = Primitive::from(Concat { axis: axis as u8 });
        // More than a primitive reads go group by group.
        let most = prim.traits().reads.1;
        if parts.len() > most {
            let groups = parts.chunks(most).map(|group| self.concat(group, axis)).collect::<Result<Vec<V>>>()?;
            return self.concat(&groups, axis);
        }
        dims[axis] = total;
        let reads: Vec<Option<V>> = parts.iter().map(|p| Some(*p)).collect();
        self.emit1(prim, &reads, dtype, &dims)
    }

    /// A name for a value in messages.
    pub fn name(&mut self, v: V, name: &str) {
        if matches!(self.graph.value(v).source, Source::Node(..) | Source::Const(_)) {
            self.graph.values[v.index()].name = name.to_owned();
        }
    }
}
