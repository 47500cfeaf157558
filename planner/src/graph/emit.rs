//! Adding nodes: what can be computed while planning is not added.

use super::{Builder, Graph, Op, Problem, Source, V, View, builder::Result};
use bytes::Bytes;
use kernels::{Call, Dst, Fault, Meta, Shape, Src};
use plan::{Axes, DType, ExprId, Primitive, prim::*};

/// Constants of up to this many bytes are always folded; larger ones where they are at most twice their operands.
const SMALL: usize = 1 << 20;

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
        if count == one && extent != one { self.broadcast(flat, &[extent]) } else { Ok(flat) }
    }

    /// Runs a primitive on constants; none where it has to wait for the run.
    fn fold(
        &mut self,
        prim: &Primitive<ExprId>,
        reads: &[Option<V>],
        writes: &[(DType, Vec<ExprId>)],
    ) -> Result<Option<Vec<V>>> {
        if matches!(prim, Primitive::Random(_)) || reads.iter().all(Option::is_none) {
            return Ok(None);
        }
        let mut sources = Vec::new();
        for r in reads {
            let Some(v) = r else {
                sources.push(None);
                continue;
            };
            let (Some(bytes), Some(dims)) = (self.graph.constant_of(*v), self.graph.static_dims(*v)) else {
                return Ok(None);
            };
            sources.push(Some((self.dtype(*v), dims, bytes.clone())));
        }
        let mut targets = Vec::new();
        for (dtype, dims) in writes {
            let Some(dims) = self.const_ints(dims) else { return Ok(None) };
            let dims: Vec<usize> = dims.into_iter().map(|d| d.max(0) as usize).collect();
            targets.push((*dtype, dims));
        }
        let given: usize = sources.iter().flatten().map(|(_, _, b)| b.len()).sum();
        let wanted = targets.iter().try_fold(0usize, |n, (t, d)| {
            let count = d.iter().try_fold(1usize, |n, d| n.checked_mul(*d))?;
            n.checked_add(t.bytes_of(count)?)
        });
        if wanted.is_none_or(|w| w > SMALL.max(2 * given)) {
            return Ok(None);
        }
        let mut unknown = false;
        let prim = prim.map_extents(&mut |e| {
            self.graph.exprs.as_const(e).unwrap_or_else(|| {
                unknown = true;
                0
            })
        });
        if unknown {
            return Ok(None);
        }
        let done = run(&prim, &sources, &targets, &mut [], self.isa);
        match done {
            Ok(list) => {
                let mut out = Vec::new();
                for ((dtype, dims), bytes) in targets.into_iter().zip(list) {
                    out.push(self.constant(dtype, &dims, bytes, false)?);
                }
                Ok(Some(out))
            }
            // What the kernel cannot do is reported where the plan is made, with the step's name.
            Err(Fault::Unsupported(_)) => Ok(None),
            Err(fault) => Err(Problem::new(format!("{} of constants: {fault}", prim.traits().name))),
        }
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
        if dtype.size().is_none() || (wanted > SMALL && wanted > bytes.len()) {
            return Ok(None);
        }
        let Some((offset, strides)) = static_strides(view, &old, &new, &self.graph) else { return Ok(None) };
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
            Ok(bytes) => self.constant(dtype, &new, bytes, false).map(Some),
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
        dims[axis] = total;
        let reads: Vec<Option<V>> = parts.iter().map(|p| Some(*p)).collect();
        self.emit1(Concat { axis: axis as u8 }, &reads, dtype, &dims)
    }

    /// A name for a value in messages.
    pub fn name(&mut self, v: V, name: &str) {
        if matches!(self.graph.value(v).source, Source::Node(..) | Source::Const(_)) {
            self.graph.values[v.index()].name = name.to_owned();
        }
    }
}

/// Offset and strides, in elements, of a view of a contiguous tensor.
fn static_strides(view: &View, old: &[usize], new: &[usize], graph: &Graph) -> Option<(isize, Vec<isize>)> {
    let shape = Shape::contiguous(old).ok()?;
    let s = shape.strides();
    Some(match view {
        View::Reshape => return None,
        View::Permute(perm) => (0, perm.iter().map(|p| s.get(*p as usize).copied()).collect::<Option<_>>()?),
        View::Slice { start, step } => {
            let mut offset = 0isize;
            for (st, e) in s.iter().zip(start.iter()) {
                offset = offset.checked_add(st.checked_mul(isize::try_from(graph.exprs.as_const(*e)?).ok()?)?)?;
            }
            (offset, s.iter().zip(step.iter()).map(|(st, k)| st.checked_mul(*k as isize)).collect::<Option<_>>()?)
        }
        View::Broadcast => {
            let lead = new.len().checked_sub(old.len())?;
            let tail = old.iter().zip(s).zip(new.iter().skip(lead));
            let mut out = vec![0; lead];
            out.extend(tail.map(|((o, s), n)| if *o == 1 && *n != 1 { 0 } else { *s }));
            (0, out)
        }
    })
}

/// Room for `len` bytes aligned to 64: the memory, and where in it they start.
fn space(len: usize) -> std::result::Result<(Vec<u8>, usize), Fault> {
    let memory = vec![0u8; len.checked_add(64).ok_or(Fault::Extent)?];
    let from = memory.as_ptr().align_offset(64);
    if from > 64 { Err(Fault::OutOfBounds) } else { Ok((memory, from)) }
}

/// The data at an address that suits its type: itself, or a copy.
fn aligned(data: &Bytes, dtype: DType) -> std::result::Result<Bytes, Fault> {
    if data.as_ptr().align_offset(dtype.align()) == 0 {
        return Ok(data.clone());
    }
    let (mut memory, from) = space(data.len())?;
    memory.get_mut(from..from + data.len()).ok_or(Fault::OutOfBounds)?.copy_from_slice(data);
    Ok(Bytes::from(memory).slice(from..from + data.len()))
}

/// Runs one primitive on plain data.
pub(crate) fn run(
    prim: &Primitive<i64>,
    sources: &[Option<(DType, Vec<usize>, Bytes)>],
    targets: &[(DType, Vec<usize>)],
    defines: &mut [i64],
    isa: kernels::Isa,
) -> std::result::Result<Vec<Bytes>, Fault> {
    let meta = |dtype: DType, dims: &[usize]| {
        Axes::from_slice(dims).map(|dims| Meta { dtype, dims }).ok_or(Fault::Shape("rank above 8"))
    };
    let (mut held, mut read_meta, mut write_meta) = (Vec::new(), Vec::new(), Vec::new());
    for s in sources {
        held.push(match s {
            Some((dtype, dims, bytes)) => Some((*dtype, dims, aligned(bytes, *dtype)?)),
            None => None,
        });
        read_meta.push(s.as_ref().map(|(dtype, dims, _)| meta(*dtype, dims)).transpose()?);
    }
    let mut memory = Vec::new();
    for (dtype, dims) in targets {
        let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d)).ok_or(Fault::Extent)?;
        let len = dtype.bytes_of(count).ok_or(Fault::Extent)?;
        memory.push((space(len)?, len));
        write_meta.push(Some(meta(*dtype, dims)?));
    }
    let (mut work, work_at) = space(kernels::workspace(prim, &read_meta, &write_meta)?)?;
    let mut reads = Vec::new();
    for h in &held {
        reads.push(match h {
            Some((dtype, dims, bytes)) => Some(Src::from_bytes(bytes, *dtype, dims)?),
            None => None,
        });
    }
    let mut writes = Vec::new();
    for (((bytes, from), len), (dtype, dims)) in memory.iter_mut().zip(targets) {
        let place = bytes.get_mut(*from..*from + *len).ok_or(Fault::OutOfBounds)?;
        writes.push(Some(Dst::from_bytes(place, *dtype, dims)?));
    }
    let room = work.get_mut(work_at..).unwrap_or(&mut []);
    kernels::execute(prim, &mut Call::new(&reads, &mut writes, room, defines, isa))?;
    drop(writes);
    Ok(memory.into_iter().map(|((bytes, from), len)| Bytes::from(bytes).slice(from..from + len)).collect())
}
