//! Scaled dot-product attention: checks, masks, and the passes over a row of scores. f32 goes by blocks of queries through
//! the f32 matrix product; other types, and softmaxes in another precision, by the definition.

mod fast;
mod reference;

use crate::{Call, Dst, Fault, Meta, Src, real::Reals};
use plan::{DType, prim::Attention};

/// Runs [`Attention`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn attention(p: &Attention<i64>, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (mut out, mut scores) = (call.dst(0)?, call.opt_dst(1));
    let job = Job::new(p, call, &out, scores.as_ref())?;
    if out.is_empty() && scores.as_ref().is_none_or(Dst::is_empty) {
        return Ok(());
    }
    let f32s = [&job.q, &job.k, &job.v].iter().all(|s| s.dtype() == DType::F32);
    if f32s
        && p.softmax == DType::F32
        && out.dtype() == DType::F32
        && scores.as_ref().is_none_or(|s| s.dtype() == DType::F32)
    {
        let scores = scores.as_mut().map(|s| s.slice::<f32>()).transpose()?;
        fast::run(&job, call, out.slice()?, scores)
    } else {
        reference::run(&job, call, &mut out, scores.as_mut())
    }
}

/// Bytes of workspace.
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn workspace(p: &Attention<i64>, reads: &[Option<Meta>], writes: &[Option<Meta>]) -> Result<usize, Fault> {
    let (Some(Some(q)), Some(Some(k)), Some(Some(v))) = (reads.first(), reads.get(1), reads.get(2)) else {
        return Err(Fault::Missing { operand: 0 });
    };
    let (&[_, _, sq, d], &[_, _, skv, _], &[.., dv]) = (q.dims.as_slice(), k.dims.as_slice(), v.dims.as_slice()) else {
        return Err(Fault::Shape("attention is over four axes"));
    };
    let extents = Extents { batch: 1, q_heads: 1, kv_heads: 1, sq, skv, d, dv };
    let f32s = [q, k, v].into_iter().chain(writes.iter().flatten()).all(|meta| meta.dtype == DType::F32);
    let (numbers, size) = match f32s && p.softmax == DType::F32 {
        true => (fast::floats(&extents)?, size_of::<f32>()),
        false => (reference::numbers(&extents)?, size_of::<f64>()),
    };
    numbers.checked_mul(size).ok_or(Fault::Extent)
}

/// The extents of the operands.
#[derive(Clone, Copy)]
struct Extents {
    batch: usize,
    q_heads: usize,
    kv_heads: usize,
    sq: usize,
    skv: usize,
    d: usize,
    dv: usize,
}

/// What is added to the scores.
#[derive(Clone, Copy)]
enum Mask<'a> {
    None,
    /// Keys that count.
    Bool(&'a [u8]),
    Float(Reals<'a>),
}

/// The operands, found to fit.
struct Job<'a> {
    extents: Extents,
    q: Src<'a>,
    k: Src<'a>,
    v: Src<'a>,
    mask: Mask<'a>,
    mask_origin: usize,
    mask_strides: [isize; 4],
    lengths: Option<Src<'a>>,
    past: i64,
    scale: f64,
    softcap: f32,
    /// What the probabilities are computed in.
    softmax: DType,
    /// How many keys before and after a query's own position count.
    window: (i64, i64),
    scores: u8,
}

impl<'a> Job<'a> {
    fn new(p: &Attention<i64>, call: &Call<'_, 'a>, out: &Dst<'_>, scores: Option<&Dst<'_>>) -> Result<Self, Fault> {
        let wrong = Fault::Shape("operands of an attention do not fit");
        let (q, k, v) = (call.src(0)?, call.src(1)?, call.src(2)?);
        let (&[batch, q_heads, sq, d], &[_, kv_heads, skv, _], &[.., dv]) = (q.dims(), k.dims(), v.dims()) else {
            return Err(wrong);
        };
        let extents = Extents { batch, q_heads, kv_heads, sq, skv, d, dv };
        let score_dims = [batch, q_heads, sq, skv];
        let (mask, lengths) = (call.opt_src(3), call.opt_src(4));
        let heads_fit = if kv_heads == 0 { q_heads == 0 } else { q_heads.is_multiple_of(kv_heads) };
        let fits = k.dims() == [batch, kv_heads, skv, d]
            && v.dims() == [batch, kv_heads, skv, dv]
            && out.dims() == [batch, q_heads, sq, dv]
            && heads_fit
            && mask.is_none_or(|m| m.dims() == score_dims)
            && lengths.is_none_or(|l| l.dims() == [batch] && l.dtype() == DType::I64)
            && scores.is_none_or(|s| s.dims() == score_dims);
        if !fits {
            return Err(wrong);
        }
        let mut mask_strides = [0; 4];
        if let Some(mask) = &mask {
            mask_strides.copy_from_slice(mask.strides());
        }
        let unlimited = |x: Option<&i32>| x.copied().filter(|x| *x >= 0).map_or(i64::MAX / 4, i64::from);
        let (left, right) = (unlimited(p.window.first()), unlimited(p.window.get(1)));
        Ok(Job {
            extents,
            q,
            k,
            v,
            mask: match &mask {
                None => Mask::None,
                Some(m) if m.dtype() == DType::Bool => Mask::Bool(m.span_bits()?),
                Some(m) => Mask::Float(Reals::of(m)?),
            },
            mask_origin: mask.map_or(0, |m| m.origin()),
            mask_strides,
            lengths,
            past: p.past.first().copied().unwrap_or(0),
            scale: if p.scale == 0.0 { 1.0 / libm::sqrt(d as f64) } else { f64::from(p.scale) },
            softcap: p.softcap,
            softmax: p.softmax,
            window: (left, if p.causal { 0 } else { right }),
            scores: p.scores,
        })
    }

    /// The keys that count for a query by causality, window and length: a range.
    fn keys(&self, batch: usize, query: usize) -> Result<core::ops::Range<usize>, Fault> {
        let skv = self.extents.skv as i64;
        let (mut position, mut end) = (self.past.saturating_add(query as i64), skv);
        if let Some(lengths) = &self.lengths {
            let stride = lengths.strides().first().copied().unwrap_or(0);
            let at = lengths.origin().wrapping_add_signed(stride.wrapping_mul(batch as isize));
            let length = *lengths.span::<i64>()?.get(at).ok_or(Fault::OutOfBounds)?;
            end = length.clamp(0, skv);
            position = length.saturating_sub(self.extents.sq as i64).saturating_add(query as i64);
        }
        let first = position.saturating_sub(self.window.0).clamp(0, end);
        let end = position.saturating_add(self.window.1).saturating_add(1).clamp(first, end);
        Ok(first as usize..end as usize)
    }

    /// Calls `add` with each of the keys and what the mask adds to its score, and tells whether any is allowed.
    fn masked(&self, place: [usize; 3], keys: core::ops::Range<usize>, mut add: impl FnMut(usize, f64)) -> bool {
        let [b, h, i, step] = self.mask_strides;
        let strides = [b, h, i];
        let base = place.iter().zip(strides).fold(0isize, |o, (i, s)| o.wrapping_add(s.wrapping_mul(*i as isize)));
        let at = |key: usize| self.mask_origin.wrapping_add_signed(base.wrapping_add(step.wrapping_mul(key as isize)));
        let mut any = false;
        match self.mask {
            Mask::None => any = !keys.is_empty(),
            Mask::Bool(data) => {
                for key in keys {
                    let allowed = data.get(at(key)).is_some_and(|x| *x != 0);
                    any |= allowed;
                    if !allowed {
                        add(key, f64::NEG_INFINITY);
                    }
                }
            }
            Mask::Float(data) => {
                for key in keys {
                    let x = data.get(at(key));
                    any |= x != f64::NEG_INFINITY;
                    add(key, x);
                }
            }
        }
        any
    }

    /// The head of K and V for a head of Q.
    fn kv_head(&self, q_head: usize) -> usize {
        q_head / (self.extents.q_heads / self.extents.kv_heads.max(1)).max(1)
    }
}

/// Index of the first element of a matrix of a view.
fn start(src: &Src<'_>, batch: usize, head: usize) -> usize {
    let offset =
        src.strides().iter().zip([batch, head]).fold(0isize, |o, (s, i)| o.wrapping_add(s.wrapping_mul(i as isize)));
    src.origin().wrapping_add_signed(offset)
}

/// Distances of rows and columns of the matrices of a view.
fn steps(src: &Src<'_>) -> (isize, isize) {
    match src.strides() {
        &[_, _, row, col] => (row, col),
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests;
