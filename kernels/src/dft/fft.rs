//! The fast Fourier transform of lengths whose prime factors are small, in the precision of its numbers.
//!
//! Stockham's form of Cooley and Tukey's algorithm ("An algorithm for the machine calculation of complex Fourier series", 1965): each
//! pass splits off one factor, goes from one buffer to the other, and leaves its results so that the last pass ends in order. A
//! length `n = p q r` costs about `n (p + q + r)`; error about `log n` roundings.

use crate::Plain;
use core::ops::{Add, Mul, Sub};

/// Larger prime factors are not taken apart.
pub(super) const MAX_PRIME: usize = 61;

/// What a transform computes in.
pub(super) trait Real: Plain + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + PartialEq {
    /// Rounded.
    fn of(x: f64) -> Self;
    /// As f64, exactly.
    fn wide(self) -> f64;
}

impl Real for f32 {
    fn of(x: f64) -> f32 {
        x as f32
    }
    fn wide(self) -> f64 {
        f64::from(self)
    }
}

impl Real for f64 {
    fn of(x: f64) -> f64 {
        x
    }
    fn wide(self) -> f64 {
        self
    }
}

/// A complex number: real part, imaginary part.
pub(super) type Complex<T> = [T; 2];

#[inline(always)]
pub(super) fn add<T: Real>(a: Complex<T>, b: Complex<T>) -> Complex<T> {
    [a[0] + b[0], a[1] + b[1]]
}

#[inline(always)]
pub(super) fn sub<T: Real>(a: Complex<T>, b: Complex<T>) -> Complex<T> {
    [a[0] - b[0], a[1] - b[1]]
}

#[inline(always)]
pub(super) fn mul<T: Real>(a: Complex<T>, b: Complex<T>) -> Complex<T> {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

#[inline(always)]
pub(super) fn scaled<T: Real>(a: Complex<T>, by: T) -> Complex<T> {
    [a[0] * by, a[1] * by]
}

#[inline(always)]
pub(super) fn conjugate<T: Real>(a: Complex<T>) -> Complex<T> {
    [a[0], T::of(0.0) - a[1]]
}

/// The factors of a length, in the order of the passes.
#[derive(Clone, Copy)]
pub(super) struct Factors {
    list: [u8; 64],
    count: usize,
}

impl Factors {
    /// Of `n >= 1`; none where one is too large. Fours are better than twos, and an only two goes first.
    pub(super) fn of(n: usize) -> Option<Factors> {
        let (mut factors, mut rest) = (Factors { list: [0; 64], count: 0 }, n);
        let mut factor = 4;
        while rest > 1 {
            if rest.is_multiple_of(factor) {
                *factors.list.get_mut(factors.count)? = u8::try_from(factor).ok()?;
                factors.count += 1;
                rest /= factor;
                if factor == 2 {
                    factors.list.swap(0, factors.count - 1);
                }
                continue;
            }
            factor = match factor {
                4 => 2,
                2 => 3,
                MAX_PRIME.. => return None,
                _ => factor + 2,
            };
        }
        Some(factors)
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        self.list.iter().take(self.count).map(|f| usize::from(*f))
    }
}

/// `exp(2 pi i k / n)`, its angle brought into -45 to 45 degrees first, where sine and cosine are most precise.
pub(super) fn root<T: Real>(k: usize, n: usize) -> Complex<T> {
    let eighths = 8 * (k % n) as u128;
    let (octant, rest) = (eighths / n as u128, (eighths % n as u128) as f64);
    let odd = octant % 2 == 1;
    let part = if odd { rest - n as f64 } else { rest };
    let (sin, cos) = libm::sincos(part / n as f64 * core::f64::consts::FRAC_PI_4);
    let [re, im] = match octant.div_ceil(2) % 4 {
        0 => [cos, sin],
        1 => [-sin, cos],
        2 => [-cos, -sin],
        _ => [sin, -cos],
    };
    [T::of(re), T::of(im)]
}

/// All roots of unity of the order of the list's length, clockwise (forward) or not.
pub(super) fn roots<T: Real>(list: &mut [Complex<T>], inverse: bool) {
    let n = list.len();
    for (k, place) in list.iter_mut().enumerate() {
        let w = root(k, n);
        *place = if inverse { w } else { conjugate(w) };
    }
}

/// The transform of `a`, as long as the factors say, by roots whose number is a multiple of the length; where it is, and the other
/// buffer.
pub(super) fn transform<'w, T: Real>(
    factors: &Factors,
    roots: &[Complex<T>],
    mut a: &'w mut [Complex<T>],
    mut b: &'w mut [Complex<T>],
) -> (&'w mut [Complex<T>], &'w mut [Complex<T>]) {
    let (mut left, mut side) = (a.len(), 1);
    for p in factors.iter() {
        let pass = Pass { rest: left / p, side, roots, step: roots.len() / left };
        match p {
            2 => pass.two(a, b),
            3 => pass.odd(3, a, b),
            4 => pass.four(a, b),
            5 => pass.odd(5, a, b),
            7 => pass.odd(7, a, b),
            11 => pass.odd(11, a, b),
            _ => pass.odd(p, a, b),
        }
        (left, side) = (left / p, side * p);
        core::mem::swap(&mut a, &mut b);
    }
    (a, b)
}

/// One pass: `side` interleaved transforms of length `p * rest`.
struct Pass<'r, T> {
    rest: usize,
    side: usize,
    roots: &'r [Complex<T>],
    /// From one root of the order of the transforms to the next.
    step: usize,
}

impl<T: Real> Pass<'_, T> {
    /// `x` turned by root `j k`; turning by nothing is left out.
    #[inline(always)]
    fn turned(&self, x: Complex<T>, j: usize, k: usize) -> Complex<T> {
        if j == 0 { x } else { mul(x, self.roots[j * k * self.step]) }
    }

    /// The `r`-th row of those that butterfly `j` reads.
    #[inline(always)]
    fn row<'s>(&self, from: &'s [Complex<T>], j: usize, r: usize) -> &'s [Complex<T>] {
        &from[self.side * (j + self.rest * r)..][..self.side]
    }

    fn two(&self, from: &[Complex<T>], to: &mut [Complex<T>]) {
        for (j, rows) in to.chunks_exact_mut(2 * self.side).enumerate() {
            let (first, second) = rows.split_at_mut(self.side);
            let (x, y) = (self.row(from, j, 0), self.row(from, j, 1));
            for (((x, y), first), second) in x.iter().zip(y).zip(first).zip(second) {
                *first = add(*x, *y);
                *second = self.turned(sub(*x, *y), j, 1);
            }
        }
    }

    fn four(&self, from: &[Complex<T>], to: &mut [Complex<T>]) {
        // A quarter turn in the direction of the transform.
        let quarter = self.roots[self.rest * self.step][1];
        for (j, rows) in to.chunks_exact_mut(4 * self.side).enumerate() {
            let x: [&[Complex<T>]; 4] = core::array::from_fn(|r| self.row(from, j, r));
            let (first, rows) = rows.split_at_mut(self.side);
            let (second, rows) = rows.split_at_mut(self.side);
            let (third, fourth) = rows.split_at_mut(self.side);
            for q in 0..self.side {
                let (sum, difference) = (add(x[0][q], x[2][q]), sub(x[0][q], x[2][q]));
                let (other, across) = (add(x[1][q], x[3][q]), sub(x[1][q], x[3][q]));
                let across = [T::of(0.0) - across[1] * quarter, across[0] * quarter];
                first[q] = add(sum, other);
                second[q] = self.turned(add(difference, across), j, 1);
                third[q] = self.turned(sub(sum, other), j, 2);
                fourth[q] = self.turned(sub(difference, across), j, 3);
            }
        }
    }

    /// Any odd prime: terms whose roots are conjugate are put together first.
    #[inline(always)]
    fn odd(&self, p: usize, from: &[Complex<T>], to: &mut [Complex<T>]) {
        let half = p / 2;
        let zero = [T::of(0.0); 2];
        // Roots of order `p`, and sums and differences of terms.
        let (mut w, mut sums, mut differences) = ([zero; MAX_PRIME], [zero; MAX_PRIME], [zero; MAX_PRIME]);
        (0..p).for_each(|k| w[k] = self.roots[k * self.rest * self.step]);
        for j in 0..self.rest {
            for q in 0..self.side {
                let read = |r: usize| from[q + self.side * (j + self.rest * r)];
                let to = &mut to[q + self.side * p * j..];
                let first = read(0);
                let mut all = first;
                for r in 1..=half {
                    (sums[r], differences[r]) = (add(read(r), read(p - r)), sub(read(r), read(p - r)));
                    all = add(all, sums[r]);
                }
                to[0] = all;
                for k in 1..=half {
                    let (mut even, mut odd, mut at) = (first, zero, 0);
                    for r in 1..=half {
                        at = if at + k >= p { at + k - p } else { at + k };
                        even = add(even, scaled(sums[r], w[at][0]));
                        let term = scaled(differences[r], w[at][1]);
                        odd = if r == 1 { term } else { add(odd, term) };
                    }
                    to[self.side * k] = self.turned([even[0] - odd[1], even[1] + odd[0]], j, k);
                    to[self.side * (p - k)] = self.turned([even[0] + odd[1], even[1] - odd[0]], j, p - k);
                }
            }
        }
    }
}
