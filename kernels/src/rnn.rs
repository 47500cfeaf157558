//! Recurrent layers: operands and their checks. f32 is in `fast`, other types in `reference`.

mod fast;
mod reference;

use crate::{Call, Dst, Fault, Meta, Src};
use plan::{
    DType, List,
    prim::{Activation, Rnn, RnnDirection, RnnKind, RnnLayout},
};

/// Runs [`Rnn`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit, or a length is none of `0..=seq`.
pub fn rnn(p: &Rnn, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let mut writes = [call.opt_dst(0), call.opt_dst(1), call.opt_dst(2)];
    let layer = Layer::new(p, call, &writes)?;
    match layer.x.dtype() {
        DType::F32 => fast::run(&layer, call, &mut writes),
        _ => reference::run(&layer, call, &mut writes),
    }
}

/// Bytes of workspace.
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn workspace(p: &Rnn, reads: &[Option<Meta>], _writes: &[Option<Meta>]) -> Result<usize, Fault> {
    let Some(Some(x)) = reads.first() else { return Err(Fault::Missing { operand: 0 }) };
    let &[seq, batch, input] = x.dims.as_slice() else {
        return Err(Fault::Shape("the data of a recurrent layer has another rank than 3"));
    };
    let extents = Extents::new(p, seq, batch, input)?;
    Ok(match x.dtype {
        DType::F32 => fast::floats(&extents, p.weights)?.saturating_mul(size_of::<f32>()),
        _ => reference::doubles(&extents).saturating_mul(size_of::<f64>()),
    })
}

/// The extents of a layer.
#[derive(Clone, Copy)]
struct Extents {
    seq: usize,
    batch: usize,
    input: usize,
    hidden: usize,
    /// Gates times hidden.
    rows: usize,
}

impl Extents {
    fn new(p: &Rnn, seq: usize, batch: usize, input: usize) -> Result<Extents, Fault> {
        let hidden = p.hidden as usize;
        let gates = match p.kind {
            RnnKind::Rnn => 1,
            RnnKind::Gru { .. } => 3,
            RnnKind::Lstm { .. } => 4,
        };
        let rows = hidden.checked_mul(gates).ok_or(Fault::Extent)?;
        // What follows multiplies freely below this.
        let factors = [seq, batch, rows].map(|x| x.max(1));
        factors
            .into_iter()
            .try_fold(1usize, usize::checked_mul)
            .filter(|x| *x < isize::MAX as usize / 64)
            .ok_or(Fault::Extent)?;
        Ok(Extents { seq, batch, input, hidden, rows })
    }
}

/// The length of each sequence, found to be within the data.
fn lengths<'a>(src: &Src<'a>, seq: usize, batch: usize) -> Result<&'a [i32], Fault> {
    let lengths = src.slice::<i32>()?;
    if lengths.len() != batch {
        return Err(Fault::Shape("a length for each sequence"));
    }
    match lengths.iter().find(|length| usize::try_from(**length).ok().is_none_or(|l| l > seq)) {
        Some(length) => Err(Fault::Index { index: i64::from(*length), extent: seq }),
        None => Ok(lengths),
    }
}

/// A layer's operands, found to fit.
struct Layer<'a> {
    kind: RnnKind,
    direction: RnnDirection,
    directions: usize,
    extents: Extents,
    layout: RnnLayout,
    activations: List<Activation, 6>,
    clip: f32,
    x: Src<'a>,
    w: Src<'a>,
    r: Src<'a>,
    bias: Option<Src<'a>>,
    lengths: Option<&'a [i32]>,
    first_h: Option<Src<'a>>,
    first_c: Option<Src<'a>>,
    peepholes: Option<Src<'a>>,
}

impl<'a> Layer<'a> {
    fn new(p: &Rnn, call: &Call<'_, 'a>, writes: &[Option<Dst<'_>>; 3]) -> Result<Self, Fault> {
        let (x, w, r) = (call.src(0)?, call.src(1)?, call.src(2)?);
        let &[seq, batch, input] = x.dims() else {
            return Err(Fault::Shape("the data of a recurrent layer has another rank than 3"));
        };
        let extents = Extents::new(p, seq, batch, input)?;
        let (hidden, rows) = (extents.hidden, extents.rows);
        let directions = if p.direction == RnnDirection::Bidirectional { 2 } else { 1 };
        let functions = match p.kind {
            RnnKind::Rnn => 1,
            RnnKind::Gru { .. } => 2,
            RnnKind::Lstm { .. } => 3,
        };
        let is = |src: &Src<'_>, dims: &[usize]| src.dims() == dims && src.dtype() == x.dtype();
        let opt = |i: usize, dims: &[usize]| call.opt_src(i).is_none_or(|s| is(&s, dims));
        let weights = |src: &Src<'_>, k: usize| match p.weights {
            RnnLayout::Plain => is(src, &[directions, rows, k]),
            RnnLayout::Panels16 => is(src, &[directions, rows.div_ceil(16), k, 16]) && x.dtype() == DType::F32,
        };
        let state = [directions, batch, hidden];
        let written = |i: usize, dims: &[usize]| {
            writes.get(i).is_some_and(|w| w.as_ref().is_none_or(|w| w.dims() == dims && w.dtype() == x.dtype()))
        };
        let fits = weights(&w, input)
            && weights(&r, hidden)
            && opt(3, &[directions, 2 * rows])
            && opt(5, &state)
            && opt(6, &state)
            && opt(7, &[directions, 3 * hidden])
            && written(0, &[seq, directions, batch, hidden])
            && written(1, &state)
            && written(2, &state)
            && p.activations.len() >= functions * directions;
        if !fits {
            return Err(Fault::Shape("operands of a recurrent layer do not fit"));
        }
        let lengths = call.opt_src(4).map(|s| lengths(&s, seq, batch)).transpose()?;
        Ok(Layer {
            kind: p.kind,
            direction: p.direction,
            directions,
            extents,
            layout: p.weights,
            activations: p.activations,
            clip: p.clip,
            x,
            w,
            r,
            bias: call.opt_src(3),
            lengths,
            first_h: call.opt_src(5),
            first_c: call.opt_src(6),
            peepholes: call.opt_src(7),
        })
    }

    /// The functions of a direction; f, g and h where the cell has them.
    fn functions(&self, direction: usize) -> [Activation; 3] {
        let count = match self.kind {
            RnnKind::Rnn => 1,
            RnnKind::Gru { .. } => 2,
            RnnKind::Lstm { .. } => 3,
        };
        let own = self.activations.get(direction * count..).unwrap_or_default();
        let mut all = [Activation::IDENTITY; 3];
        all.iter_mut().zip(own).take(count).for_each(|(to, from)| *to = *from);
        all
    }

    /// Whether a direction goes from the end.
    fn backwards(&self, direction: usize) -> bool {
        self.direction == RnnDirection::Reverse || direction == 1
    }

    /// Steps of a sequence.
    fn length(&self, batch: usize) -> usize {
        self.lengths.and_then(|l| l.get(batch)).map_or(self.extents.seq, |l| usize::try_from(*l).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests;
