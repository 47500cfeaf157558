//! The f32 matrix product that matrix products, convolutions and recurrent layers stand on.
//!
//! `C [m, n] = activation(A [m, k] · B [k, n] + biases + add)`, B in panels of 16 columns `[ceil(n / 16), k, 16]` with zeros
//! where there is no column; or made into such panels a bit at a time, in the workspace, from strided memory.
//! A is read where it lies, or a block of it is first copied or made in the workspace.
//!
//! The order of the sums depends on `k` alone for one instruction set, but for `m <= 4`, where it also depends on `m`.

use super::{
    micro::{self, PANEL, Tile},
    transpose,
};
use crate::{Fault, Isa, activation};
use core::{mem::take, ops::Range};
use plan::prim::{Activation, ActivationKind};

/// The most rows of A that are put into the workspace at once.
const BLOCK_ROWS: usize = 96;
/// The most terms of the sums that are taken at once.
const BLOCK_TERMS: usize = 320;
/// Panels of B that are put into the workspace at once.
const BLOCK_PANELS: usize = 2;

/// Extents of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
}

/// A matrix in memory: element `(i, j)` is `data[origin + i * row + j * col]`.
#[derive(Clone, Copy)]
pub(crate) struct Mat<'a> {
    /// The memory.
    pub data: &'a [f32],
    /// Where the first element is.
    pub origin: usize,
    /// Distance of rows.
    pub row: isize,
    /// Distance of columns.
    pub col: isize,
}

/// `fill(rows, terms, block, stride)` writes element `(rows.start + i, terms.start + j)` of A to `block[i * stride + j]`.
pub(crate) type FillRows<'a> = &'a mut dyn FnMut(Range<usize>, Range<usize>, &mut [f32], usize);

/// The left matrix.
pub(crate) enum A<'a> {
    /// In memory.
    Strided(Mat<'a>),
    /// Made block by block, each once.
    Fill(FillRows<'a>),
}

/// The right matrix.
pub(crate) enum B<'a> {
    /// In panels of 16 columns: `[ceil(n / 16), k, 16]`.
    Panels(&'a [f32]),
    /// In memory.
    Strided(Mat<'a>),
}

/// The result: columns are adjacent, rows at a distance of `row`.
pub(crate) struct C<'a> {
    /// The memory, from the first element.
    pub data: &'a mut [f32],
    /// Distance of rows.
    pub row: usize,
}

/// What is added to the product.
#[derive(Clone, Copy)]
pub(crate) enum Add<'a> {
    /// Nothing.
    Nothing,
    /// What C holds.
    C,
    /// Another matrix with the layout of C.
    Matrix(&'a [f32]),
}

/// What happens to the product before it is stored.
#[derive(Clone, Copy)]
pub(crate) struct Epilogue<'a> {
    /// Added to the columns: `n` elements.
    pub col_bias: Option<&'a [f32]>,
    /// Added to the rows: `m` elements.
    pub row_bias: Option<&'a [f32]>,
    /// Added to the elements.
    pub add: Add<'a>,
    /// Applied last.
    pub activation: Activation,
}

impl Epilogue<'_> {
    /// Nothing is done to the product.
    pub(crate) const NONE: Self =
        Epilogue { col_bias: None, row_bias: None, add: Add::Nothing, activation: Activation::IDENTITY };
}

/// `f32`s of workspace that [`run`] needs; never shrinks when an extent grows. `a_in_place`: A is
/// `Strided` with one row, adjacent columns or adjacent rows (large ones are faster with the workspace).
/// `b_in_place`: B is `Panels`.
pub(crate) fn workspace(size: Size, a_in_place: bool, b_in_place: bool) -> usize {
    let terms = size.k.min(BLOCK_TERMS);
    let a = if a_in_place { 0 } else { size.m.min(BLOCK_ROWS) * block_stride(terms) };
    let b = if b_in_place { 0 } else { size.n.div_ceil(PANEL).min(BLOCK_PANELS) * PANEL * terms };
    a + b
}

/// The distance of rows in a block of A: rows of one tile should not meet in one set of the cache.
fn block_stride(terms: usize) -> usize {
    terms.next_multiple_of(PANEL) + PANEL
}

/// Computes a product.
///
/// # Errors
/// When an operand or the workspace is too small for `size`.
pub(crate) fn run(
    isa: Isa,
    size: Size,
    a: A<'_>,
    b: B<'_>,
    c: C<'_>,
    epilogue: &Epilogue<'_>,
    workspace: &mut [f32],
) -> Result<(), Fault> {
    if size.m == 0 || size.n == 0 {
        return Ok(());
    }
    check(size, &a, &b, &c, epilogue)?;
    let mut job = Job::new(isa, size, a, b, c, epilogue, workspace)?;
    for rows in split(size.m, job.block_rows, job.tile_rows) {
        for terms in split(size.k, job.block_terms, 4) {
            job.block(rows.clone(), terms)?;
        }
        if job.activate_later {
            for row in rows {
                let row = job.c.wrapping_add(row * job.c_row);
                // SAFETY: `check` found the rows of C within its slice, which nothing else uses meanwhile.
                activation::apply(&epilogue.activation, isa, unsafe { core::slice::from_raw_parts_mut(row, size.n) });
            }
        }
    }
    Ok(())
}

/// Cuts `0..len` into ranges of at most `max` that are as equal as multiples of `unit`, of which `max` is one, allow; one range
/// at least.
fn split(len: usize, max: usize, unit: usize) -> impl Iterator<Item = Range<usize>> {
    let parts = len.div_ceil(max.max(1)).max(1);
    let units = len.div_ceil(unit);
    (0..parts).map(move |i| (units * i / parts * unit).min(len)..(units * (i + 1) / parts * unit).min(len))
}

fn check(size: Size, a: &A<'_>, b: &B<'_>, c: &C<'_>, epilogue: &Epilogue<'_>) -> Result<(), Fault> {
    let Size { m, n, k } = size;
    let panels = |columns: usize| columns.div_ceil(PANEL).checked_mul(k)?.checked_mul(PANEL);
    let a_fits = match a {
        A::Strided(mat) => mat.holds(m, k),
        A::Fill(_) => true,
    };
    let b_fits = match b {
        B::Strided(mat) => mat.holds(k, n),
        B::Panels(data) => panels(n).is_some_and(|len| len <= data.len()),
    };
    let c_len = (m - 1).checked_mul(c.row).and_then(|len| len.checked_add(n)).ok_or(Fault::Extent)?;
    let add_fits = match epilogue.add {
        Add::Matrix(data) => c_len <= data.len(),
        _ => true,
    };
    let biases_fit = epilogue.col_bias.is_none_or(|b| b.len() >= n) && epilogue.row_bias.is_none_or(|b| b.len() >= m);
    if a_fits && b_fits && add_fits && biases_fit && c_len <= c.data.len() && (c.row >= n || m == 1) {
        Ok(())
    } else {
        Err(Fault::Shape("an operand of a matrix product is too small"))
    }
}

impl Mat<'_> {
    /// Whether a matrix of these extents lies within the memory.
    fn holds(&self, rows: usize, cols: usize) -> bool {
        if rows == 0 || cols == 0 {
            return true;
        }
        let reach = |extent: usize, stride: isize| isize::try_from(extent - 1).ok()?.checked_mul(stride);
        let (Some(down), Some(right), Ok(origin)) =
            (reach(rows, self.row), reach(cols, self.col), isize::try_from(self.origin))
        else {
            return false;
        };
        let low = origin.checked_add(down.min(0)).and_then(|x| x.checked_add(right.min(0)));
        let high = origin.checked_add(down.max(0)).and_then(|x| x.checked_add(right.max(0)));
        low.is_some_and(|x| x >= 0) && high.is_some_and(|x| x.unsigned_abs() < self.data.len())
    }

    /// The address of an element: within the memory if the element is one of the matrix.
    fn at(&self, row: usize, col: usize) -> *const f32 {
        let offset = (row as isize).wrapping_mul(self.row).wrapping_add((col as isize).wrapping_mul(self.col));
        self.data.as_ptr().wrapping_add(self.origin).wrapping_offset(offset)
    }
}

/// How the micro-kernel reads the rows of a block of A.
#[derive(Clone, Copy)]
struct Rows {
    /// Row 0 of the block at its first term.
    first: *const f32,
    /// Distance of rows.
    row: isize,
    /// Distance of terms. One of the two is 1.
    term: isize,
}

/// A product under way.
struct Job<'a, 'b, 'w> {
    isa: Isa,
    size: Size,
    a: A<'a>,
    b: B<'b>,
    c: *mut f32,
    c_row: usize,
    /// The addend, with the layout of C, or null.
    add: *const f32,
    col_bias: *const f32,
    row_bias: *const f32,
    clip: Option<(f32, f32)>,
    /// The activation is more than a clip, and so done on stored rows.
    activate_later: bool,
    /// A goes through the workspace.
    copy_a: bool,
    tile_rows: usize,
    tile_panels: usize,
    block_rows: usize,
    block_terms: usize,
    a_block: &'w mut [f32],
    b_block: &'w mut [f32],
}

impl<'a, 'b, 'w> Job<'a, 'b, 'w> {
    fn new(
        isa: Isa,
        size: Size,
        a: A<'a>,
        b: B<'b>,
        c: C<'_>,
        epilogue: &Epilogue<'_>,
        mut workspace: &'w mut [f32],
    ) -> Result<Self, Fault> {
        let (tile_rows, tile_panels) = micro::tile_size(isa);
        let given = size_of_val(workspace);
        let a_needs = self::workspace(size, false, true);
        let b_needs = self::workspace(size, true, matches!(b, B::Panels(_)));
        let needed = (a_needs + b_needs).saturating_mul(size_of::<f32>());
        let b_block = take_floats(&mut workspace, b_needs).ok_or(Fault::Workspace { needed, given })?;
        let copy_a = match &a {
            A::Fill(_) => true,
            A::Strided(mat) => {
                size.m > 1 && (must_copy(mat) || (worth_copying(size, mat) && workspace.len() >= a_needs))
            }
        };
        let a_block = match copy_a {
            true => take_floats(&mut workspace, a_needs).ok_or(Fault::Workspace { needed, given })?,
            false => &mut [],
        };
        let whole_sums = size.m <= 4 && !copy_a && b_block.is_empty();
        let (clip, activate_later) = match clip_of(&epilogue.activation) {
            Some(clip) => (clip, false),
            None => (None, true),
        };
        let (c, c_row) = (c.data.as_mut_ptr(), c.row);
        Ok(Job {
            isa,
            size,
            a,
            b,
            c,
            c_row,
            add: match epilogue.add {
                Add::Nothing => core::ptr::null(),
                Add::C => c,
                Add::Matrix(data) => data.as_ptr(),
            },
            col_bias: epilogue.col_bias.map_or(core::ptr::null(), <[f32]>::as_ptr),
            row_bias: epilogue.row_bias.map_or(core::ptr::null(), <[f32]>::as_ptr),
            clip,
            activate_later,
            copy_a,
            tile_rows,
            tile_panels,
            // What is not copied need not fit; then panels of B are made only once.
            block_rows: if copy_a || b_block.is_empty() { BLOCK_ROWS } else { size.m },
            block_terms: if whole_sums { size.k.max(1) } else { BLOCK_TERMS },
            a_block,
            b_block,
        })
    }

    /// All columns of C for some rows and some terms of the sums.
    fn block(&mut self, rows: Range<usize>, terms: Range<usize>) -> Result<(), Fault> {
        let a = self.rows(rows.clone(), terms.clone());
        let panels = self.size.n.div_ceil(PANEL);
        for first in (0..panels).step_by(BLOCK_PANELS) {
            let chunk = first..(first + BLOCK_PANELS).min(panels);
            let (b, b_k, b_panel) = self.panels(chunk.clone(), terms.clone(), rows.len());
            let tiles = rows.len().div_ceil(self.tile_rows);
            for (i, tile) in split(rows.len(), self.tile_rows, 1).enumerate() {
                let ahead = self.ahead(chunk.end, &terms, i, tiles);
                let a_first = a.first.wrapping_offset((tile.start as isize).wrapping_mul(a.row));
                let at = rows.start + tile.start;
                for panel in chunk.clone().step_by(self.tile_panels) {
                    let b = b.wrapping_offset((panel - first) as isize * b_panel);
                    let b = Rows { first: b, row: b_panel, term: b_k };
                    let a = Rows { first: a_first, ..a };
                    // What is ahead is brought once for all the tiles of these rows.
                    let ahead = if panel == first { ahead } else { (core::ptr::null(), 0) };
                    self.tile(at..at + tile.len(), panel, chunk.end, &terms, a, b, ahead)?;
                }
            }
        }
        Ok(())
    }

    /// The part of the next panels, from `panel` on, that tile `i` of `tiles` brings near while it computes.
    fn ahead(&self, panel: usize, terms: &Range<usize>, i: usize, tiles: usize) -> (*const f32, usize) {
        let B::Panels(data) = &self.b else { return (core::ptr::null(), 0) };
        let count = self.size.n.div_ceil(PANEL).saturating_sub(panel).min(BLOCK_PANELS);
        let each = (count * terms.len()).div_ceil(tiles.max(1));
        let (skip, term) = (i * each / terms.len().max(1), i * each % terms.len().max(1));
        if skip >= count {
            return (core::ptr::null(), 0);
        }
        let at = ((panel + skip) * self.size.k + terms.start + term) * PANEL;
        (data.as_ptr().wrapping_add(at), each.min(terms.len() - term))
    }

    /// One tile.
    #[allow(clippy::too_many_arguments)]
    fn tile(
        &mut self,
        rows: Range<usize>,
        panel: usize,
        panels_end: usize,
        terms: &Range<usize>,
        a: Rows,
        b: Rows,
        ahead: (*const f32, usize),
    ) -> Result<(), Fault> {
        let panels = self.tile_panels.min(panels_end - panel);
        let (first_term, last_term) = (terms.start == 0, terms.end == self.size.k);
        let col = panel * PANEL;
        let c_at = rows.start * self.c_row + col;
        let null = core::ptr::null();
        let unit_rows = a.row == 1;
        let tile = Tile {
            k: terms.len(),
            a: a.first,
            a_stride: if unit_rows { a.term } else { a.row },
            b: b.first,
            b_k: b.term,
            b_panel: b.row,
            c: self.c.wrapping_add(c_at),
            c_row: self.c_row,
            cols: (self.size.n - col).min(panels * PANEL),
            add: match first_term {
                true if self.add.is_null() => null,
                true => self.add.wrapping_add(c_at),
                false => self.c.wrapping_add(c_at),
            },
            col_bias: if first_term && !self.col_bias.is_null() { self.col_bias.wrapping_add(col) } else { null },
            row_bias: if first_term && !self.row_bias.is_null() {
                self.row_bias.wrapping_add(rows.start)
            } else {
                null
            },
            clip: if last_term { self.clip } else { None },
            ahead,
        };
        let kernel = micro::choose(self.isa, rows.len(), panels, unit_rows).ok_or(Fault::Unsupported("tile"))?;
        // SAFETY: `check` found every element of A, B, C, the biases and the addend that the tile names within its slice (or
        // they are in the blocks, which are as large); and whoever gives `isa` has found it present.
        unsafe { kernel(&tile) };
        Ok(())
    }

    /// The rows of a block of A, copied or made first if need be.
    fn rows(&mut self, rows: Range<usize>, terms: Range<usize>) -> Rows {
        let stride = block_stride(terms.len());
        match &mut self.a {
            A::Fill(fill) => {
                fill(rows, terms, self.a_block, stride);
                Rows { first: self.a_block.as_ptr(), row: stride as isize, term: 1 }
            }
            A::Strided(mat) if !self.copy_a => {
                let first = mat.at(rows.start, terms.start);
                let row = if self.size.m == 1 { 1 } else { mat.row };
                Rows { first, row, term: mat.col }
            }
            A::Strided(mat) if mat.row == 1 => {
                copy(mat.at(rows.start, terms.start), mat.col, 1, terms.len(), rows.len(), self.a_block, rows.len());
                Rows { first: self.a_block.as_ptr(), row: 1, term: rows.len() as isize }
            }
            A::Strided(mat) => {
                let first = mat.at(rows.start, terms.start);
                copy(first, mat.row, mat.col, rows.len(), terms.len(), self.a_block, stride);
                Rows { first: self.a_block.as_ptr(), row: stride as isize, term: 1 }
            }
        }
    }

    /// Some panels of B: the address of the first, the distance of terms, and that of panels.
    fn panels(&mut self, panels: Range<usize>, terms: Range<usize>, rows: usize) -> (*const f32, isize, isize) {
        let panel_len = terms.len() * PANEL;
        match &mut self.b {
            B::Panels(data) => {
                let first = (panels.start * self.size.k + terms.start) * PANEL;
                return (data.as_ptr().wrapping_add(first), PANEL as isize, (self.size.k * PANEL) as isize);
            }
            // Where each element is used once or twice, a copy does not pay; a last panel is not whole.
            B::Strided(mat) if mat.col == 1 && rows <= self.tile_rows && panels.end * PANEL <= self.size.n => {
                return (mat.at(terms.start, panels.start * PANEL), mat.row, PANEL as isize);
            }
            B::Strided(mat) => {
                for (panel, block) in panels.zip(self.b_block.chunks_exact_mut(panel_len.max(1))) {
                    let col = panel * PANEL;
                    let cols = (self.size.n - col).min(PANEL);
                    let first = mat.at(terms.start, col);
                    if mat.row == 1 && cols == PANEL {
                        // SAFETY: `check` found the columns within the memory; the block has as many rows.
                        unsafe { transpose::panel(self.isa, first, mat.col, terms.len(), block.as_mut_ptr()) };
                        continue;
                    }
                    if cols < PANEL {
                        block.fill(0.0);
                    }
                    copy(first, mat.row, mat.col, terms.len(), cols, block, PANEL);
                }
            }
        }
        (self.b_block.as_ptr(), PANEL as isize, panel_len as isize)
    }
}

/// Neither rows nor columns are adjacent.
fn must_copy(mat: &Mat<'_>) -> bool {
    mat.row != 1 && mat.col != 1
}

/// Whether a copy of A is repaid: it is read again for every panel or two of B, and rows that lie a multiple of some
/// power of two apart push each other out of the cache.
fn worth_copying(size: Size, mat: &Mat<'_>) -> bool {
    size.n >= 128 && (mat.col != 1 || mat.row.unsigned_abs().is_multiple_of(128))
}

/// The limits that stand for an activation, where it is no more than limits: `None` for another, `Some(None)` for none.
fn clip_of(activation: &Activation) -> Option<Option<(f32, f32)>> {
    match activation.kind {
        ActivationKind::Identity => Some(None),
        ActivationKind::Relu => Some(Some((0.0, f32::INFINITY))),
        ActivationKind::Clip => Some(Some((activation.alpha, activation.beta))),
        _ => None,
    }
}

/// Cuts `len` floats off the workspace.
fn take_floats<'a>(workspace: &mut &'a mut [f32], len: usize) -> Option<&'a mut [f32]> {
    let (part, rest) = take(workspace).split_at_mut_checked(len)?;
    *workspace = rest;
    Some(part)
}

/// Copies a matrix of `rows × cols` at `from` (strides `row`, `col`) to rows at a distance of `stride` in `to`.
fn copy(from: *const f32, row: isize, col: isize, rows: usize, cols: usize, to: &mut [f32], stride: usize) {
    for (i, to) in to.chunks_mut(stride.max(1)).enumerate().take(rows) {
        let from = from.wrapping_offset(i as isize * row);
        if col == 1 {
            // SAFETY: the callers' matrices lie within their memory, as `check` found, and rows are adjacent elements.
            let from = unsafe { core::slice::from_raw_parts(from, cols) };
            for (to, from) in to.iter_mut().zip(from) {
                *to = *from;
            }
        } else {
            for (j, to) in to.iter_mut().enumerate().take(cols) {
                // SAFETY: the callers' matrices lie within their memory, as `check` found.
                *to = unsafe { *from.wrapping_offset(j as isize * col) };
            }
        }
    }
}

#[cfg(test)]
#[path = "gemm_tests.rs"]
mod tests;
