//! Attention of any floating-point types by the definition, in f64, a query at a time.

use super::{Job, start, steps};
use crate::{
    Call, Dst, Fault,
    real::{Reals, RealsMut},
};

/// Runs the attention.
pub(super) fn run(
    job: &Job<'_>,
    call: &mut Call<'_, '_>,
    out: &mut Dst<'_>,
    kept: Option<&mut Dst<'_>>,
) -> Result<(), Fault> {
    let e = job.extents;
    let (q, k, v) = (Reals::of(&job.q)?, Reals::of(&job.k)?, Reals::of(&job.v)?);
    let (mut out, mut kept) = (RealsMut::of(out)?, kept.map(RealsMut::of).transpose()?);
    let row = call.take_workspace_of::<f64>(e.skv)?;
    let element = |data: &Reals<'_>, origin: usize, (down, right): (isize, isize), i: usize, j: usize| {
        let offset = down.wrapping_mul(i as isize).wrapping_add(right.wrapping_mul(j as isize));
        data.get(origin.wrapping_add_signed(offset))
    };
    for at in 0..e.batch * e.q_heads * e.sq {
        let (b, h, i) = (at / e.sq / e.q_heads, at / e.sq % e.q_heads, at % e.sq);
        let kv = job.kv_head(h);
        let (q_at, k_at, v_at) = (start(&job.q, b, h), start(&job.k, b, kv), start(&job.v, b, kv));
        for (j, score) in row.iter_mut().enumerate() {
            let product = |x| element(&q, q_at, steps(&job.q), i, x) * element(&k, k_at, steps(&job.k), j, x);
            *score = (0..e.d).map(product).sum::<f64>() * job.scale;
        }
        let mut keep = |mode: u8, row: &[f64]| {
            if let Some(kept) = kept.as_mut().filter(|_| mode == job.scores) {
                row.iter().enumerate().for_each(|(j, x)| kept.set(at * e.skv + j, *x));
            }
        };
        keep(0, row);
        if job.softcap > 0.0 {
            let cap = f64::from(job.softcap);
            row.iter_mut().for_each(|x| *x = cap * libm::tanh(*x / cap));
        }
        keep(1, row);
        let keys = job.keys(b, i)?;
        for (j, score) in row.iter_mut().enumerate() {
            if !keys.contains(&j) {
                *score = f64::NEG_INFINITY;
            }
        }
        let any = job.masked([b, h, i], keys, |key, x| {
            if let Some(score) = row.get_mut(key) {
                *score += x;
            }
        });
        keep(2, row);
        if any {
            let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            row.iter_mut().for_each(|x| *x = libm::exp(*x - max));
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|x| *x /= sum);
        } else {
            row.fill(0.0);
        }
        keep(3, row);
        for x in 0..e.dv {
            let sum = row.iter().enumerate().map(|(j, p)| p * element(&v, v_at, steps(&job.v), j, x)).sum();
            out.set(at * e.dv + x, sum);
        }
    }
    Ok(())
}
