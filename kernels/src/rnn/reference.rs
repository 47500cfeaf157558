//! Recurrent layers of any floating-point type, by the formulas, in f64: one sequence of one direction at a time.

use super::{Extents, Layer};
use crate::{
    Call, Dst, Fault,
    matmul::activate,
    real::{Reals, RealsMut},
};
use plan::prim::{Activation, RnnKind, RnnLayout};

/// Numbers of f64 of workspace.
pub(super) fn doubles(extents: &Extents) -> usize {
    4 * extents.hidden
}

/// The weights of one direction.
struct Weights<'a> {
    w: Reals<'a>,
    r: Reals<'a>,
    bias: Option<Reals<'a>>,
    peepholes: Option<Reals<'a>>,
    direction: usize,
    extents: Extents,
    functions: [Activation; 3],
    clip: f64,
}

impl<'a> Weights<'a> {
    fn new(layer: &Layer<'a>, direction: usize) -> Result<Weights<'a>, Fault> {
        Ok(Weights {
            w: Reals::of(&layer.w)?,
            r: Reals::of(&layer.r)?,
            bias: layer.bias.map(|s| Reals::of(&s)).transpose()?,
            peepholes: layer.peepholes.map(|s| Reals::of(&s)).transpose()?,
            direction,
            extents: layer.extents,
            functions: layer.functions(direction),
            clip: f64::from(layer.clip),
        })
    }

    /// What the data adds to a gate row.
    fn input(&self, row: usize, x: &impl Fn(usize) -> f64) -> f64 {
        let Extents { rows, input, .. } = self.extents;
        let at = (self.direction * rows + row) * input;
        let sum: f64 = (0..input).map(|i| x(i) * self.w.get(at + i)).sum();
        sum + self.bias.map_or(0.0, |b| b.get(self.direction * 2 * rows + row))
    }

    /// What a state adds to a gate row.
    fn recurrent(&self, row: usize, h: &[f64]) -> f64 {
        let Extents { rows, hidden, .. } = self.extents;
        let at = (self.direction * rows + row) * hidden;
        let sum: f64 = h.iter().enumerate().map(|(i, h)| h * self.r.get(at + i)).sum();
        sum + self.bias.map_or(0.0, |b| b.get((self.direction * 2 + 1) * rows + row))
    }

    /// Peephole `which` (i, o, f) of a unit.
    fn peephole(&self, which: usize, unit: usize) -> f64 {
        let hidden = self.extents.hidden;
        self.peepholes.map_or(0.0, |p| p.get((self.direction * 3 + which) * hidden + unit))
    }

    /// Function `which` of a sum.
    fn activate(&self, which: usize, x: f64) -> f64 {
        let x = if self.clip > 0.0 && !x.is_nan() { x.clamp(-self.clip, self.clip) } else { x };
        self.functions.get(which).map_or(x, |f| activate::scalar(f, x))
    }
}

/// Runs a layer.
pub(super) fn run(layer: &Layer<'_>, call: &mut Call<'_, '_>, writes: &mut [Option<Dst<'_>>; 3]) -> Result<(), Fault> {
    let extents = layer.extents;
    let Extents { seq, batch, input, hidden, .. } = extents;
    if layer.layout != RnnLayout::Plain {
        return Err(Fault::Unsupported("panels of another type than f32"));
    }
    let memory = call.take_workspace_of::<f64>(doubles(&extents))?;
    let (h, rest) = memory.split_at_mut(hidden);
    let (c, rest) = rest.split_at_mut(hidden);
    let (next, reset) = rest.split_at_mut(hidden);
    let [y, last_h, last_c] = writes;
    let mut y = y.as_mut().map(RealsMut::of).transpose()?;
    let mut last_h = last_h.as_mut().map(RealsMut::of).transpose()?;
    let mut last_c = last_c.as_mut().map(RealsMut::of).transpose()?;
    let x = Reals::of(&layer.x)?;
    let opt = |s: &Option<crate::Src<'_>>| s.is_some_and(|s| s.is_shared());
    let (h_shared, c_shared) = (opt(&layer.first_h), opt(&layer.first_c));
    let first_h = layer.first_h.filter(|_| !h_shared).map(|s| Reals::of(&s)).transpose()?;
    let first_c = layer.first_c.filter(|_| !c_shared).map(|s| Reals::of(&s)).transpose()?;
    for direction in 0..layer.directions {
        let weights = Weights::new(layer, direction)?;
        for b in 0..batch {
            let state_at = (direction * batch + b) * hidden;
            let first = |from: &Option<Reals<'_>>, shared: bool, to: &Option<RealsMut<'_>>, i: usize| match (from, to) {
                (Some(from), _) => from.get(state_at + i),
                (None, Some(to)) if shared => to.get(state_at + i),
                _ => 0.0,
            };
            h.iter_mut().enumerate().for_each(|(i, h)| *h = first(&first_h, h_shared, &last_h, i));
            c.iter_mut().enumerate().for_each(|(i, c)| *c = first(&first_c, c_shared, &last_c, i));
            for step in 0..seq {
                let t = if layer.backwards(direction) { seq - 1 - step } else { step };
                let y_at = ((t * layer.directions + direction) * batch + b) * hidden;
                let active = t < layer.length(b);
                if active {
                    let x = |i: usize| x.get((t * batch + b) * input + i);
                    cell(layer.kind, &weights, &x, h, c, next, reset);
                    h.copy_from_slice(next);
                }
                if let Some(y) = &mut y {
                    h.iter().enumerate().for_each(|(i, h)| y.set(y_at + i, if active { *h } else { 0.0 }));
                }
            }
            for (to, from) in [(&mut last_h, &*h), (&mut last_c, &*c)] {
                if let Some(to) = to {
                    from.iter().enumerate().for_each(|(i, x)| to.set(state_at + i, *x));
                }
            }
        }
    }
    Ok(())
}

/// One step: `next` from `h` and, for an LSTM, `c`, which goes on. `reset` is scratch.
fn cell(
    kind: RnnKind,
    w: &Weights<'_>,
    x: &impl Fn(usize) -> f64,
    h: &[f64],
    c: &mut [f64],
    next: &mut [f64],
    reset: &mut [f64],
) {
    let n = h.len();
    let both = |gate: usize, i: usize| w.input(gate * n + i, x) + w.recurrent(gate * n + i, h);
    match kind {
        RnnKind::Rnn => next.iter_mut().enumerate().for_each(|(i, y)| *y = w.activate(0, both(0, i))),
        RnnKind::Gru { linear_before_reset } => {
            for (i, (reset, h)) in reset.iter_mut().zip(h).enumerate() {
                let r = w.activate(0, both(1, i));
                *reset = if linear_before_reset { r } else { r * h };
            }
            for (i, (y, old)) in next.iter_mut().zip(h).enumerate() {
                let row = 2 * n + i;
                let recurrent = match linear_before_reset {
                    true => reset.get(i).copied().unwrap_or(0.0) * w.recurrent(row, h),
                    false => w.recurrent(row, reset),
                };
                let candidate = w.activate(1, w.input(row, x) + recurrent);
                let z = w.activate(0, both(0, i));
                *y = (1.0 - z) * candidate + z * old;
            }
        }
        RnnKind::Lstm { input_forget } => {
            for (i, (y, c)) in next.iter_mut().zip(c).enumerate() {
                let input = w.activate(0, both(0, i) + w.peephole(0, i) * *c);
                let forget = match input_forget {
                    true => 1.0 - input,
                    false => w.activate(0, both(2, i) + w.peephole(2, i) * *c),
                };
                *c = forget * *c + input * w.activate(1, both(3, i));
                let output = w.activate(0, both(1, i) + w.peephole(1, i) * *c);
                *y = output * w.functions.get(2).map_or(*c, |f| activate::scalar(f, *c));
            }
        }
    }
}
