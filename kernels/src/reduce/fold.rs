//! The loops of reductions: along the memory, or across it for several results at once.

use crate::{
    Isa,
    number::{Number, greatest, least},
    simd::{Simd, isa_fn},
    walk::Walk,
};
use plan::DType;

/// Which fold, for the vector code.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Sum,
    SumAbs,
    SumSquare,
    Prod,
    Min,
    Max,
}

/// How elements come together.
pub(super) trait Fold<T: Number> {
    const KIND: Kind;
    /// Neutral.
    const START: T::Acc;
    /// Takes in an element.
    fn step(acc: T::Acc, x: T::Acc) -> T::Acc;
    /// Puts two results together.
    fn join(a: T::Acc, b: T::Acc) -> T::Acc;
}

macro_rules! folds {
    ($($name:ident, $start:ident, $step:expr, $join:expr;)*) => { $(
        pub(super) struct $name;
        impl<T: Number> Fold<T> for $name {
            const KIND: Kind = Kind::$name;
            const START: T::Acc = T::$start;
            #[inline(always)]
            fn step(acc: T::Acc, x: T::Acc) -> T::Acc { $step(acc, x) }
            #[inline(always)]
            fn join(a: T::Acc, b: T::Acc) -> T::Acc { $join(a, b) }
        }
    )* };
}
folds! {
    Sum, ZERO, T::add, T::add;
    SumAbs, ZERO, |acc, x| T::add(acc, T::abs(x)), T::add;
    SumSquare, ZERO, |acc, x| T::add(acc, T::mul(x, x)), T::add;
    Prod, ONE, T::mul, T::mul;
    Min, HIGHEST, least::<T>, least::<T>;
    Max, LOWEST, greatest::<T>, greatest::<T>;
}

/// Levels of a [`Cascade`]: enough for any tensor; beyond, the last one takes all.
const LEVELS: usize = 24;

/// Partial results put together pairwise, as in a binary counter: the error grows with the logarithm of their number.
struct Cascade<A> {
    levels: [A; LEVELS],
    count: usize,
}

impl<A: Copy> Cascade<A> {
    #[inline(always)]
    fn new(start: A) -> Self {
        Cascade { levels: [start; LEVELS], count: 0 }
    }

    #[inline(always)]
    fn push(&mut self, mut part: A, join: impl Fn(A, A) -> A) {
        let mut level = 0;
        while self.count >> level & 1 == 1 && level < LEVELS - 1 {
            part = join(self.levels[level], part);
            level += 1;
        }
        self.levels[level] = if self.count >> level & 1 == 1 { join(self.levels[level], part) } else { part };
        self.count += 1;
    }

    /// All parts and a last one.
    #[inline(always)]
    fn finish(&self, mut last: A, join: impl Fn(A, A) -> A) -> A {
        if self.count != 0 {
            for (level, part) in self.levels.iter().enumerate() {
                if self.count >> level & 1 == 1 || (level == LEVELS - 1 && self.count >> level != 0) {
                    last = join(*part, last);
                }
            }
        }
        last
    }
}

/// Elements of a block along the memory.
const BLOCK: usize = 4096;
/// Results at once across the memory.
const COLUMNS: usize = 64;
/// Elements that a partial sum takes in across the memory.
const PART: usize = 64;

/// Folds over `reduced` for each element of `kept`, in order, into `out`.
///
/// # Safety
/// The walks lead to elements at `from`, and the processor has `isa`.
pub(super) unsafe fn fold<T: Number, F: Fold<T>>(
    isa: Isa,
    from: *const T,
    kept: &Walk<1>,
    reduced: &Walk<1>,
    out: &mut [T],
    finish: impl Fn(T::Acc) -> T::Acc,
) {
    let (width, [kept_step], [step]) = (kept.row(), kept.row_strides(), reduced.row_strides());
    let across = width > 1 && kept_step.unsigned_abs() < step.unsigned_abs();
    let mut out = out.iter_mut();
    // SAFETY: passed on to the caller.
    let done = kept.rows(|[at]| unsafe {
        let mut k = 0;
        while k < width {
            let from = from.offset(at + k as isize * kept_step);
            if across {
                let n = (width - k).min(COLUMNS);
                let mut acc = [F::START; COLUMNS];
                columns::<T, F>(isa, from, kept_step, reduced, &mut acc[..n]);
                // `zip` asks its first side first: it must be the one that ends.
                for (x, to) in acc[..n].iter().zip(out.by_ref()) {
                    *to = T::narrow(finish(*x));
                }
                k += n;
            } else {
                let x = one::<T, F>(isa, from, reduced);
                if let Some(to) = out.next() {
                    *to = T::narrow(finish(x));
                }
                k += 1;
            }
        }
        Ok::<(), ()>(())
    });
    debug_assert!(done.is_ok());
}

/// One result, along the memory.
///
/// # Safety
/// The walk leads to elements at `from`, and the processor has `isa`.
unsafe fn one<T: Number, F: Fold<T>>(isa: Isa, from: *const T, reduced: &Walk<1>) -> T::Acc {
    let (n, [step]) = (reduced.row(), reduced.row_strides());
    if reduced.len() == n && n <= BLOCK {
        // SAFETY: passed on to the caller; this is the only row.
        return unsafe { block::<T, F>(isa, from, step, n) };
    }
    let mut parts = Cascade::new(F::START);
    // SAFETY: passed on to the caller.
    let done = reduced.rows(|[at]| unsafe {
        let mut i = 0;
        while i < n {
            let len = (n - i).min(BLOCK);
            let from = from.offset(at + i as isize * step);
            parts.push(block::<T, F>(isa, from, step, len), F::join);
            i += len;
        }
        Ok::<(), ()>(())
    });
    debug_assert!(done.is_ok());
    parts.finish(F::START, F::join)
}

/// Lanes of a block.
const LANES: usize = 32;

/// Folds `n` elements, `step` apart.
///
/// # Safety
/// They can be read, and the processor has `isa`.
#[inline(always)]
unsafe fn block<T: Number, F: Fold<T>>(isa: Isa, from: *const T, step: isize, n: usize) -> T::Acc {
    let mut lanes = [F::START; LANES];
    let mut i = 0;
    // SAFETY: `i + LANES <= n` in groups; then the rest.
    unsafe {
        if T::DTYPE == DType::F32 && step == 1 {
            // The accumulator of f32 is f32.
            let start = T::to_f64(F::START) as f32;
            block_f32(isa, F::KIND, from.cast(), n, start, lanes.as_mut_ptr().cast());
            return lanes[0];
        }
        if step == 1 {
            while i + LANES <= n {
                let x = from.add(i).cast::<[T; LANES]>().read();
                for (lane, x) in lanes.iter_mut().zip(x) {
                    *lane = F::step(*lane, x.widen());
                }
                i += LANES;
            }
        } else {
            while i + LANES <= n {
                for (k, lane) in lanes.iter_mut().enumerate() {
                    *lane = F::step(*lane, from.offset((i + k) as isize * step).read().widen());
                }
                i += LANES;
            }
        }
        for (k, lane) in lanes.iter_mut().enumerate().take(n - i) {
            *lane = F::step(*lane, from.offset((i + k) as isize * step).read().widen());
        }
    }
    let mut width = LANES / 2;
    while width > 0 {
        for k in 0..width {
            lanes[k] = F::join(lanes[k], lanes[k + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// Takes a vector of elements in.
#[inline(always)]
unsafe fn vector_step<S: Simd>(kind: Kind, acc: S::V, x: S::V) -> S::V {
    // SAFETY: passed on to the caller.
    unsafe {
        match kind {
            Kind::Sum => S::add(acc, x),
            Kind::SumAbs => S::add(acc, S::abs(x)),
            Kind::SumSquare => S::add(acc, S::mul(x, x)),
            Kind::Prod => S::mul(acc, x),
            // A NaN among the elements stays by the order of arguments, one found before by the choice.
            Kind::Min => S::blend(S::unordered(acc, acc), acc, S::min(acc, x)),
            Kind::Max => S::blend(S::unordered(acc, acc), acc, S::max(acc, x)),
        }
    }
}

/// Adds partial results; equal to `vector_step` but for the maps of single elements.
#[inline(always)]
unsafe fn vector_join<S: Simd>(kind: Kind, a: S::V, b: S::V) -> S::V {
    let kind = if matches!(kind, Kind::SumAbs | Kind::SumSquare) { Kind::Sum } else { kind };
    // SAFETY: passed on to the caller.
    unsafe { vector_step::<S>(kind, a, b) }
}

/// Runs `f` with the kind as a constant, so that its loops have no branch.
macro_rules! constant_kind {
    ($kind:expr, $k:ident => $body:expr) => {
        match $kind {
            Kind::Sum => {
                let $k = Kind::Sum;
                $body
            }
            Kind::SumAbs => {
                let $k = Kind::SumAbs;
                $body
            }
            Kind::SumSquare => {
                let $k = Kind::SumSquare;
                $body
            }
            Kind::Prod => {
                let $k = Kind::Prod;
                $body
            }
            Kind::Min => {
                let $k = Kind::Min;
                $body
            }
            Kind::Max => {
                let $k = Kind::Max;
                $body
            }
        }
    };
}

/// Folds `n` f32 into `out`, over `LANES` lanes that are put together pairwise.
#[inline(always)]
unsafe fn block_f32_on<S: Simd>(kind: Kind, from: *const f32, n: usize, start: f32, out: *mut f32) {
    // At most four vectors: `LANES` is 32, and a vector has 8 or 16.
    let mut count = LANES / S::LANES;
    // SAFETY: passed on to the caller.
    unsafe {
        let mut acc = [S::splat(start); 4];
        constant_kind!(kind, kind => {
            let mut i = 0;
            while i + LANES <= n {
                for (k, acc) in acc.iter_mut().enumerate().take(count) {
                    *acc = vector_step::<S>(kind, *acc, S::load(from.add(i + k * S::LANES)));
                }
                i += LANES;
            }
            for acc in acc.iter_mut().take(count) {
                let rest = (n - i).min(S::LANES);
                if rest == S::LANES {
                    *acc = vector_step::<S>(kind, *acc, S::load(from.add(i)));
                } else if rest > 0 {
                    *acc = part_step::<S>(kind, *acc, S::load_part(from.add(i), rest), rest);
                }
                i += rest;
            }
            while count > 1 {
                count /= 2;
                for k in 0..count {
                    acc[k] = vector_join::<S>(kind, acc[k], acc[k + count]);
                }
            }
            *out = across::<S>(kind, acc[0]);
        });
    }
}

/// Takes the first `n` lanes of `x` in.
#[inline(always)]
unsafe fn part_step<S: Simd>(kind: Kind, acc: S::V, x: S::V, n: usize) -> S::V {
    // SAFETY: passed on to the caller; a vector has at most 16 lanes.
    unsafe {
        let new = vector_step::<S>(kind, acc, x);
        if matches!(kind, Kind::Sum | Kind::SumAbs | Kind::SumSquare) {
            // The other lanes are zero, which changes no sum.
            return new;
        }
        let mut lanes = [0f32; 16];
        S::store(lanes.as_mut_ptr(), acc);
        S::store_part(lanes.as_mut_ptr(), new, n);
        S::load(lanes.as_ptr())
    }
}

/// The lanes of one vector put together pairwise.
#[inline(always)]
unsafe fn across<S: Simd>(kind: Kind, acc: S::V) -> f32 {
    // SAFETY: passed on to the caller; a vector has at most 16 lanes.
    unsafe {
        if matches!(kind, Kind::Sum | Kind::SumAbs | Kind::SumSquare) {
            return S::sum(acc);
        }
        let mut lanes = [0f32; 16];
        S::store(lanes.as_mut_ptr(), acc);
        let mut width = S::LANES / 2;
        while width > 0 {
            for k in 0..width {
                let (a, b) = (lanes[k], lanes[k + width]);
                lanes[k] = match kind {
                    Kind::Min => least::<f32>(a, b),
                    Kind::Max => greatest::<f32>(a, b),
                    _ => a * b,
                };
            }
            width /= 2;
        }
        lanes[0]
    }
}

/// Folds across the memory: `n <= COLUMNS` neighbouring f32 at each place of the walk.
#[inline(always)]
unsafe fn columns_f32_on<S: Simd>(
    kind: Kind,
    from: *const f32,
    reduced: &Walk<1>,
    start: f32,
    acc: *mut f32,
    n: usize,
) {
    let mut k = 0;
    // SAFETY: passed on to the caller; only the first `n` columns are touched.
    unsafe {
        // Several vectors at once use whole cache lines and hide the latency of additions.
        while k + 4 * S::LANES <= n {
            constant_kind!(kind, kind => vectors::<S, 4>(kind, from.add(k), reduced, start, acc.add(k), S::LANES));
            k += 4 * S::LANES;
        }
        while k < n {
            let width = (n - k).min(S::LANES);
            constant_kind!(kind, kind => vectors::<S, 1>(kind, from.add(k), reduced, start, acc.add(k), width));
            k += width;
        }
    }
}

/// Folds `W` neighbouring vectors of `width` lanes at each place of the walk.
#[inline(always)]
unsafe fn vectors<S: Simd, const W: usize>(
    kind: Kind,
    from: *const f32,
    reduced: &Walk<1>,
    start: f32,
    out: *mut f32,
    width: usize,
) {
    let (len, [step]) = (reduced.row(), reduced.row_strides());
    // SAFETY: passed on to the caller.
    unsafe {
        let join = |a: [S::V; W], b: [S::V; W]| core::array::from_fn(|w| vector_join::<S>(kind, a[w], b[w]));
        let (mut parts, mut part, mut taken) = (None, [S::splat(start); W], 0);
        let done = reduced.rows(|[at]| {
            let from = from.offset(at);
            for i in 0..len as isize {
                let p = from.offset(i * step);
                for (w, part) in part.iter_mut().enumerate() {
                    let p = p.add(w * S::LANES);
                    let x = if width == S::LANES { S::load(p) } else { S::load_part(p, width) };
                    *part = vector_step::<S>(kind, *part, x);
                }
                taken += 1;
                if taken == PART {
                    parts.get_or_insert_with(|| Cascade::new(part)).push(part, join);
                    (part, taken) = ([S::splat(start); W], 0);
                }
            }
            Ok::<(), ()>(())
        });
        debug_assert!(done.is_ok());
        let all = parts.map_or(part, |p: Cascade<[S::V; W]>| p.finish(part, join));
        for (w, v) in all.iter().enumerate() {
            S::store_part(out.add(w * S::LANES), *v, width);
        }
    }
}

isa_fn! {
    unsafe fn block_f32(kind: Kind, from: *const f32, n: usize, start: f32, out: *mut f32) = block_f32_on;
    unsafe fn columns_f32(kind: Kind, from: *const f32, reduced: &Walk<1>, start: f32, acc: *mut f32, n: usize) = columns_f32_on;
}

/// Several results at once, across the memory: `acc.len()` elements `kept_step` apart, each over the walk.
///
/// # Safety
/// The walk leads to elements at `from`, and the processor has `isa`.
unsafe fn columns<T: Number, F: Fold<T>>(
    isa: Isa,
    from: *const T,
    kept_step: isize,
    reduced: &Walk<1>,
    acc: &mut [T::Acc],
) {
    if T::DTYPE == DType::F32 && kept_step == 1 {
        let start = T::to_f64(F::START) as f32;
        // SAFETY: passed on to the caller; the accumulator of f32 is f32.
        return unsafe { columns_f32(isa, F::KIND, from.cast(), reduced, start, acc.as_mut_ptr().cast(), acc.len()) };
    }
    let (len, [step]) = (reduced.row(), reduced.row_strides());
    let (mut parts, mut part, mut taken) = (None, [F::START; COLUMNS], 0);
    let join = |a: [T::Acc; COLUMNS], b: [T::Acc; COLUMNS]| core::array::from_fn(|k| F::join(a[k], b[k]));
    // SAFETY: passed on to the caller.
    let done = reduced.rows(|[at]| unsafe {
        for i in 0..len as isize {
            let from = from.offset(at + i * step);
            for (k, part) in part.iter_mut().enumerate().take(acc.len()) {
                *part = F::step(*part, from.offset(k as isize * kept_step).read().widen());
            }
            taken += 1;
            if taken == PART {
                parts.get_or_insert_with(|| Cascade::new(part)).push(part, join);
                (part, taken) = ([F::START; COLUMNS], 0);
            }
        }
        Ok::<(), ()>(())
    });
    debug_assert!(done.is_ok());
    for (a, part) in acc.iter_mut().zip(parts.map_or(part, |p: Cascade<_>| p.finish(part, join))) {
        *a = part;
    }
}
