//! Attention of any floating-point types by the operator's definition, a query at a time. The definition is a function of simpler
//! operators, each of which rounds to the operands' type, but for the softmax, whose precision is chosen.

use super::{Extents, Job, start, steps};
use crate::{
    Call, Dst, Fault, Src,
    real::{Reals, RealsMut, rounded},
    softmax,
};

/// Numbers of f64 of workspace: the keys of a head, a query and its scores.
pub(super) fn numbers(e: &Extents) -> Result<usize, Fault> {
    let keys = e.skv.checked_mul(e.d).ok_or(Fault::Extent)?;
    keys.checked_add(e.d).and_then(|n| n.checked_add(e.skv)).ok_or(Fault::Extent)
}

/// A matrix of a view.
struct Matrix<'a> {
    data: Reals<'a>,
    origin: usize,
    steps: (isize, isize),
}

impl<'a> Matrix<'a> {
    fn of(src: &Src<'a>, batch: usize, head: usize) -> Result<Self, Fault> {
        Ok(Matrix { data: Reals::of(src)?, origin: start(src, batch, head), steps: steps(src) })
    }

    fn get(&self, row: usize, col: usize) -> f64 {
        let (down, right) = self.steps;
        let offset = down.wrapping_mul(row as isize).wrapping_add(right.wrapping_mul(col as isize));
        self.data.get(self.origin.wrapping_add_signed(offset))
    }
}

/// Runs the attention.
pub(super) fn run(
    job: &Job<'_>,
    call: &mut Call<'_, '_>,
    out: &mut Dst<'_>,
    kept: Option<&mut Dst<'_>>,
) -> Result<(), Fault> {
    let (e, dtype) = (job.extents, job.q.dtype());
    let round = |x: f64| rounded(dtype, x);
    let (mut out, mut kept) = (RealsMut::of(out)?, kept.map(RealsMut::of).transpose()?);
    let (keys, rest) = call.take_workspace_of::<f64>(numbers(&e)?)?.split_at_mut(e.skv * e.d);
    let (query, row) = rest.split_at_mut(e.d);
    // Queries and keys are multiplied by a root of the scale each.
    let root = round(libm::sqrt(job.scale.abs()));
    let key_root = root.copysign(job.scale);
    let group = e.q_heads.checked_div(e.kv_heads).unwrap_or(0).max(1);
    for head in 0..e.batch * e.q_heads {
        let (b, h) = (head / e.q_heads, head % e.q_heads);
        let kv = job.kv_head(h);
        let (q, k, v) = (Matrix::of(&job.q, b, h)?, Matrix::of(&job.k, b, kv)?, Matrix::of(&job.v, b, kv)?);
        if h.is_multiple_of(group) {
            keys.iter_mut().enumerate().for_each(|(i, x)| *x = round(k.get(i / e.d, i % e.d) * key_root));
        }
        for i in 0..e.sq {
            let at = head * e.sq + i;
            query.iter_mut().enumerate().for_each(|(x, place)| *place = round(q.get(i, x) * root));
            for (j, score) in row.iter_mut().enumerate() {
                let key = keys.get(j * e.d..(j + 1) * e.d).ok_or(Fault::OutOfBounds)?;
                *score = round(query.iter().zip(key).map(|(x, y)| x * y).sum());
            }
            let keep = |mode: u8, row: &[f64]| {
                if let Some(kept) = kept.as_mut().filter(|_| mode == job.scores) {
                    row.iter().enumerate().for_each(|(j, x)| kept.set(at * e.skv + j, *x));
                }
            };
            job.probabilities([b, h, i], row, keep)?;
            for x in 0..e.dv {
                out.set(at * e.dv + x, row.iter().enumerate().map(|(j, p)| p * v.get(j, x)).sum());
            }
        }
    }
    Ok(())
}

impl Job<'_> {
    /// Makes probabilities of the scaled scores of a query; `keep` sees every stage.
    fn probabilities(&self, place: [usize; 3], row: &mut [f64], mut keep: impl FnMut(u8, &[f64])) -> Result<(), Fault> {
        let dtype = self.q.dtype();
        let round = |x: f64| rounded(dtype, x);
        keep(0, row);
        if self.softcap > 0.0 {
            let cap = round(f64::from(self.softcap));
            row.iter_mut().for_each(|x| *x = round(round(libm::tanh(round(*x / cap))) * cap));
        }
        keep(1, row);
        let keys = self.keys(place[0], place[2])?;
        for (j, score) in row.iter_mut().enumerate() {
            if !keys.contains(&j) {
                *score = f64::NEG_INFINITY;
            }
        }
        let any = self.masked(place, keys, |key, x| {
            if let Some(score) = row.get_mut(key) {
                *score = round(*score + x);
            }
        });
        keep(2, row);
        if any {
            row.iter_mut().for_each(|x| *x = rounded(self.softmax, *x));
            softmax::row_of(self.softmax, row);
            row.iter_mut().for_each(|x| *x = round(*x));
        } else {
            row.fill(0.0);
        }
        keep(3, row);
        Ok(())
    }
}
