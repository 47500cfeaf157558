//! NumPy's `.npy` files, versions 1 to 3.
//!
//! Types that NumPy does not have are written as the next wider one that it has: bfloat16 and small floats as float32, 4-bit
//! and 2-bit integers as 8-bit ones. For reading, `V2` stands for bfloat16, as the ml_dtypes package writes it.

use super::case::Data;
use super::element::{float, integer};
use bytes::Bytes;
use plan::DType;
use std::path::Path;

const MAGIC: &[u8] = b"\x93NUMPY";

/// Reads a file.
pub fn read(path: &Path) -> Result<Data, String> {
    let bytes = std::fs::read(path).map_err(|e| format!("cannot be read: {e}"))?;
    parse(&bytes)
}

/// Reads the contents of a file.
pub fn parse(file: &[u8]) -> Result<Data, String> {
    let rest = file.strip_prefix(MAGIC).ok_or("is no .npy file")?;
    let cut = || "is cut off".to_owned();
    let (version, rest) = rest.split_at_checked(2).ok_or_else(cut)?;
    let (length, rest) = match version {
        [1, _] => {
            let (length, rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
            (usize::from(u16::from_le_bytes(*length)), rest)
        }
        [2 | 3, _] => {
            let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
            (usize::try_from(u32::from_le_bytes(*length)).map_err(|_| cut())?, rest)
        }
        _ => return Err(format!("has format version {version:?}; 1 to 3 are read")),
    };
    let (header, data) = rest.split_at_checked(length).ok_or_else(cut)?;
    let header = std::str::from_utf8(header).map_err(|_| "has a header that is not UTF-8")?;
    let descr = quoted(header, "descr").ok_or("has no simple element type")?;
    let dims = shape(header).ok_or("has no shape")?;
    let fortran = after(header, "fortran_order").ok_or("does not say its order")?.starts_with("True");
    let (order, kind) = descr.split_at_checked(1).ok_or("has no element type")?;
    let dtype = dtype_of(kind).ok_or_else(|| format!("has elements of type {descr}, which no model has"))?;
    let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
    let wanted = count.and_then(|n| dtype.bytes_of(n)).ok_or("is too large")?;
    let data = data.get(..wanted).ok_or_else(cut)?;
    let mut bytes = data.to_vec();
    if order == ">" {
        let part = if matches!(dtype, DType::C64 | DType::C128) { dtype.bits() / 16 } else { dtype.bits() / 8 };
        bytes.chunks_exact_mut(part.max(1)).for_each(<[u8]>::reverse);
    }
    if fortran {
        bytes = transposed(&bytes, &dims, dtype.bits() / 8);
    }
    Ok(Data { dtype, dims, bytes: Bytes::from(bytes) })
}

/// The text after `'key':`.
fn after<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let at = [format!("'{key}'"), format!("\"{key}\"")];
    let start = at.iter().find_map(|k| header.find(k.as_str()).map(|i| i + k.len()))?;
    Some(header.get(start..)?.trim_start().strip_prefix(':')?.trim_start())
}

fn quoted<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let value = after(header, key)?;
    let quote = value.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    value.get(1..)?.split_once(quote).map(|(inside, _)| inside)
}

fn shape(header: &str) -> Option<Vec<usize>> {
    let inside = after(header, "shape")?.strip_prefix('(')?.split_once(')')?.0;
    inside.split(',').map(str::trim).filter(|w| !w.is_empty()).map(|w| w.trim_end_matches('L').parse().ok()).collect()
}

fn dtype_of(kind: &str) -> Option<DType> {
    Some(match kind {
        "f4" => DType::F32,
        "f8" => DType::F64,
        "f2" => DType::F16,
        "V2" => DType::BF16,
        "i1" => DType::I8,
        "i2" => DType::I16,
        "i4" => DType::I32,
        "i8" => DType::I64,
        "u1" => DType::U8,
        "u2" => DType::U16,
        "u4" => DType::U32,
        "u8" => DType::U64,
        "b1" => DType::Bool,
        "c8" => DType::C64,
        "c16" => DType::C128,
        _ => return None,
    })
}

/// Row-major order of what lies in column-major order.
fn transposed(bytes: &[u8], dims: &[usize], size: usize) -> Vec<u8> {
    let count = bytes.len() / size.max(1);
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = vec![0usize; dims.len()];
    for _ in 0..count {
        let mut flat = 0usize;
        for (i, d) in at.iter().zip(dims).rev() {
            flat = flat * d + i;
        }
        out.extend_from_slice(bytes.get(flat * size..(flat + 1) * size).unwrap_or(&[]));
        for (i, d) in at.iter_mut().zip(dims).rev() {
            *i += 1;
            if *i < *d {
                break;
            }
            *i = 0;
        }
    }
    out
}

/// The contents of a file of version 1.
pub fn format(dtype: DType, dims: &[usize], bytes: &[u8]) -> Vec<u8> {
    let count: usize = dims.iter().product();
    let (descr, data) = match dtype {
        DType::F32 => ("<f4", None),
        DType::F64 => ("<f8", None),
        DType::F16 => ("<f2", None),
        DType::I8 => ("|i1", None),
        DType::I16 => ("<i2", None),
        DType::I32 => ("<i4", None),
        DType::I64 => ("<i8", None),
        DType::U8 => ("|u1", None),
        DType::U16 => ("<u2", None),
        DType::U32 => ("<u4", None),
        DType::U64 => ("<u8", None),
        DType::Bool => ("|b1", None),
        DType::C64 => ("<c8", None),
        DType::C128 => ("<c16", None),
        DType::U4 | DType::U2 | DType::I4 | DType::I2 => {
            let wide = (0..count).map(|i| integer(dtype, bytes, i).unwrap_or(0) as u8).collect::<Vec<u8>>();
            (if dtype.is_signed_integer() { "|i1" } else { "|u1" }, Some(wide))
        }
        _ => {
            let value = |i| float(dtype, bytes, i).map_or(f32::NAN, |(v, _)| v as f32);
            ("<f4", Some((0..count).flat_map(|i| value(i).to_le_bytes()).collect()))
        }
    };
    let list: String = dims.iter().map(|d| format!("{d}, ")).collect();
    let list = if dims.len() == 1 { list.trim_end() } else { list.trim_end_matches(", ") };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({list}), }}");
    // The data starts at a multiple of 64; the header ends with a new line.
    let used = MAGIC.len() + 4 + header.len() + 1;
    header.push_str(&" ".repeat(used.next_multiple_of(64) - used));
    header.push('\n');
    let mut file = Vec::from(MAGIC);
    file.extend_from_slice(&[1, 0]);
    // At most 8 extents: far below the limit of 65,535 bytes.
    file.extend_from_slice(&(header.len() as u16).to_le_bytes());
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(data.as_deref().unwrap_or(bytes));
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        file.extend((header.len() as u16).to_le_bytes());
        file.extend(header.as_bytes());
        file.extend(data);
        file
    }

    #[test]
    fn what_is_written_is_read_back() {
        let dims_of = [vec![], vec![3], vec![2, 3], vec![0, 4]];
        for dtype in [DType::F32, DType::F16, DType::Bool, DType::I64, DType::U8, DType::C64] {
            for dims in &dims_of {
                let count: usize = dims.iter().product();
                let bytes: Vec<u8> = (0..dtype.bytes_of(count).unwrap()).map(|i| (i % 2) as u8).collect();
                let text = format(dtype, dims, &bytes);
                assert!((text.len() - bytes.len()).is_multiple_of(64));
                assert_eq!(parse(&text), Ok(Data { dtype, dims: dims.clone(), bytes: bytes.into() }));
            }
        }
    }

    #[test]
    fn types_that_numpy_lacks_are_widened() {
        let back = parse(&format(DType::I4, &[3], &[0x8f, 0x07])).unwrap();
        assert_eq!((back.dtype, &back.bytes[..]), (DType::I8, &[0xff, 0xf8, 0x07][..]));
        let back = parse(&format(DType::BF16, &[1], &[0x80, 0x3f])).unwrap();
        assert_eq!((back.dtype, &back.bytes[..]), (DType::F32, &1f32.to_le_bytes()[..]));
    }

    #[test]
    fn other_orders_are_converted() {
        let big = file("{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }", &[0, 1, 0, 2]);
        assert_eq!(&parse(&big).unwrap().bytes[..], [1, 0, 2, 0]);
        let columns = file("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", &[1, 4, 2, 5, 3, 6]);
        assert_eq!(&parse(&columns).unwrap().bytes[..], [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn broken_files_are_refused() {
        let good = format(DType::F32, &[2], &[0; 8]);
        for end in 0..good.len() {
            assert!(parse(&good[..end]).is_err(), "{end}");
        }
        for header in [
            "{'descr': '<U3', 'fortran_order': False, 'shape': (2,), }",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9), }",
            "{'descr': '<f4', 'shape': (2,), }",
            "{'descr': '', 'fortran_order': False, 'shape': (-2,), }",
        ] {
            assert!(parse(&file(header, &[0; 8])).is_err(), "{header}");
        }
    }
}
