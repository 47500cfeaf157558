//! Recurrent layers in f32: the data of many steps by one matrix product, then for each step a product with the state and
//! the cell's arithmetic on rows.

use super::{Extents, Layer};
use crate::{
    Call, Dst, Fault, Isa, Src, activation,
    matmul::gemm::{self, A, Add, B, C, Epilogue, Mat, Size},
    simd::{Simd, isa_fn},
};
use plan::prim::{Activation, RnnKind, RnnLayout};

/// Gate inputs kept at once, but for one step at least.
const CHUNK: usize = 1 << 16;
/// Columns of a panel.
const PANEL: usize = 16;

/// Numbers of f32 of workspace.
pub(super) fn floats(e: &Extents, layout: RnnLayout) -> Result<usize, Fault> {
    let Parts { gates, bias, states, recurrent, reset, product } = Parts::new(e, layout);
    [bias, states, states, recurrent, reset, product]
        .into_iter()
        .try_fold(gates, usize::checked_add)
        .ok_or(Fault::Extent)
}

/// Extents of the parts of the workspace.
struct Parts {
    gates: usize,
    bias: usize,
    /// Of h, and of c: for a layer that does not write them.
    states: usize,
    /// GRU: the product of the state with the candidate's weights.
    recurrent: usize,
    /// GRU: the state that reset let through.
    reset: usize,
    product: usize,
}

impl Parts {
    fn new(e: &Extents, layout: RnnLayout) -> Parts {
        let states = e.batch * e.hidden;
        let in_place = layout == RnnLayout::Panels16;
        let data = gemm::workspace(Size { m: e.seq * e.batch, n: e.rows, k: e.input }, true, in_place);
        let recurrent = gemm::workspace(Size { m: e.batch, n: e.rows, k: e.hidden }, true, in_place);
        Parts {
            gates: (e.seq * e.batch * e.rows).min(CHUNK.max(e.batch * e.rows)),
            bias: e.rows,
            states,
            recurrent: e.batch * (e.hidden + PANEL),
            reset: states,
            product: data.max(recurrent),
        }
    }
}

/// What one direction works with.
struct Direction<'a> {
    isa: Isa,
    kind: RnnKind,
    extents: Extents,
    functions: [Activation; 3],
    clip: f32,
    /// Weights of the data and of the state.
    w: Weights<'a>,
    r: Weights<'a>,
    /// Of the gates; for a GRU with a linear reset, the candidate's part is only that of the data, and `r_bias` the other.
    bias: Option<&'a [f32]>,
    r_bias: Option<&'a [f32]>,
    /// i, o, f.
    peepholes: Option<&'a [f32]>,
}

/// Weights of one direction: `[rows, k]`, or panels of it.
#[derive(Clone, Copy)]
struct Weights<'a> {
    data: &'a [f32],
    k: usize,
    layout: RnnLayout,
}

impl<'a> Weights<'a> {
    fn new(src: &Src<'a>, direction: usize, e: &Extents, layout: RnnLayout) -> Result<Self, Fault> {
        let k = src.dims().get(2).copied().unwrap_or(0);
        let len = if layout == RnnLayout::Plain { e.rows * k } else { e.rows.div_ceil(PANEL) * PANEL * k };
        let data = src.slice::<f32>()?.get(direction * len..).and_then(|d| d.get(..len)).ok_or(Fault::OutOfBounds)?;
        Ok(Weights { data, k, layout })
    }

    /// The weights transposed, from a row on, which for panels is rounded down to a multiple of 16.
    fn starting_at(&self, row: usize) -> B<'a> {
        match self.layout {
            RnnLayout::Plain => B::Strided(Mat { data: self.data, origin: row * self.k, row: 1, col: self.k as isize }),
            RnnLayout::Panels16 => B::Panels(self.data.get(row / PANEL * PANEL * self.k..).unwrap_or_default()),
        }
    }

    /// How far `starting_at` rounds down.
    fn skew(&self, row: usize) -> usize {
        if self.layout == RnnLayout::Plain { 0 } else { row % PANEL }
    }
}

/// A matrix of adjacent rows.
fn rows(data: &[f32], k: usize) -> A<'_> {
    A::Strided(Mat { data, origin: 0, row: k as isize, col: 1 })
}

/// Cuts `len` numbers off a slice.
fn cut<'a>(rest: &mut &'a mut [f32], len: usize) -> Result<&'a mut [f32], Fault> {
    let given = size_of_val(*rest);
    let (part, more) = core::mem::take(rest)
        .split_at_mut_checked(len)
        .ok_or(Fault::Workspace { needed: len * size_of::<f32>(), given })?;
    *rest = more;
    Ok(part)
}

/// The state of a direction: in the write that it ends in, or in the workspace; with its first value.
fn state<'a>(
    write: &'a mut Option<Dst<'_>>,
    first: &Option<Src<'_>>,
    direction: usize,
    spare: &'a mut [f32],
) -> Result<&'a mut [f32], Fault> {
    let len = spare.len();
    let at = direction * len;
    let to = match write {
        Some(write) => write.slice::<f32>()?.get_mut(at..at + len).ok_or(Fault::OutOfBounds)?,
        None => spare,
    };
    match first {
        Some(first) if first.is_shared() => {}
        Some(first) => to.copy_from_slice(first.slice::<f32>()?.get(at..at + len).ok_or(Fault::OutOfBounds)?),
        None => to.fill(0.0),
    }
    Ok(to)
}

/// Runs a layer.
pub(super) fn run(layer: &Layer<'_>, call: &mut Call<'_, '_>, writes: &mut [Option<Dst<'_>>; 3]) -> Result<(), Fault> {
    let e = layer.extents;
    let parts = Parts::new(&e, layer.layout);
    let mut rest = call.take_workspace_of::<f32>(floats(&e, layer.layout)?)?;
    let rest = &mut rest;
    let (gates, bias_sum) = (cut(rest, parts.gates)?, cut(rest, parts.bias)?);
    let (spare_h, spare_c) = (cut(rest, parts.states)?, cut(rest, parts.states)?);
    let mut scratch = Scratch {
        recurrent: cut(rest, parts.recurrent)?,
        reset: cut(rest, parts.reset)?,
        product: cut(rest, parts.product)?,
    };
    let [y, last_h, last_c] = writes;
    let mut y = y.as_mut().map(|y| y.slice::<f32>()).transpose()?;
    let x = layer.x.slice::<f32>()?;
    for d in 0..layer.directions {
        let direction = Direction::new(layer, d, call.isa(), bias_sum)?;
        let h = state(last_h, &layer.first_h, d, spare_h)?;
        let c = state(last_c, &layer.first_c, d, spare_c)?;
        let chunk = (CHUNK / (e.batch * e.rows).max(1)).clamp(1, e.seq.max(1));
        let chunks = e.seq.div_ceil(chunk);
        for i in 0..chunks {
            let first = if layer.backwards(d) { chunks - 1 - i } else { i } * chunk;
            let steps = chunk.min(e.seq - first);
            direction.data(x, first, steps, gates, scratch.product)?;
            for j in 0..steps {
                let t = first + if layer.backwards(d) { steps - 1 - j } else { j };
                let now = gates.get_mut((t - first) * e.batch * e.rows..).ok_or(Fault::OutOfBounds)?;
                direction.recur(now, h, &mut scratch)?;
                let mut y = y.as_mut().and_then(|y| y.get_mut((t * layer.directions + d) * e.batch * e.hidden..));
                for b in 0..e.batch {
                    let units = b * e.hidden..(b + 1) * e.hidden;
                    let y = y.as_mut().and_then(|y| y.get_mut(units.clone()));
                    if t >= layer.length(b) {
                        y.into_iter().for_each(|y| y.fill(0.0));
                        continue;
                    }
                    let (Some(h), Some(c)) = (h.get_mut(units.clone()), c.get_mut(units.clone())) else { continue };
                    direction.cell(b, now, h, c, &scratch)?;
                    y.into_iter().for_each(|y| y.copy_from_slice(h));
                }
            }
        }
    }
    Ok(())
}

/// Buffers of one step.
struct Scratch<'a> {
    recurrent: &'a mut [f32],
    reset: &'a mut [f32],
    product: &'a mut [f32],
}

/// Part `i` of `len` elements of a contiguous view that may be absent.
fn part<'a>(src: Option<Src<'a>>, i: usize, len: usize) -> Result<Option<&'a [f32]>, Fault> {
    src.map(|s| s.slice::<f32>()?.get(i * len..(i + 1) * len).ok_or(Fault::OutOfBounds)).transpose()
}

/// The biases that are always added together, and that of the candidate's recurrent part where it is added before the reset.
fn sum_biases<'a>(
    kind: RnnKind,
    both: &'a [f32],
    e: &Extents,
    sum: &'a mut [f32],
) -> (Option<&'a [f32]>, Option<&'a [f32]>) {
    let (data, recurrent) = both.split_at(e.rows.min(both.len()));
    let apart = kind == RnnKind::Gru { linear_before_reset: true };
    let together = if apart { 2 * e.hidden } else { e.rows };
    for (i, ((sum, a), b)) in sum.iter_mut().zip(data).zip(recurrent).enumerate() {
        *sum = if i < together { a + b } else { *a };
    }
    (Some(sum), if apart { recurrent.get(together..) } else { None })
}

impl<'a> Direction<'a> {
    /// Direction `d` of a layer; `bias_sum` holds the biases that are added together.
    fn new<'l: 'a>(layer: &Layer<'l>, d: usize, isa: Isa, bias_sum: &'a mut [f32]) -> Result<Direction<'a>, Fault> {
        let e = layer.extents;
        let (bias, r_bias) = match part(layer.bias, d, 2 * e.rows)? {
            Some(both) => sum_biases(layer.kind, both, &e, bias_sum),
            None => (None, None),
        };
        Ok(Direction {
            isa,
            kind: layer.kind,
            extents: e,
            functions: layer.functions(d),
            clip: layer.clip,
            w: Weights::new(&layer.w, d, &e, layer.layout)?,
            r: Weights::new(&layer.r, d, &e, layer.layout)?,
            bias,
            r_bias,
            peepholes: part(layer.peepholes, d, 3 * e.hidden)?,
        })
    }
}

impl Direction<'_> {
    /// What the data of some steps adds to the gates.
    fn data(&self, x: &[f32], first: usize, steps: usize, gates: &mut [f32], product: &mut [f32]) -> Result<(), Fault> {
        let Extents { batch, input, rows: n, .. } = self.extents;
        let size = Size { m: steps * batch, n, k: input };
        let x = x.get(first * batch * input..).ok_or(Fault::OutOfBounds)?;
        let epilogue = Epilogue { col_bias: self.bias, ..Epilogue::NONE };
        gemm::run(self.isa, size, rows(x, input), self.w.starting_at(0), C { data: gates, row: n }, &epilogue, product)
    }

    /// What the state adds to the gates of all sequences; for a GRU, up to what the candidate needs.
    fn recur(&self, gates: &mut [f32], h: &[f32], scratch: &mut Scratch<'_>) -> Result<(), Fault> {
        let Extents { batch, hidden, rows: row, .. } = self.extents;
        let gru = matches!(self.kind, RnnKind::Gru { .. });
        let n = if gru { 2 * hidden } else { row };
        let size = Size { m: batch, n, k: hidden };
        let epilogue = Epilogue { add: Add::C, ..Epilogue::NONE };
        let (r, c) = (self.r.starting_at(0), C { data: &mut *gates, row });
        gemm::run(self.isa, size, rows(h, hidden), r, c, &epilogue, scratch.product)?;
        if !gru {
            return Ok(());
        }
        let linear = self.kind == RnnKind::Gru { linear_before_reset: true };
        for b in 0..batch {
            let gates = gates.get_mut(b * row..).and_then(|g| g.get_mut(..2 * hidden)).ok_or(Fault::OutOfBounds)?;
            self.activate(gates, 0);
            if !linear {
                let units = b * hidden..(b + 1) * hidden;
                let (Some(reset), Some(h)) = (scratch.reset.get_mut(units.clone()), h.get(units)) else { continue };
                combine(self.isa, Combine::Product, [&gates[hidden..], h], reset);
            }
        }
        let skew = self.r.skew(n);
        let epilogue = Epilogue { add: Add::Nothing, ..Epilogue::NONE };
        let size = Size { n: hidden + skew, ..size };
        let c = C { data: &mut *scratch.recurrent, row: hidden + PANEL };
        let a = rows(if linear { h } else { scratch.reset }, hidden);
        gemm::run(self.isa, size, a, self.r.starting_at(n), c, &epilogue, scratch.product)
    }

    /// The clip and function `which` of a row.
    fn activate(&self, row: &mut [f32], which: usize) {
        if self.clip > 0.0 {
            let kind = plan::prim::ActivationKind::Clip;
            activation::apply(&Activation { kind, alpha: -self.clip, beta: self.clip }, self.isa, row);
        }
        if let Some(function) = self.functions.get(which) {
            activation::apply(function, self.isa, row);
        }
    }

    /// The new state of one sequence.
    fn cell(
        &self,
        b: usize,
        gates: &mut [f32],
        h: &mut [f32],
        c: &mut [f32],
        scratch: &Scratch<'_>,
    ) -> Result<(), Fault> {
        let Extents { hidden, rows, .. } = self.extents;
        let gates = gates.get_mut(b * rows..).and_then(|g| g.get_mut(..rows)).ok_or(Fault::OutOfBounds)?;
        match self.kind {
            RnnKind::Rnn => {
                self.activate(gates, 0);
                h.copy_from_slice(gates);
            }
            RnnKind::Gru { linear_before_reset } => {
                let (zr, candidate) = gates.split_at_mut(2 * hidden);
                let (z, r) = zr.split_at(hidden);
                let at = b * (hidden + PANEL) + self.r.skew(2 * hidden);
                let recurrent = scratch.recurrent.get(at..at + hidden).ok_or(Fault::OutOfBounds)?;
                if linear_before_reset {
                    if let Some(bias) = self.r_bias {
                        combine(self.isa, Combine::AddProduct, [r, bias], candidate);
                    }
                    combine(self.isa, Combine::AddProduct, [r, recurrent], candidate);
                } else {
                    combine(self.isa, Combine::Add, [recurrent, recurrent], candidate);
                }
                self.activate(candidate, 1);
                combine(self.isa, Combine::Mix, [z, candidate], h);
            }
            RnnKind::Lstm { input_forget } => self.lstm(gates, h, c, input_forget),
        }
        Ok(())
    }

    /// The new states of one sequence of an LSTM, from its gates i, o, f, c.
    fn lstm(&self, gates: &mut [f32], h: &mut [f32], c: &mut [f32], input_forget: bool) {
        let n = self.extents.hidden;
        let isa = self.isa;
        match self.peepholes {
            Some(p) => {
                combine(isa, Combine::AddProduct, [&p[..n], c], &mut gates[..n]);
                combine(isa, Combine::AddProduct, [&p[2 * n..], c], &mut gates[2 * n..3 * n]);
                self.activate(&mut gates[..n], 0);
                self.activate(&mut gates[2 * n..3 * n], 0);
            }
            // All three at once.
            None => self.activate(&mut gates[..3 * n], 0),
        }
        self.activate(&mut gates[3 * n..], 1);
        let (input, rest) = gates.split_at_mut(n);
        let (output, rest) = rest.split_at_mut(n);
        let (forget, new) = rest.split_at_mut(n);
        if input_forget {
            combine(isa, Combine::Complement, [input, input], forget);
        }
        combine(isa, Combine::Times, [forget, forget], c);
        combine(isa, Combine::AddProduct, [input, new], c);
        if let Some(p) = self.peepholes {
            combine(isa, Combine::AddProduct, [&p[n..2 * n], c], output);
            self.activate(output, 0);
        }
        new.copy_from_slice(c);
        if let Some(function) = self.functions.get(2) {
            activation::apply(function, isa, new);
        }
        combine(isa, Combine::Product, [output, new], h);
    }
}

/// What [`combine`] does to `o` with `a` and `b`.
#[derive(Clone, Copy)]
enum Combine {
    /// `o + a`
    Add,
    /// `o * a`
    Times,
    /// `a * b`
    Product,
    /// `o + a * b`
    AddProduct,
    /// `1 - a`
    Complement,
    /// `(1 - a) * b + a * o`
    Mix,
}

/// Combines rows, as far as all of them go.
fn combine(isa: Isa, how: Combine, [a, b]: [&[f32]; 2], o: &mut [f32]) {
    let n = o.len().min(a.len()).min(b.len());
    // SAFETY: all three have `n` elements.
    unsafe { combine_rows(isa, how, a.as_ptr(), b.as_ptr(), o.as_mut_ptr(), n) }
}

isa_fn! {
    /// See [`combine`].
    ///
    /// # Safety
    /// `n` elements can be read and written, and the processor has `isa`.
    unsafe fn combine_rows(how: Combine, a: *const f32, b: *const f32, o: *mut f32, n: usize) = combine_raw;
}

/// See [`combine_rows`].
#[inline(always)]
unsafe fn combine_raw<S: Simd>(how: Combine, a: *const f32, b: *const f32, o: *mut f32, n: usize) {
    // SAFETY: the caller's elements.
    unsafe {
        let one = S::splat(1.0);
        match how {
            Combine::Add => lanes3::<S>(a, b, o, n, |a, _, o| S::add(o, a)),
            Combine::Times => lanes3::<S>(a, b, o, n, |a, _, o| S::mul(o, a)),
            Combine::Product => lanes3::<S>(a, b, o, n, |a, b, _| S::mul(a, b)),
            Combine::AddProduct => lanes3::<S>(a, b, o, n, |a, b, o| S::add(o, S::mul(a, b))),
            Combine::Complement => lanes3::<S>(a, b, o, n, |a, _, _| S::sub(one, a)),
            Combine::Mix => lanes3::<S>(a, b, o, n, |a, b, o| S::add(S::mul(S::sub(one, a), b), S::mul(a, o))),
        }
    }
}

/// `o = f(a, b, o)` for `n` elements.
#[inline(always)]
unsafe fn lanes3<S: Simd>(a: *const f32, b: *const f32, o: *mut f32, n: usize, f: impl Fn(S::V, S::V, S::V) -> S::V) {
    let mut i = 0;
    // SAFETY: whole vectors while there are enough elements, then a part of one.
    unsafe {
        while i + S::LANES <= n {
            S::store(o.add(i), f(S::load(a.add(i)), S::load(b.add(i)), S::load(o.add(i))));
            i += S::LANES;
        }
        if i < n {
            let k = n - i;
            let y = f(S::load_part(a.add(i), k), S::load_part(b.add(i), k), S::load_part(o.add(i), k));
            S::store_part(o.add(i), y, k);
        }
    }
}
