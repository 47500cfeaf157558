//! The one table of primitives.

use crate::{Filler, MapExtents, prim::*};

/// Calls the macro `$m` with a row for each primitive:
///
/// ```text
/// Name(Params) = module::kernel { reads: lo..=hi, writes: lo..=hi, in_place: [(read, write), …],
///     strided_reads: mask, strided_writes: mask, fallible: bool, random: bool }
/// ```
///
/// * `kernel`: the function of the crate `kernels` that runs it, and `module::workspace` where it needs any;
/// * `in_place`: pairs that may share memory exactly (same address, dims, strides and element size);
/// * `strided_*`: bit `i` set: operand `i` may have any strides; else it must be contiguous;
/// * `fallible`: whether the data can make it fail (a bad index, an integer division by zero);
/// * `random`: whether the standard leaves open which values it gives.
#[macro_export]
macro_rules! for_each_primitive {
    ($m:path) => {
        $m! {
            Map(Map) = map::map { reads: 0..=32, writes: 1..=1, in_place: [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0)], strided_reads: !0, strided_writes: !0, fallible: true, random: false },
            Copy(Copy) = copy::copy { reads: 1..=1, writes: 1..=1, in_place: [], strided_reads: !0, strided_writes: !0, fallible: false, random: false },
            Concat(Concat) = copy::concat { reads: 1..=4096, writes: 1..=1, in_place: [], strided_reads: !0, strided_writes: !0, fallible: false, random: false },
            Pad(Pad<E>) = pad::pad { reads: 1..=2, writes: 1..=1, in_place: [], strided_reads: !0, strided_writes: !0, fallible: false, random: false },
            Gather(Gather) = gather::gather { reads: 2..=2, writes: 1..=1, in_place: [], strided_reads: !0, strided_writes: 0, fallible: true, random: false },
            GatherElements(GatherElements) = gather::gather_elements { reads: 2..=2, writes: 1..=1, in_place: [], strided_reads: !0, strided_writes: 0, fallible: true, random: false },
            GatherNd(GatherNd) = gather::gather_nd { reads: 2..=2, writes: 1..=1, in_place: [], strided_reads: 0, strided_writes: 0, fallible: true, random: false },
            ScatterElements(ScatterElements) = scatter::scatter_elements { reads: 3..=3, writes: 1..=1, in_place: [(0, 0)], strided_reads: 0, strided_writes: 0, fallible: true, random: false },
            ScatterNd(ScatterNd) = scatter::scatter_nd { reads: 3..=3, writes: 1..=1, in_place: [(0, 0)], strided_reads: 0, strided_writes: 0, fallible: true, random: false },
            Reduce(Reduce) = reduce::reduce { reads: 1..=1, writes: 1..=1, in_place: [], strided_reads: !0, strided_writes: 0, fallible: false, random: false },
            ArgReduce(ArgReduce) = reduce::arg_reduce { reads: 1..=1, writes: 1..=1, in_place: [], strided_reads: !0, strided_writes: 0, fallible: false, random: false },
            Cumulative(Cumulative) = reduce::cumulative { reads: 1..=1, writes: 1..=1, in_place: [(0, 0)], strided_reads: 0, strided_writes: 0, fallible: false, random: false },
            MatMul(MatMul) = matmul::matmul { reads: 2..=6, writes: 1..=1, in_place: [(3, 0)], strided_reads: !0, strided_writes: 0, fallible: false, random: false },
            Conv(Conv<E>) = conv::conv { reads: 2..=6, writes: 1..=1, in_place: [(3, 0)], strided_reads: 0, strided_writes: 0, fallible: false, random: false },
            ConvTranspose(ConvTranspose<E>) = conv_transpose::conv_transpose { reads: 2..=3, writes: 1..=1, in_place: [], strided_reads: 0, strided_writes: 0, fallible: false, random: false },
            Pool(Pool<E>) = pool::pool { reads: 1..=1, writes: 1..=2, in_place: [], strided_reads: 0, strided_writes: 0, fallible: false, random: false },
            Softmax(Softmax) = softmax::softmax { reads: 1..=1, writes: 1..=1, in_place: [(0, 0)], strided_reads: 0, strided_writes: 0, fallible: false, random: false },
            Norm(Norm) = norm::norm { reads: 1..=3, writes: 1..=3, in_place: [(0, 0)], strided_reads: 6, strided_writes: 0, fallible: false, random: false },
            Resize(Resize) = resize::resize { reads: 1..=3, writes: 1..=1, in_place: [], strided_reads: 0, strided_writes: 0, fallible: false, random: false },
            GridSample(GridSample) = grid_sample::grid_sample { reads: 2..=2, writes: 1..=1, in_place: [], strided_reads: 0, strided_writes: 0, fallible: false, random: false },
            RoiAlign(RoiAlign) = roi_align::roi_align { reads: 3..=3, writes: 1..=1, in_place: [], strided_reads: 0, strided_writes: 0, fallible: true, random: false },
            Rnn(Rnn) = rnn::rnn { reads: 3..=8, writes: 1..=3, in_place: [(5, 1), (6, 2)], strided_reads: 0, strided_writes: 0, fallible: true, random: false },
            TopK(TopK) = topk::topk { reads: 1..=1, writes: 2..=2, in_place: [], strided_reads: !0, strided_writes: 0, fallible: false, random: false },
            Unique(Unique) = unique::unique { reads: 1..=1, writes: 1..=4, in_place: [], strided_reads: 0, strided_writes: 0, fallible: false, random: false },
            NonZero(NonZero) = select::non_zero { reads: 1..=1, writes: 1..=1, in_place: [], strided_reads: !0, strided_writes: !0, fallible: false, random: false },
            Compress(Compress) = select::compress { reads: 2..=2, writes: 1..=1, in_place: [], strided_reads: 0, strided_writes: 0, fallible: false, random: false },
            NonMaxSuppression(NonMaxSuppression) = nms::nms { reads: 2..=5, writes: 1..=1, in_place: [], strided_reads: 0, strided_writes: 0, fallible: false, random: false },
            Iota(Iota<E>) = fill::iota { reads: 0..=2, writes: 1..=1, in_place: [], strided_reads: !0, strided_writes: 0, fallible: false, random: false },
            Literal(Literal<E>) = fill::literal { reads: 0..=0, writes: 1..=1, in_place: [], strided_reads: 0, strided_writes: 0, fallible: false, random: false },
            Random(Random) = random::random { reads: 0..=1, writes: 1..=1, in_place: [], strided_reads: 0, strided_writes: 0, fallible: false, random: true },
            Attention(Attention<E>) = attention::attention { reads: 3..=5, writes: 1..=2, in_place: [], strided_reads: !0, strided_writes: 0, fallible: false, random: false },
            Dft(Dft<E>) = dft::dft { reads: 1..=1, writes: 1..=1, in_place: [], strided_reads: !0, strided_writes: 0, fallible: false, random: false },
            Det(Det) = det::det { reads: 1..=1, writes: 1..=1, in_place: [], strided_reads: 0, strided_writes: 0, fallible: false, random: false },
            Col2Im(Col2Im) = col2im::col2im { reads: 1..=1, writes: 1..=1, in_place: [], strided_reads: 0, strided_writes: 0, fallible: false, random: false },
            Prepack(Prepack) = prepack::prepack { reads: 1..=1, writes: 1..=1, in_place: [], strided_reads: !0, strided_writes: 0, fallible: false, random: false },
        }
    };
}

/// What a primitive allows and needs, from its row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// The primitive's name.
    pub name: &'static str,
    /// The fewest and the most reads.
    pub reads: (usize, usize),
    /// The fewest and the most writes.
    pub writes: (usize, usize),
    /// Pairs (read, write) that may share memory exactly.
    pub in_place: &'static [(u8, u8)],
    /// Bit `i`: read `i` may have any strides.
    pub strided_reads: u32,
    /// Bit `i`: write `i` may have any strides.
    pub strided_writes: u32,
    /// Whether the data can make it fail.
    pub fallible: bool,
    /// Whether the standard leaves open which values it gives.
    pub random: bool,
}

impl Traits {
    /// Whether read `i` may have any strides.
    pub fn read_may_be_strided(&self, i: usize) -> bool {
        self.strided_reads == !0 || (i < 32 && self.strided_reads & (1 << i) != 0)
    }

    /// Whether write `i` may have any strides.
    pub fn write_may_be_strided(&self, i: usize) -> bool {
        self.strided_writes == !0 || (i < 32 && self.strided_writes & (1 << i) != 0)
    }
}

macro_rules! define {
    ($($name:ident($ty:ty) = $module:ident::$kernel:ident { reads: $rlo:literal..=$rhi:literal, writes: $wlo:literal..=$whi:literal,
        in_place: [$($pair:tt),*], strided_reads: $sr:expr, strided_writes: $sw:expr, fallible: $fallible:literal, random: $random:literal }),* $(,)?) => {
        /// A primitive with its parameters, over extents of the type `E`.
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[cfg_attr(feature = "text", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "text", serde(bound(deserialize = "E: serde::Deserialize<'de>")))]
        #[allow(clippy::large_enum_variant, missing_docs)]
        pub enum Primitive<E: Filler> { $($name($ty)),* }

        impl<E: Filler> Primitive<E> {
            /// The primitive's row of the table.
            pub const fn traits(&self) -> Traits {
                match self {
                    $(Primitive::$name(_) => Traits {
                        name: stringify!($name),
                        reads: ($rlo, $rhi),
                        writes: ($wlo, $whi),
                        in_place: &[$($pair),*],
                        strided_reads: $sr,
                        strided_writes: $sw,
                        fallible: $fallible,
                        random: $random,
                    }),*
                }
            }

            /// The primitive with `f` of each of its extents.
            pub fn map_extents<F: Filler>(&self, f: &mut dyn FnMut(E) -> F) -> Primitive<F> {
                match self {
                    $(Primitive::$name(p) => Primitive::$name(MapExtents::<E>::map_extents(p, f))),*
                }
            }
        }

        $(impl<E: Filler> From<$ty> for Primitive<E> {
            fn from(params: $ty) -> Self { Primitive::$name(params) }
        })*
    };
}
for_each_primitive!(define);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::List;

    #[test]
    fn extents_are_mapped() {
        let pad: Primitive<i64> = Pad { before: List::of([1, 2]), mode: PadMode::Edge }.into();
        let twice = pad.map_extents(&mut |e| e * 2);
        assert_eq!(twice, Pad { before: List::of([2i64, 4]), mode: PadMode::Edge }.into());
    }
}
