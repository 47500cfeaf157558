//! Whether a tensor is the expected one.

use super::element::{float, integer};
use plan::DType;
use std::path::Path;

/// How far a float may be off: `|got − want| ≤ atol·s + rtol·|want|`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Relative to the expected element.
    pub rtol: f64,
    /// Absolute, in units of `s`.
    pub atol: f64,
    /// Whether `s` is the largest finite expected magnitude (at least 1) instead of 1.
    pub relative_to_max: bool,
}

impl Default for Tolerance {
    fn default() -> Self {
        Tolerance { rtol: 1e-3, atol: 1e-7, relative_to_max: false }
    }
}

impl Tolerance {
    /// What `tolerance.json` in a folder says; the default where there is none.
    pub fn read(folder: &Path) -> Result<Tolerance, String> {
        let path = folder.join("tolerance.json");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Tolerance::default()),
            Err(e) => return Err(format!("tolerance.json cannot be read: {e}")),
        };
        Tolerance::parse(&text).map_err(|e| format!("tolerance.json: {e}"))
    }

    fn parse(text: &str) -> Result<Tolerance, String> {
        let json: serde_json::Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let mut tolerance = Tolerance::default();
        for (key, field) in [("rtol", &mut tolerance.rtol), ("atol", &mut tolerance.atol)] {
            if let Some(value) = json.get(key) {
                let number = value.as_f64().filter(|n| *n >= 0.0);
                *field = number.ok_or_else(|| format!("`{key}` is no number of at least 0"))?;
            }
        }
        tolerance.relative_to_max = match json.get("relative_to").map(|v| v.as_str()) {
            None => false,
            Some(Some("max")) => true,
            Some(_) => return Err("`relative_to` can only be \"max\"".to_owned()),
        };
        Ok(tolerance)
    }
}

/// A tensor, row-major and little-endian.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub dims: &'a [usize],
    /// Elements.
    pub bytes: &'a [u8],
}

/// Compares type and shape alone; an error says what differs.
pub fn alike(want: Tensor<'_>, got: Tensor<'_>) -> Result<(), String> {
    if got.dtype != want.dtype {
        return Err(format!("is {}, not {}", got.dtype, want.dtype));
    }
    if got.dims != want.dims {
        return Err(format!("has the shape {:?}, not {:?}", got.dims, want.dims));
    }
    Ok(())
}

/// Compares type, shape and every element; an error says what differs.
pub fn compare(want: Tensor<'_>, got: Tensor<'_>, tolerance: &Tolerance) -> Result<(), String> {
    alike(want, got)?;
    let count: usize = want.dims.iter().product();
    if want.dtype.bytes_of(count) != Some(got.bytes.len()) {
        return Err(format!("has {} bytes for {count} elements of type {}", got.bytes.len(), got.dtype));
    }
    if want.dtype.is_float() || matches!(want.dtype, DType::C64 | DType::C128) {
        floats(want, got, count, tolerance)
    } else {
        integers(want, got, count)
    }
}

fn integers(want: Tensor<'_>, got: Tensor<'_>, count: usize) -> Result<(), String> {
    let differs = |i: &usize| integer(want.dtype, want.bytes, *i) != integer(got.dtype, got.bytes, *i);
    let mut wrong = (0..count).filter(differs);
    let Some(first) = wrong.next() else { return Ok(()) };
    let value = |t: &Tensor<'_>| integer(t.dtype, t.bytes, first).map_or("nothing".to_owned(), |v| v.to_string());
    Err(format!(
        "{} of {count} elements differ, first at {:?}: {} instead of {}",
        1 + wrong.count(),
        place(want.dims, first),
        value(&got),
        value(&want)
    ))
}

fn floats(want: Tensor<'_>, got: Tensor<'_>, count: usize, tolerance: &Tolerance) -> Result<(), String> {
    let magnitude = |(re, im): (f64, f64)| if im == 0.0 { re.abs() } else { re.hypot(im) };
    let element = |t: &Tensor<'_>, i| float(t.dtype, t.bytes, i).unwrap_or((f64::NAN, f64::NAN));
    let scale = if tolerance.relative_to_max {
        let finite = (0..count).map(|i| magnitude(element(&want, i))).filter(|m| m.is_finite());
        finite.fold(1.0, f64::max)
    } else {
        1.0
    };
    let (mut wrong, mut worst) = (0usize, (0usize, 0.0f64));
    for i in 0..count {
        let (w, g) = (element(&want, i), element(&got, i));
        if same(w.0, g.0) && same(w.1, g.1) {
            continue;
        }
        let allowed = tolerance.atol * scale + tolerance.rtol * magnitude(w);
        let off = magnitude((g.0 - w.0, g.1 - w.1));
        // Where either is not finite, only the same value is right.
        let finite = magnitude(w).is_finite() && magnitude(g).is_finite();
        if finite && off <= allowed {
            continue;
        }
        let badness = if finite && allowed > 0.0 { off / allowed } else { f64::INFINITY };
        if wrong == 0 || badness > worst.1 {
            worst = (i, badness);
        }
        wrong += 1;
    }
    if wrong == 0 {
        return Ok(());
    }
    let (w, g) = (element(&want, worst.0), element(&got, worst.0));
    let show = |(re, im): (f64, f64)| match want.dtype {
        DType::C64 | DType::C128 => format!("{re}+{im}i"),
        _ => format!("{re}"),
    };
    let factor = if worst.1.is_finite() { format!(", {:.3} times the tolerance", worst.1) } else { String::new() };
    Err(format!(
        "{wrong} of {count} elements differ, most at {:?}: {} instead of {}{factor}",
        place(want.dims, worst.0),
        show(g),
        show(w)
    ))
}

fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}

/// The coordinates of a row-major position.
fn place(dims: &[usize], mut flat: usize) -> Vec<usize> {
    let mut at: Vec<usize> = dims
        .iter()
        .rev()
        .map(|d| {
            let here = flat.checked_rem(*d).unwrap_or(0);
            flat = flat.checked_div(*d).unwrap_or(0);
            here
        })
        .collect();
    at.reverse();
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(want: &[f32], got: &[f32], tolerance: &Tolerance) -> Result<(), String> {
        let bytes = |v: &[f32]| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let (want, got) = (bytes(want), bytes(got));
        let dims = [want.len() / 4];
        let tensor = |bytes| Tensor { dtype: DType::F32, dims: &dims, bytes };
        compare(tensor(&want), tensor(&got), tolerance)
    }

    #[test]
    fn floats_within_tolerance() {
        let t = Tolerance::default();
        assert_eq!(check(&[1.0, f32::NAN, f32::INFINITY], &[1.0005, f32::NAN, f32::INFINITY], &t), Ok(()));
        let text = check(&[1.0, 2.0], &[1.0, 2.1], &t).unwrap_err();
        assert!(text.contains("1 of 2 elements differ, most at [1]: 2.0"), "{text}");
        for (want, got) in
            [(0.0, 2e-7), (f32::INFINITY, 1.0), (1.0, f32::NAN), (f32::NAN, 1.0), (f32::INFINITY, -f32::INFINITY)]
        {
            assert!(check(&[want], &[got], &t).is_err(), "{want} {got}");
        }
    }

    #[test]
    fn relative_to_the_largest() {
        let t = Tolerance::parse(r#"{"rtol": 0.0, "atol": 1e-3, "relative_to": "max"}"#).unwrap();
        assert_eq!(check(&[100.0, 0.0], &[100.0, 0.09], &t), Ok(()));
        assert!(check(&[100.0, 0.0], &[100.0, 0.11], &t).is_err());
        // Small outputs are measured by 1.
        assert_eq!(check(&[0.01, 0.0], &[0.01, 0.0009], &t), Ok(()));
        assert!(Tolerance::parse(r#"{"relative_to": "mean"}"#).is_err());
        assert!(Tolerance::parse(r#"{"rtol": "x"}"#).is_err());
        assert!(Tolerance::parse("{").is_err());
    }

    #[test]
    fn integers_types_and_shapes_exactly() {
        let t = Tolerance { rtol: 1.0, atol: 1.0, relative_to_max: false };
        let tensor = |dtype, dims, bytes| Tensor { dtype, dims, bytes };
        let a = tensor(DType::I8, &[2, 2], &[1, 2, 3, 4]);
        assert_eq!(compare(a, a, &t), Ok(()));
        let b = tensor(DType::I8, &[2, 2], &[1, 2, 5, 4]);
        assert!(compare(a, b, &t).unwrap_err().contains("first at [1, 0]: 5 instead of 3"));
        assert!(compare(a, tensor(DType::U8, &[2, 2], &[1, 2, 3, 4]), &t).unwrap_err().contains("is u8, not i8"));
        assert!(compare(a, tensor(DType::I8, &[4], &[1, 2, 3, 4]), &t).unwrap_err().contains("shape [4]"));
        assert!(compare(a, tensor(DType::I8, &[2, 2], &[1, 2, 3]), &t).is_err());
    }
}
