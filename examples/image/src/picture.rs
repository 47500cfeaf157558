//! Pictures: read from PNG and JPEG, and resized.

use std::io::Cursor;
use zune_jpeg::{
    JpegDecoder,
    zune_core::{bytestream::ZCursor, colorspace::ColorSpace, options::DecoderOptions},
};

/// The widest and the highest picture that is read.
const MOST: usize = 1 << 14;
/// The most memory that reading a PNG may take, in bytes.
const MEMORY: usize = 1 << 30;

/// Red, green and blue.
type Pixel = [u8; 3];

/// A picture of at least one pixel.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    width: usize,
    pixels: Vec<Pixel>,
}

/// Why a picture could not be read.
type Error = Box<dyn std::error::Error>;

impl Picture {
    /// A picture of these pixels, row by row; none where their number is wrong or zero.
    pub fn new(width: usize, height: usize, pixels: Vec<Pixel>) -> Option<Picture> {
        (width.checked_mul(height) == Some(pixels.len()) && !pixels.is_empty()).then_some(Picture { width, pixels })
    }

    /// Reads a PNG or JPEG. What shines through is put on white.
    ///
    /// # Errors
    /// When the bytes are neither, are damaged, or hold more than 16,384 pixels in width or height.
    pub fn decode(bytes: &[u8]) -> Result<Picture, Error> {
        if bytes.starts_with(b"\x89PNG") {
            png(bytes)
        } else if bytes.starts_with(b"\xff\xd8") {
            jpeg(bytes)
        } else {
            Err("neither a PNG nor a JPEG".into())
        }
    }

    /// Pixels in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.pixels.len() / self.width
    }

    /// The rows, from the top.
    pub fn rows(&self) -> impl Iterator<Item = &[Pixel]> {
        self.pixels.chunks_exact(self.width)
    }

    /// The picture upside down.
    #[cfg(test)]
    pub fn turned(&self) -> Picture {
        Picture { width: self.width, pixels: self.pixels.iter().rev().copied().collect() }
    }

    /// The picture in another size, each pixel between its four nearest ones.
    pub fn resized(&self, width: usize, height: usize) -> Picture {
        let (columns, rows) = (places(self.width, width), places(self.height(), height));
        let at = |x: usize, y: usize| self.pixels.get(y * self.width + x).copied().unwrap_or_default();
        let mut pixels = Vec::with_capacity(width * height);
        for (y, y2, down) in &rows {
            for (x, x2, right) in &columns {
                let corners = [at(*x, *y), at(*x2, *y), at(*x, *y2), at(*x2, *y2)];
                let weights = [(1.0 - right) * (1.0 - down), right * (1.0 - down), (1.0 - right) * down, right * down];
                let mut sum = [0.5f32; 3];
                for (corner, weight) in corners.iter().zip(weights) {
                    sum.iter_mut().zip(corner).for_each(|(s, c)| *s += weight * f32::from(*c));
                }
                pixels.push(sum.map(|s| s as u8));
            }
        }
        Picture { width, pixels }
    }
}

/// For each of `new` pixels along an axis of `old`: the two pixels it lies between, and how far it is from the first. The
/// centres of the outermost pixels lie as far from the edge, each in its own measure.
fn places(old: usize, new: usize) -> Vec<(usize, usize, f32)> {
    let last = old.saturating_sub(1);
    let scale = old as f32 / new as f32;
    (0..new)
        .map(|i| {
            let place = ((i as f32 + 0.5) * scale - 0.5).clamp(0.0, last as f32);
            let first = place as usize;
            (first, (first + 1).min(last), place - first as f32)
        })
        .collect()
}

fn png(bytes: &[u8]) -> Result<Picture, Error> {
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: MEMORY });
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info()?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    check(width, height)?;
    let mut data = vec![0; reader.output_buffer_size().ok_or("too large")?];
    let frame = reader.next_frame(&mut data)?;
    let data = data.get(..frame.buffer_size()).unwrap_or_default();
    let pixels = match frame.color_type {
        png::ColorType::Grayscale => data.iter().map(|g| [*g; 3]).collect(),
        png::ColorType::GrayscaleAlpha => pixels(data, |[g, a]| [on_white(g, a); 3]),
        png::ColorType::Rgb => pixels(data, |rgb| rgb),
        png::ColorType::Rgba => pixels(data, |[r, g, b, a]| [r, g, b].map(|c| on_white(c, a))),
        png::ColorType::Indexed => return Err("a palette that could not be resolved".into()),
    };
    Picture::new(width, height, pixels).ok_or_else(|| "it has no pixels".into())
}

fn jpeg(bytes: &[u8]) -> Result<Picture, Error> {
    let options = DecoderOptions::default().jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder =
        JpegDecoder::new_with_options(ZCursor::new(bytes), options.set_max_width(MOST).set_max_height(MOST));
    let data = decoder.decode()?;
    let (width, height) = decoder.dimensions().ok_or("it has no dimensions")?;
    Picture::new(width, height, pixels(&data, |rgb| rgb)).ok_or_else(|| "it has no pixels".into())
}

fn check(width: usize, height: usize) -> Result<(), Error> {
    if width > MOST || height > MOST {
        return Err(format!("{width} x {height} pixels are too many, the most is {MOST} either way").into());
    }
    Ok(())
}

fn pixels<const N: usize>(data: &[u8], pixel: impl Fn([u8; N]) -> Pixel) -> Vec<Pixel> {
    data.chunks_exact(N).filter_map(|c| c.try_into().ok()).map(pixel).collect()
}

/// A channel of this opacity in front of white.
fn on_white(channel: u8, alpha: u8) -> u8 {
    let (channel, alpha) = (u32::from(channel), u32::from(alpha));
    ((channel * alpha + 255 * (255 - alpha) + 127) / 255) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(color: png::ColorType, depth: png::BitDepth, width: u32, data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, 1);
        encoder.set_color(color);
        encoder.set_depth(depth);
        if color == png::ColorType::Indexed {
            encoder.set_palette(vec![1, 2, 3, 4, 5, 6]);
        }
        encoder.write_header().unwrap().write_image_data(data).unwrap();
        bytes
    }

    #[test]
    fn every_kind_of_png() {
        use png::{BitDepth::*, ColorType::*};
        let check = |color, depth, data: &[u8], wanted: [Pixel; 2]| {
            let picture = Picture::decode(&written(color, depth, 2, data)).unwrap();
            assert_eq!(picture, Picture::new(2, 1, wanted.to_vec()).unwrap(), "{color:?} {depth:?}");
        };
        check(Grayscale, Eight, &[0, 200], [[0; 3], [200; 3]]);
        check(Grayscale, One, &[0b0100_0000], [[0; 3], [255; 3]]);
        check(Grayscale, Sixteen, &[9, 200, 10, 100], [[9; 3], [10; 3]]);
        check(GrayscaleAlpha, Eight, &[0, 255, 0, 0], [[0; 3], [255; 3]]);
        check(Rgb, Eight, &[1, 2, 3, 4, 5, 6], [[1, 2, 3], [4, 5, 6]]);
        check(Rgba, Eight, &[1, 2, 3, 255, 0, 0, 255, 51], [[1, 2, 3], [204, 204, 255]]);
        check(Indexed, Eight, &[1, 0], [[4, 5, 6], [1, 2, 3]]);
    }

    #[test]
    fn the_own_size_changes_nothing() {
        let picture = Picture::new(3, 2, (0..6).map(|i| [i * 7, i, 255 - i]).collect()).unwrap();
        assert_eq!(picture.resized(3, 2), picture);
    }

    #[test]
    fn between_two_pixels() {
        let picture = Picture::new(2, 1, vec![[0; 3], [100; 3]]).unwrap();
        let wide: Vec<u8> = picture.resized(4, 1).pixels.iter().map(|p| p[0]).collect();
        assert_eq!(wide, [0, 25, 75, 100]);
    }

    #[test]
    fn damaged_files_are_refused() {
        for bytes in
            [include_bytes!("../pictures/upright.png").as_slice(), include_bytes!("../pictures/upside-down.jpg")]
        {
            for len in [0, 3, 20, 60] {
                assert!(Picture::decode(&bytes[..len]).is_err(), "{len} bytes");
            }
        }
    }
}
