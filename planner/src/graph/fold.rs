//! Constant folding: running the very kernel that would have run.

use super::{Builder, Graph, Op, Problem, V, View, builder::Result};
use bytes::Bytes;
use kernels::{Call, Dst, Fault, Meta, Shape, Src};
use plan::{Axes, DType, ExprId, Primitive};

/// Constants of up to this many bytes are always folded; larger ones where they are at most twice their operands, or have no more
/// elements than these.
pub(super) const SMALL: usize = 1 << 20;

/// All that is folded and still needed may have this many bytes, and so many times those of the model's own constants: once where
/// there become more elements, `WIDENED` where each only becomes wider (weights of 4 bits in f32) or is stored as a kernel reads it.
/// Without a limit, a chain of doublings would fill any memory.
const FREE: usize = 24 << 20;
const WIDENED: usize = 8;

impl Builder {
    /// Runs a primitive on constants; none where it has to wait for the run.
    pub(super) fn fold(
        &mut self,
        prim: &Primitive<ExprId>,
        reads: &[Option<V>],
        writes: &[(DType, Vec<ExprId>)],
    ) -> Result<Option<Vec<V>>> {
        if prim.traits().random || reads.iter().all(Option::is_none) {
            return Ok(None);
        }
        Ok(self.fold_with(prim, reads, writes, &mut [0; 4])?.map(|(vs, _)| vs))
    }

    /// As `fold`, with the extents that the kernel finds.
    pub(super) fn fold_with<'d>(
        &mut self,
        prim: &Primitive<ExprId>,
        reads: &[Option<V>],
        writes: &[(DType, Vec<ExprId>)],
        found: &'d mut [i64],
    ) -> Result<Option<(Vec<V>, &'d [i64])>> {
        let (Some(sources), Some(targets), Some(concrete)) =
            (self.constant_operands(reads), self.static_targets(writes), self.concrete(prim))
        else {
            return Ok(None);
        };
        let given: usize = sources.iter().flatten().map(|s| s.bytes.len()).sum();
        let wanted = targets.iter().try_fold(0usize, |n, (t, d)| {
            let count = d.iter().try_fold(1usize, |n, d| n.checked_mul(*d))?;
            n.checked_add(t.bytes_of(count)?)
        });
        let elements = |dims: &[usize]| dims.iter().fold(1usize, |n, d| n.saturating_mul(*d));
        let most = sources.iter().flatten().map(|s| elements(&s.stored)).max().unwrap_or(0);
        let packs = matches!(prim, Primitive::Prepack(_));
        let widens = packs || targets.iter().all(|(_, dims)| elements(dims) <= most);
        let times = if widens { WIDENED } else { 2 };
        if wanted.is_none_or(|w| w > SMALL.max(given.saturating_mul(times)) || !self.may_fold(w, widens)) {
            return Ok(None);
        }
        match run(&concrete, &sources, &targets, found, self.isa) {
            Ok(list) => {
                let mut out = Vec::new();
                for ((dtype, dims), bytes) in targets.into_iter().zip(list) {
                    out.push(self.folded(dtype, &dims, bytes)?);
                }
                Ok(Some((out, found)))
            }
            // What the kernel cannot do is reported where the plan is made, with the step's name.
            Err(Fault::Unsupported(_)) => Ok(None),
            Err(fault) => Err(Problem::new(format!("{} of constants: {fault}", prim.traits().name))),
        }
    }

    /// Whether the constants of a model may become larger by this many bytes; if so, they are counted. `widens`: no elements are
    /// added.
    pub(super) fn may_fold(&mut self, bytes: usize, widens: bool) -> bool {
        let graph = &mut self.graph;
        let total = graph.folded_bytes.saturating_add(bytes);
        let may = total <= graph.given_bytes.saturating_mul(if widens { WIDENED } else { 1 }).saturating_add(FREE);
        if may {
            graph.folded_bytes = total;
        }
        may
    }

    fn constant_operands(&self, reads: &[Option<V>]) -> Option<Vec<Option<Operand>>> {
        reads.iter().map(|r| r.map_or(Some(None), |v| self.constant_operand(v).map(Some))).collect()
    }

    fn static_targets(&self, writes: &[(DType, Vec<ExprId>)]) -> Option<Vec<(DType, Vec<usize>)>> {
        let extents = |dims: &[ExprId]| -> Option<Vec<usize>> {
            Some(self.const_ints(dims)?.into_iter().map(|d| d.max(0) as usize).collect())
        };
        writes.iter().map(|(dtype, dims)| Some((*dtype, extents(dims)?))).collect()
    }

    fn concrete(&self, prim: &Primitive<ExprId>) -> Option<Primitive<i64>> {
        let mut known = true;
        let concrete = prim.map_extents(&mut |e| {
            let value = self.graph.exprs.as_const(e);
            known &= value.is_some();
            value.unwrap_or(0)
        });
        known.then_some(concrete)
    }

    /// A constant, or a broadcast of one, as a kernel reads it.
    fn constant_operand(&self, v: V) -> Option<Operand> {
        let dims = self.graph.static_dims(v)?;
        let dtype = self.dtype(v);
        if let Some(bytes) = self.graph.constant_of(v) {
            return Some(Operand { dtype, stored: dims.clone(), dims, strides: None, bytes: bytes.clone() });
        }
        let (n, _) = self.graph.producer_of(v)?;
        let node = self.graph.node(n);
        let (Op::View(view @ View::Broadcast), Some(Some(from))) = (&node.op, node.reads.first()) else { return None };
        let (bytes, stored) = (self.graph.constant_of(*from)?.clone(), self.graph.static_dims(*from)?);
        let (_, strides) = static_strides(view, &stored, &dims, &self.graph)?;
        Some(Operand { dtype, stored, dims, strides: Some(strides), bytes })
    }
}

/// Offset and strides, in elements, of a view of a contiguous tensor.
pub(super) fn static_strides(view: &View, old: &[usize], new: &[usize], graph: &Graph) -> Option<(isize, Vec<isize>)> {
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
pub(super) fn space(len: usize) -> std::result::Result<(Vec<u8>, usize), Fault> {
    let memory = vec![0u8; len.checked_add(64).ok_or(Fault::Extent)?];
    let from = memory.as_ptr().align_offset(64);
    if from > 64 { Err(Fault::OutOfBounds) } else { Ok((memory, from)) }
}

/// The data at an address that suits its type: itself, or a copy.
pub(super) fn aligned(data: &Bytes, dtype: DType) -> std::result::Result<Bytes, Fault> {
    if data.as_ptr().align_offset(dtype.align()) == 0 {
        return Ok(data.clone());
    }
    let (mut memory, from) = space(data.len())?;
    memory.get_mut(from..from + data.len()).ok_or(Fault::OutOfBounds)?.copy_from_slice(data);
    Ok(Bytes::from(memory).slice(from..from + data.len()))
}

/// A constant operand of a primitive that is run while planning.
struct Operand {
    dtype: DType,
    /// Extents of what is stored.
    stored: Vec<usize>,
    /// Extents of the operand.
    dims: Vec<usize>,
    /// Strides of the operand over what is stored, where it is not just that.
    strides: Option<Vec<isize>>,
    bytes: Bytes,
}

impl Operand {
    fn view<'b>(&self, bytes: &'b [u8]) -> std::result::Result<Src<'b>, Fault> {
        let whole = Src::from_bytes(bytes, self.dtype, &self.stored)?;
        match &self.strides {
            Some(strides) => whole.reshaped(Shape::strided(&self.dims, strides)?),
            None => Ok(whole),
        }
    }
}

/// Runs one primitive on plain data.
fn run(
    prim: &Primitive<i64>,
    sources: &[Option<Operand>],
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
            Some(s) => Some((s, aligned(&s.bytes, s.dtype)?)),
            None => None,
        });
        read_meta.push(s.as_ref().map(|s| meta(s.dtype, &s.dims)).transpose()?);
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
            Some((operand, bytes)) => Some(operand.view(bytes)?),
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
