//! Matrix products: operands and batches. The f32 product is in `gemm`, that of bytes in `bytes`, other types in `reference`.

pub(crate) mod activate;
mod bytes;
pub(crate) mod gemm;
mod micro;
mod reference;
mod transpose;

use crate::{Call, Dst, Fault, Meta, Src};
use gemm::{A, Add, B, C, Epilogue, Mat, Size};
use plan::{
    DType, MAX_RANK,
    prim::{MatLayout, MatMul},
};

/// Runs [`MatMul`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn matmul(p: &MatMul, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let mut dst = call.dst(0)?;
    let product = Product::new(p, call, &dst)?;
    if dst.is_empty() {
        return Ok(());
    }
    match product.a.dtype() {
        DType::F32 => float32(p, call, product, &mut dst),
        _ => reference::run(p, call, &product, &mut dst),
    }
}

/// Bytes of workspace.
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn workspace(p: &MatMul, reads: &[Option<Meta>], writes: &[Option<Meta>]) -> Result<usize, Fault> {
    let (Some(Some(a)), Some(Some(w))) = (reads.first(), writes.first()) else {
        return Err(Fault::Missing { operand: 0 });
    };
    let (&[.., k], &[.., n]) = (a.dims.as_slice(), w.dims.as_slice()) else {
        return Err(Fault::Shape("the rank of a matrix product is below 2"));
    };
    if a.dtype != DType::F32 {
        return Ok(0);
    }
    // Batches may become rows.
    let m = w.dims.iter().rev().skip(1).try_fold(1usize, |m, d| m.checked_mul(*d)).ok_or(Fault::Extent)?;
    let floats = gemm::workspace(Size { m, n, k }, m <= 1, p.b == MatLayout::Panels16);
    Ok(floats * size_of::<f32>())
}

/// The place of a matrix of each batch: strides of the batch axes, of rows and of columns.
#[derive(Clone, Copy, Default)]
struct Strides {
    batch: [isize; MAX_RANK],
    row: isize,
    col: isize,
}

impl Strides {
    /// Of a view with the rank of the product.
    fn of(strides: &[isize]) -> Option<Strides> {
        let (&[ref batch @ .., row, col], mut all) = (strides, [0; MAX_RANK]) else { return None };
        all.get_mut(..batch.len())?.copy_from_slice(batch);
        Some(Strides { batch: all, row, col })
    }

    /// The offset of a batch.
    fn offset(&self, place: &[usize; MAX_RANK]) -> isize {
        self.batch.iter().zip(place).fold(0, |sum, (s, i)| sum.wrapping_add(s.wrapping_mul(*i as isize)))
    }
}

/// A product's operands, found to fit.
struct Product<'a> {
    a: Src<'a>,
    b: Src<'a>,
    bias: Option<Src<'a>>,
    residual: Option<Src<'a>>,
    size: Size,
    /// Extents of the batch axes, and how many there are.
    batch: [usize; MAX_RANK],
    batch_rank: usize,
    a_at: Strides,
    b_at: Strides,
    c_at: Strides,
    bias_at: Strides,
    residual_at: Strides,
}

impl<'a> Product<'a> {
    fn new(p: &MatMul, call: &Call<'_, 'a>, dst: &Dst<'a>) -> Result<Self, Fault> {
        let (a, b, bias, residual) = (call.src(0)?, call.src(1)?, call.opt_src(2), call.opt_src(3));
        let wrong = Fault::Shape("operands of a matrix product do not fit");
        let (&[ref batch_dims @ .., m, k], &[ref out_dims @ .., rows, n]) = (a.dims(), dst.dims()) else {
            return Err(wrong);
        };
        let b_fits = match (p.b, b.dims()) {
            (MatLayout::Plain, [batch @ .., rows, cols]) => batch == batch_dims && *rows == k && *cols == n,
            (MatLayout::Panels16, dims) => {
                dims == [n.div_ceil(micro::PANEL), k, micro::PANEL] && b.is_contiguous() && b.dtype() == DType::F32
            }
            _ => false,
        };
        let like_dst = |src: &Option<Src<'_>>| src.is_none_or(|s| s.dims() == dst.dims() && s.dtype() == dst.dtype());
        if out_dims != batch_dims || rows != m || !b_fits || !like_dst(&bias) || !like_dst(&residual) {
            return Err(wrong);
        }
        if !dst.is_contiguous() {
            return Err(Fault::Strided);
        }
        let mut batch = [1; MAX_RANK];
        batch.get_mut(..batch_dims.len()).ok_or(wrong)?.copy_from_slice(batch_dims);
        let strides = |src: &Option<Src<'_>>| src.map_or(Some(Strides::default()), |s| Strides::of(s.strides()));
        let b_at = match p.b {
            MatLayout::Plain => Strides::of(b.strides()),
            MatLayout::Panels16 => Some(Strides::default()),
        };
        Ok(Product {
            a,
            b,
            bias,
            residual,
            size: Size { m, n, k },
            batch,
            batch_rank: batch_dims.len(),
            a_at: Strides::of(a.strides()).ok_or(wrong)?,
            b_at: b_at.ok_or(wrong)?,
            c_at: Strides::of(dst.strides()).ok_or(wrong)?,
            bias_at: strides(&bias).ok_or(wrong)?,
            residual_at: strides(&residual).ok_or(wrong)?,
        })
    }

    /// Makes rows of the inner batch axes where the rows of every operand go on at their own distance and B is the same.
    fn merge_batches(&mut self) {
        while let Some(axis) = self.batch_rank.checked_sub(1) {
            let (count, m) = (self.batch.get(axis).copied().unwrap_or(1), self.size.m);
            let batch = |s: &Strides| s.batch.get(axis).copied().unwrap_or(0);
            let goes_on = |s: &Strides| m == 1 || batch(s) == s.row.wrapping_mul(m as isize);
            let mut all = [&mut self.a_at, &mut self.c_at, &mut self.bias_at, &mut self.residual_at];
            if count != 1 && !(batch(&self.b_at) == 0 && all.iter().all(|s| goes_on(s))) {
                return;
            }
            for s in &mut all {
                if m == 1 {
                    s.row = batch(s);
                }
                if let Some(stride) = s.batch.get_mut(axis) {
                    *stride = 0;
                }
            }
            self.size.m *= count;
            if let Some(count) = self.batch.get_mut(axis) {
                *count = 1;
            }
            self.batch_rank = axis;
        }
    }

    /// Calls `f` with the place of each batch.
    fn each_batch(&self, mut f: impl FnMut(&[usize; MAX_RANK]) -> Result<(), Fault>) -> Result<(), Fault> {
        let mut place = [0; MAX_RANK];
        loop {
            f(&place)?;
            // The next place, as an odometer counts.
            let mut carried = true;
            for (i, count) in place.iter_mut().zip(self.batch).rev() {
                *i += 1;
                if *i < count {
                    carried = false;
                    break;
                }
                *i = 0;
            }
            if carried {
                return Ok(());
            }
        }
    }
}

/// The f32 product.
fn float32(p: &MatMul, call: &mut Call<'_, '_>, mut product: Product<'_>, dst: &mut Dst<'_>) -> Result<(), Fault> {
    product.merge_batches();
    let product = product;
    let Size { m, n, .. } = product.size;
    let (a, b) = (product.a.span::<f32>()?, product.b.span::<f32>()?);
    let (a_origin, b_origin) = (product.a.origin(), product.b.origin());
    let bias = product.bias.map(|s| Ok((s.span::<f32>()?, s.origin()))).transpose()?;
    // A residual that is C itself is already where it is wanted.
    let in_place = product.residual.is_some_and(|r| r.is_shared());
    let residual =
        product.residual.filter(|r| !r.is_shared()).map(|s| Ok((s.span::<f32>()?, s.origin()))).transpose()?;
    let isa = call.isa();
    let all_workspace = call.take_workspace();
    // SAFETY: every bit pattern is an `f32`.
    let (_, workspace, _) = unsafe { all_workspace.align_to_mut::<f32>() };
    let out = dst.slice::<f32>()?;
    let (c_row, residual_at) = (product.c_at.row.unsigned_abs(), product.residual_at);
    let same_layout = residual_at.col == 1 && (m == 1 || residual_at.row == product.c_at.row);
    product.each_batch(|place| {
        let at = |origin: usize, s: &Strides| origin.wrapping_add_signed(s.offset(place));
        let c = out.get_mut(at(0, &product.c_at)..).ok_or(Fault::OutOfBounds)?;
        let bias = bias.map(|(data, origin)| (data, at(origin, &product.bias_at)));
        let residual = residual.map(|(data, origin)| (data, at(origin, &residual_at)));
        let mut epilogue = Epilogue { activation: p.activation, ..Epilogue::NONE };
        let vector = bias.and_then(|b| vector_bias(b, &product.bias_at, product.size, &mut epilogue));
        let matrix = residual.filter(|_| same_layout).and_then(|(data, origin)| data.get(origin..));
        if (bias.is_some() && vector.is_none()) || (residual.is_some() && matrix.is_none()) {
            let bias = bias.filter(|_| vector.is_none()).map(|b| (b, &product.bias_at));
            prefill(c, c_row, (m, n), in_place, residual.map(|r| (r, &residual_at)), bias)?;
            epilogue.add = Add::C;
        } else if let Some(matrix) = matrix {
            epilogue.add = Add::Matrix(matrix);
        } else if in_place {
            epilogue.add = Add::C;
        }
        let mat = |data, origin, s: &Strides| Mat { data, origin: at(origin, s), row: s.row, col: s.col };
        let b = match p.b {
            MatLayout::Plain => B::Strided(mat(b, b_origin, &product.b_at)),
            MatLayout::Panels16 => B::Panels(b),
        };
        let a = A::Strided(mat(a, a_origin, &product.a_at));
        gemm::run(isa, product.size, a, b, C { data: c, row: c_row }, &epilogue, workspace)
    })
}

/// Where a bias is: its memory and the index of the first element.
type Place<'a> = (&'a [f32], usize);

/// Puts a bias that is a vector by columns or by rows into the epilogue; gives none where it is not.
fn vector_bias<'a>(bias: Place<'a>, at: &Strides, size: Size, epilogue: &mut Epilogue<'a>) -> Option<()> {
    let (same_rows, same_cols) = (at.row == 0 || size.m == 1, at.col == 0 || size.n == 1);
    if same_rows && (at.col == 1 || size.n == 1) {
        epilogue.col_bias = bias.0.get(bias.1..);
    } else if same_cols && at.row == 1 {
        epilogue.row_bias = bias.0.get(bias.1..);
    } else {
        return None;
    }
    Some(())
}

/// C gets what is added to the product: what it holds, or a residual, or nothing; and a bias.
fn prefill(
    c: &mut [f32],
    c_row: usize,
    (m, n): (usize, usize),
    in_place: bool,
    residual: Option<(Place<'_>, &Strides)>,
    bias: Option<(Place<'_>, &Strides)>,
) -> Result<(), Fault> {
    let read = |(place, s): (Place<'_>, &Strides), i: usize, j: usize| {
        let offset = s.row.wrapping_mul(i as isize).wrapping_add(s.col.wrapping_mul(j as isize));
        place.0.get(place.1.wrapping_add_signed(offset)).copied().ok_or(Fault::OutOfBounds)
    };
    for i in 0..m {
        let row = c.get_mut(i * c_row..).and_then(|c| c.get_mut(..n)).ok_or(Fault::OutOfBounds)?;
        for (j, x) in row.iter_mut().enumerate() {
            let held = match residual {
                Some(residual) => read(residual, i, j)?,
                None if in_place => *x,
                None => 0.0,
            };
            *x = match bias {
                Some(bias) => held + read(bias, i, j)?,
                None => held,
            };
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "matmul/tests.rs"]
mod tests;
