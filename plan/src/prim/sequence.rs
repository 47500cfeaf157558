//! Recurrent layers and attention.

use super::{Activation, MapExtents};
use crate::{DType, Filler, List};

params! {
/// The cell of an [`Rnn`].
#[derive(Eq)]
#[allow(missing_docs)]
pub enum RnnKind {
    Rnn,
    Gru { linear_before_reset: bool },
    Lstm { input_forget: bool },
}

/// Which way an [`Rnn`] goes through time.
#[derive(Eq)]
#[allow(missing_docs)]
pub enum RnnDirection {
    Forward,
    Reverse,
    Bidirectional,
}

/// How the weights of an [`Rnn`] are stored.
#[derive(Eq)]
pub enum RnnLayout {
    /// As ONNX: `W [d, gates * hidden, input]`, `R [d, gates * hidden, hidden]`.
    Plain,
    /// f32 panels of 16 gate rows: `W [d, ceil(gates * hidden / 16), input, 16]`, `R` likewise over `hidden`.
    Panels16,
}

/// A recurrent layer. `r0`: `X [seq, batch, input]`; `r1`: `W`; `r2`: `R`; `r3?`: `B [d, 2 * gates * hidden]`;
/// `r4?`: lengths (i32 `[batch]`); `r5?`: `initial_h [d, batch, hidden]`; `r6?`: `initial_c`; `r7?`: `P [d, 3 * hidden]`.
/// `w0?`: `Y [seq, d, batch, hidden]`; `w1?`: `Y_h [d, batch, hidden]`; `w2?`: `Y_c`. Gate order as in ONNX (iofc, zrh).
pub struct Rnn {
    /// The cell.
    pub kind: RnnKind,
    /// The way through time.
    pub direction: RnnDirection,
    /// Units.
    pub hidden: u32,
    /// Per direction: f, g, h as ONNX names them.
    pub activations: List<Activation, 6>,
    /// Clip of gate inputs; 0: none.
    pub clip: f32,
    /// How `W` and `R` are stored.
    pub weights: RnnLayout,
}

/// Scaled dot-product attention. `r0`: Q `[b, hq, sq, d]`; `r1`: K `[b, hkv, skv, d]`; `r2`: V `[b, hkv, skv, dv]`; `r3?`: mask
/// (bool or float), broadcast by its view to `[b, hq, sq, skv]`; `r4?`: valid key length of each batch (i64 `[b]`).
/// `w0`: `[b, hq, sq, dv]`; `w1?` `[b, hq, sq, skv]`: the scores as `scores` says. A query without a key gives zeros.
///
/// Query `i` stands at key `i + past`; where there is `r4`, at key `i + r4[b] - sq`.
pub struct Attention<E: Filler> {
    /// Keys before the first query (none: 0).
    pub past: List<E, 1>,
    /// Multiplies the scores; 0: one over the root of `d`.
    pub scale: f32,
    /// Keys up to the query's own position only.
    pub causal: bool,
    /// How many keys before and after the query's own position count; empty, or -1: all.
    pub window: List<i32, 2>,
    /// `softcap * tanh(score / softcap)`, before the mask is added; 0: none.
    pub softcap: f32,
    /// What the probabilities are computed in.
    pub softmax: DType,
    /// What `w1` holds: 0 scaled scores, 1 after the soft cap, 2 with the mask added, 3 the probabilities.
    pub scores: u8,
}
}

fixed!(Rnn);

over_extents! {
    Attention [past] { scale, causal, window, softcap, softmax, scores },
}
