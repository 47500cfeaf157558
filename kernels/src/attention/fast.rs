//! Attention in f32: blocks of queries whose scores fit the workspace, by matrix products.

use super::{Extents, Job, start, steps};
use crate::{
    Call, Fault, activation,
    matmul::gemm::{self, A, B, C, Epilogue, Mat, Size},
    softmax,
};
use plan::prim::{Activation, ActivationKind};

/// Scores kept at once, but for those of [`MIN_ROWS`] queries at least.
const SCORES: usize = 1 << 17;
/// The fewest queries of a block.
const MIN_ROWS: usize = 16;

/// Numbers of f32 of workspace.
pub(super) fn floats(e: &Extents) -> Result<usize, Fault> {
    let all = e.sq.checked_mul(e.skv).ok_or(Fault::Extent)?;
    let few = e.skv.checked_mul(MIN_ROWS).ok_or(Fault::Extent)?;
    all.min(few.max(SCORES)).checked_add(product(e)).ok_or(Fault::Extent)
}

/// What the products need.
fn product(e: &Extents) -> usize {
    let scores = gemm::workspace(Size { m: e.sq, n: e.skv, k: e.d }, false, false);
    scores.max(gemm::workspace(Size { m: e.sq, n: e.dv, k: e.skv }, true, false))
}

/// Runs the attention.
pub(super) fn run(
    job: &Job<'_>,
    call: &mut Call<'_, '_>,
    out: &mut [f32],
    mut kept: Option<&mut [f32]>,
) -> Result<(), Fault> {
    let (e, isa) = (job.extents, call.isa());
    let (q, k, v) = (job.q.span::<f32>()?, job.k.span::<f32>()?, job.v.span::<f32>()?);
    let ((q_row, q_col), (k_row, k_col), (v_row, v_col)) = (steps(&job.q), steps(&job.k), steps(&job.v));
    let given = call.take_workspace_of::<f32>(floats(&e)?)?;
    let (scores, workspace) = given.split_at_mut(given.len() - product(&e));
    let block = (SCORES / e.skv.max(1)).clamp(MIN_ROWS, e.sq.max(MIN_ROWS));
    let scale = Activation { kind: ActivationKind::Affine, alpha: job.scale as f32, beta: 0.0 };
    for head in 0..e.batch * e.q_heads {
        let (b, h) = (head / e.q_heads, head % e.q_heads);
        let kv = job.kv_head(h);
        for first in (0..e.sq).step_by(block) {
            let rows = block.min(e.sq - first);
            let origin = start(&job.q, b, h).wrapping_add_signed(q_row.wrapping_mul(first as isize));
            let queries = A::Strided(Mat { data: q, origin, row: q_row, col: q_col });
            let keys = B::Strided(Mat { data: k, origin: start(&job.k, b, kv), row: k_col, col: k_row });
            let size = Size { m: rows, n: e.skv, k: e.d };
            let epilogue = Epilogue { activation: scale, ..Epilogue::NONE };
            gemm::run(isa, size, queries, keys, C { data: &mut *scores, row: e.skv }, &epilogue, workspace)?;
            // Keys past this one count for no query of the block.
            let mut end = 0;
            for i in 0..rows {
                let row = scores.get_mut(i * e.skv..(i + 1) * e.skv).ok_or(Fault::OutOfBounds)?;
                let at = (head * e.sq + first + i) * e.skv;
                let kept = kept.as_mut().and_then(|k| k.get_mut(at..at + e.skv));
                end = end.max(job.row(isa, [b, h, first + i], row, kept)?);
            }
            let weights = A::Strided(Mat { data: scores, origin: 0, row: e.skv as isize, col: 1 });
            let values = B::Strided(Mat { data: v, origin: start(&job.v, b, kv), row: v_row, col: v_col });
            let out = out.get_mut((head * e.sq + first) * e.dv..).ok_or(Fault::OutOfBounds)?;
            let size = Size { m: rows, n: e.dv, k: end };
            gemm::run(isa, size, weights, values, C { data: out, row: e.dv }, &Epilogue::NONE, workspace)?;
        }
    }
    Ok(())
}

impl Job<'_> {
    /// Makes probabilities of the scaled scores of a query, and gives the end of the keys that count.
    fn row(
        &self,
        isa: crate::Isa,
        place: [usize; 3],
        row: &mut [f32],
        mut kept: Option<&mut [f32]>,
    ) -> Result<usize, Fault> {
        let mut keep = |mode: u8, row: &[f32]| {
            if let Some(kept) = kept.as_mut().filter(|_| mode == self.scores) {
                kept.copy_from_slice(row);
            }
        };
        keep(0, row);
        if self.softcap > 0.0 {
            let kind = ActivationKind::ScaledTanh;
            activation::apply(&Activation { kind, alpha: self.softcap, beta: 1.0 / self.softcap }, isa, row);
        }
        keep(1, row);
        let [b, _, query] = place;
        let keys = self.keys(b, query)?;
        let any = self.masked(place, keys.clone(), |key, x| {
            if let Some(score) = row.get_mut(key) {
                *score += x as f32;
            }
        });
        let outside = |row: &mut [f32], x: f32| {
            let (before, rest) = row.split_at_mut(keys.start);
            before.fill(x);
            rest.split_at_mut(keys.len()).1.fill(x);
        };
        outside(row, f32::NEG_INFINITY);
        keep(2, row);
        outside(row, 0.0);
        let inside = row.get_mut(keys.clone()).ok_or(Fault::OutOfBounds)?;
        match any {
            true => softmax::row_in_place(isa, inside),
            false => inside.fill(0.0),
        }
        keep(3, row);
        Ok(if any { keys.end } else { 0 })
    }
}
