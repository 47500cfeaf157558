//! Sizes of memory as people write them.

/// A number of bytes, perhaps with a unit and with `_` between digits: `262144`, `256 KiB`, `1.5MiB`, `2 MB`, `1_024`. None where it
/// is something else, or more than 9·10^18.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '_' || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number = number.replace('_', "");
    let scale: u64 = match unit.trim() {
        "" | "B" => 1,
        "kB" | "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" | "K" => 1 << 10,
        "MiB" | "M" => 1 << 20,
        "GiB" | "G" => 1 << 30,
        _ => return None,
    };
    match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(scale),
        Err(_) => {
            let bytes = number.parse::<f64>().ok()? * scale as f64;
            (bytes.is_finite() && (0.0..=9e18).contains(&bytes)).then_some(bytes as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse_bytes;

    #[test]
    fn sizes_are_read() {
        for (text, wanted) in [
            ("262144", 262_144),
            ("256KiB", 262_144),
            (" 256 KiB", 262_144),
            ("1.5MiB", 1_572_864),
            ("3 kB", 3000),
            ("1GB", 1_000_000_000),
            ("1_024", 1024),
        ] {
            assert_eq!(parse_bytes(text), Some(wanted), "{text}");
        }
        for wrong in ["", "KiB", "1 parsec", "2 apples", "-1", "99999999999999999999GiB"] {
            assert_eq!(parse_bytes(wrong), None, "{wrong}");
        }
    }
}
