//! The transform of a line of any length: by its factors, or, where one of them is a large prime, by a convolution.
//!
//! The convolution is Bluestein's ("A linear filtering approach to the computation of discrete Fourier transform", 1970): with
//! `2 j k = j² + k² - (j - k)²` a transform is a product with a chirp, a convolution with another, and a product again; the
//! convolution's length is free, so every length costs about `n log n`.

use super::fft::{self, Complex, Factors, Real};
use crate::Fault;

/// Complex numbers of workspace for lines of a length; more for longer lines.
pub(super) fn room(length: usize) -> Result<usize, Fault> {
    let convolution = smooth(length.checked_mul(2).ok_or(Fault::Extent)?).ok_or(Fault::Extent)?;
    let four = convolution.checked_mul(4).ok_or(Fault::Extent)?;
    length.checked_mul(2).and_then(|two| two.checked_add(four)).ok_or(Fault::Extent)
}

/// The smallest product of twos, threes and fives that is not below `least`.
fn smooth(least: usize) -> Option<usize> {
    let (mut best, mut fives) = (least.max(1).checked_next_power_of_two()?, 1usize);
    while fives < best {
        let mut odd = fives;
        while odd < best {
            let candidate = least.div_ceil(odd).max(1).next_power_of_two().checked_mul(odd);
            best = candidate.map_or(best, |c| best.min(c));
            odd = odd.checked_mul(3)?;
        }
        fives = fives.checked_mul(5)?;
    }
    Some(best)
}

/// What the convolution needs.
struct Chirp<'w, T> {
    factors: Factors,
    /// Roots of the convolution's order.
    roots: &'w [Complex<T>],
    /// `exp(∓ pi i k² / n)`.
    chirp: &'w [Complex<T>],
    /// The transform of the other chirp, divided by its length.
    spectrum: &'w [Complex<T>],
}

enum Way<'w, T> {
    Factors(Factors),
    Chirp(Chirp<'w, T>),
}

/// Transforms of lines of one length and direction.
pub(super) struct Line<'w, T> {
    way: Way<'w, T>,
    /// Roots of the order of the whole line.
    roots: &'w [Complex<T>],
    /// The length that is transformed: half of the line's where two real numbers make a complex one.
    length: usize,
    a: &'w mut [Complex<T>],
    b: &'w mut [Complex<T>],
}

fn take<'w, T>(memory: &mut &'w mut [T], count: usize) -> Result<&'w mut [T], Fault> {
    let whole = core::mem::take(memory);
    let given = size_of_val(whole);
    let (part, rest) = whole
        .split_at_mut_checked(count)
        .ok_or(Fault::Workspace { needed: count.saturating_mul(size_of::<T>()), given })?;
    *memory = rest;
    Ok(part)
}

impl<'w, T: Real> Line<'w, T> {
    /// For lines of `n >= 1` numbers; `real`: by [`Self::real`] and not by [`Self::complex`]. `memory` has [`room`] for them.
    pub(super) fn new(mut memory: &'w mut [Complex<T>], n: usize, inverse: bool, real: bool) -> Result<Self, Fault> {
        let roots = take(&mut memory, n)?;
        fft::roots(roots, inverse);
        let length = if real && n.is_multiple_of(2) { n / 2 } else { n };
        if let Some(factors) = Factors::of(length) {
            let (a, b) = (take(&mut memory, length)?, take(&mut memory, length)?);
            return Ok(Line { way: Way::Factors(factors), roots, length, a, b });
        }
        let long = smooth(2 * length).ok_or(Fault::Extent)?;
        let factors = Factors::of(long).ok_or(Fault::Extent)?;
        let chirp = take(&mut memory, length)?;
        // Squares modulo `2 n`, each from the one before.
        let mut square = 0;
        for (k, place) in chirp.iter_mut().enumerate() {
            let w = fft::root(square, 2 * length);
            *place = if inverse { w } else { fft::conjugate(w) };
            square = (square + 2 * k + 1) % (2 * length);
        }
        let long_roots = take(&mut memory, long)?;
        fft::roots(long_roots, false);
        let (mut spectrum, mut a, b) = (take(&mut memory, long)?, take(&mut memory, long)?, take(&mut memory, long)?);
        spectrum.fill([T::of(0.0); 2]);
        for (k, c) in chirp.iter().enumerate() {
            let term = fft::scaled(fft::conjugate(*c), T::of(1.0 / long as f64));
            spectrum[k] = term;
            spectrum[(long - k) % long] = term;
        }
        (spectrum, a) = fft::transform(&factors, long_roots, spectrum, a);
        let way = Way::Chirp(Chirp { factors, roots: long_roots, chirp, spectrum });
        Ok(Line { way, roots, length, a, b })
    }

    /// Transforms the complex numbers that `read` gives; `write` is called with each bin.
    pub(super) fn complex(&mut self, read: impl Fn(usize) -> Complex<T>, mut write: impl FnMut(usize, Complex<T>)) {
        self.run(read).iter().enumerate().for_each(|(k, x)| write(k, *x));
    }

    /// Transforms the real numbers that `read` gives; `write` is called with each of the first `n / 2 + 1` bins, of which the others
    /// are mirror images.
    pub(super) fn real(&mut self, read: impl Fn(usize) -> T, mut write: impl FnMut(usize, Complex<T>)) {
        let (n, roots) = (self.roots.len(), self.roots);
        if self.length == n {
            let bins = self.run(|i| [read(i), T::of(0.0)]);
            return bins.iter().take(n / 2 + 1).enumerate().for_each(|(k, x)| write(k, *x));
        }
        // Even and odd elements as real and imaginary parts; their spectra are the even and the odd part of what comes out.
        let (half, bins) = (T::of(0.5), self.run(|i| [read(2 * i), read(2 * i + 1)]));
        for k in 0..=bins.len() {
            let (x, mirror) = (bins[k % bins.len()], fft::conjugate(bins[(bins.len() - k) % bins.len()]));
            let (even, odd) = (fft::scaled(fft::add(x, mirror), half), fft::scaled(fft::sub(x, mirror), half));
            write(k, fft::add(even, fft::mul([odd[1], T::of(0.0) - odd[0]], roots[k])));
        }
    }

    /// The transform of what `read` gives.
    fn run(&mut self, read: impl Fn(usize) -> Complex<T>) -> &[Complex<T>] {
        let (a, b) = (&mut *self.a, &mut *self.b);
        match &self.way {
            Way::Factors(factors) => {
                a.iter_mut().enumerate().for_each(|(i, x)| *x = read(i));
                fft::transform(factors, self.roots, a, b).0
            }
            Way::Chirp(c) => {
                let (signal, rest) = a.split_at_mut(self.length);
                for (i, (x, w)) in signal.iter_mut().zip(c.chirp).enumerate() {
                    *x = fft::mul(read(i), *w);
                }
                rest.fill([T::of(0.0); 2]);
                let (product, spare) = fft::transform(&c.factors, c.roots, a, b);
                // The inverse is the conjugate of the transform of the conjugate.
                for (x, s) in product.iter_mut().zip(c.spectrum) {
                    *x = fft::conjugate(fft::mul(*x, *s));
                }
                let (result, _) = fft::transform(&c.factors, c.roots, product, spare);
                for (x, w) in result.iter_mut().zip(c.chirp) {
                    *x = fft::mul(fft::conjugate(*x), *w);
                }
                result.get(..self.length).unwrap_or_default()
            }
        }
    }
}
