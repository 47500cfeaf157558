//! Reading WAV files: 16-bit PCM or 32-bit float, any number of channels.

use std::{fs, path::Path};

/// Samples between -1 and 1, channels averaged.
pub struct Sound {
    /// Samples in a second.
    pub rate: u32,
    /// The samples.
    pub samples: Vec<f32>,
}

/// Reads a whole file.
///
/// # Errors
/// When it cannot be read, or is no WAV file of a kind known here.
pub fn read(path: &Path) -> Result<Sound, Box<dyn std::error::Error>> {
    let bytes = fs::read(path)?;
    parse(&bytes).ok_or_else(|| "not a WAV file of 16-bit PCM or 32-bit float samples".into())
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

fn parse(bytes: &[u8]) -> Option<Sound> {
    if bytes.get(..4)? != b"RIFF" || bytes.get(8..12)? != b"WAVE" {
        return None;
    }
    let (mut at, mut format) = (12, None);
    loop {
        let (name, len) = (bytes.get(at..at + 4)?, u32_at(bytes, at + 4)? as usize);
        let body = bytes.get(at + 8..)?;
        // Streams written on the fly say too much of their length.
        let body = body.get(..len).unwrap_or(body);
        if name == b"fmt " {
            let kind = match u16_at(body, 0)? {
                // The extensible form names the kind later.
                0xfffe => u16_at(body, 24)?,
                kind => kind,
            };
            format = Some((kind, u16_at(body, 2)?, u32_at(body, 4)?, u16_at(body, 14)?));
        } else if name == b"data" {
            let (kind, channels, rate, bits) = format?;
            return Some(Sound { rate, samples: samples(body, kind, usize::from(channels), bits)? });
        }
        at += 8 + len + len % 2;
    }
}

fn samples(body: &[u8], kind: u16, channels: usize, bits: u16) -> Option<Vec<f32>> {
    let all: Vec<f32> = match (kind, bits) {
        (1, 16) => body
            .chunks_exact(2)
            .filter_map(|c| c.try_into().ok())
            .map(|c| f32::from(i16::from_le_bytes(c)) / 32768.0)
            .collect(),
        (3, 32) => body.chunks_exact(4).filter_map(|c| c.try_into().ok()).map(f32::from_le_bytes).collect(),
        _ => return None,
    };
    if channels == 0 {
        return None;
    }
    Some(all.chunks_exact(channels).map(|frame| frame.iter().sum::<f32>() / channels as f32).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stereo_is_averaged() {
        let mut bytes = b"RIFF\x2c\0\0\0WAVEfmt \x10\0\0\0\x01\0\x02\0\x80\x3e\0\0\0\xfa\0\0\x04\0\x10\0".to_vec();
        bytes.extend(b"data\x08\0\0\0");
        bytes.extend([16384i16, 0, -32768, -32768].iter().flat_map(|v| v.to_le_bytes()));
        let sound = parse(&bytes).unwrap();
        assert_eq!((sound.rate, sound.samples), (16_000, vec![0.25, -1.0]));
        assert!(parse(&bytes[..30]).is_none());
    }
}
