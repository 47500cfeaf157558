//! Says whether the line of text in a picture stands upright or upside down, as a text reader asks before it reads.
//!
//! How a picture is prepared is as in the Python package `rapidocr` 3.10.0.

mod picture;

use picture::Picture;
use std::{path::PathBuf, process::ExitCode};

flightplan::include_model!(ppocr_cls);

/// What the model sees: three planes of this size.
const HEIGHT: usize = 48;
const WIDTH: usize = 192;
const PLANE: usize = HEIGHT * WIDTH;

/// Pictures that are judged when none is given.
const OWN: [(&str, &[u8]); 2] = [
    ("upright.png", include_bytes!("../pictures/upright.png")),
    ("upside-down.jpg", include_bytes!("../pictures/upside-down.jpg")),
];

/// How a line of text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Upright,
    UpsideDown,
}

type Error = Box<dyn std::error::Error>;

/// The model, and room for what it sees.
struct Judge {
    model: ppocr_cls::Model<'static>,
    seen: Box<[f32; 3 * PLANE]>,
}

impl Judge {
    fn new() -> Result<Judge, flightplan::Error> {
        Ok(Judge { model: ppocr_cls::Model::new()?, seen: Box::new([0.0; 3 * PLANE]) })
    }

    /// How the text in a file's bytes stands, and how sure the model is of it.
    fn judge(&mut self, bytes: &[u8]) -> Result<(Direction, f32), Error> {
        prepare(&Picture::decode(bytes)?, &mut self.seen);
        let outputs = self.model.run(&ppocr_cls::Inputs { x: (&*self.seen).into() })?;
        match outputs.save_infer_model_scale_0_tmp_1.data() {
            [upright, down] if down > upright => Ok((Direction::UpsideDown, *down)),
            [upright, _] => Ok((Direction::Upright, *upright)),
            _ => Err("the model has other outputs than this program knows".into()),
        }
    }
}

/// Brings a picture to the model's height, squeezed where it is too wide and grey at the right where it is too narrow; blue,
/// green and red planes, from -1 to 1.
fn prepare(picture: &Picture, seen: &mut [f32; 3 * PLANE]) {
    let width = (HEIGHT * picture.width()).div_ceil(picture.height()).min(WIDTH);
    seen.fill(0.0);
    let small = picture.resized(width, HEIGHT);
    for (channel, plane) in seen.chunks_exact_mut(PLANE).enumerate() {
        for (to, from) in plane.chunks_exact_mut(WIDTH).zip(small.rows()) {
            for (to, pixel) in to.iter_mut().zip(from) {
                let byte = pixel.iter().rev().nth(channel).copied().unwrap_or(0);
                *to = (f32::from(byte) / 255.0 - 0.5) / 0.5;
            }
        }
    }
}

/// Prints a line per picture; false where one could not be judged.
fn judge_all(paths: &[PathBuf]) -> Result<bool, Error> {
    let mut judge = Judge::new()?;
    let width = paths.iter().map(|p| p.display().to_string().chars().count()).max().unwrap_or(0);
    let mut all = true;
    for path in paths {
        let name = path.display().to_string();
        match std::fs::read(path).map_err(Error::from).and_then(|bytes| judge.judge(&bytes)) {
            Ok(found) => print_line(&name, width, found),
            Err(error) => {
                all = false;
                println!("{name:width$}  cannot be judged: {error}");
            }
        }
    }
    Ok(all)
}

/// The pictures in this program.
fn judge_own() -> Result<bool, Error> {
    println!("No picture given, so here are the two in this program. Give it a line of text: image FILE.png ...\n");
    let mut judge = Judge::new()?;
    for (name, bytes) in OWN {
        print_line(name, 16, judge.judge(bytes)?);
    }
    let (weights, arena) = (ppocr_cls::WEIGHT_BYTES.div_ceil(1024), ppocr_cls::ARENA_BYTES.div_ceil(1024));
    println!("\nThe model: {weights} KiB of weights in this program, {arena} KiB of memory, taken once.");
    Ok(true)
}

fn print_line(name: &str, width: usize, (direction, score): (Direction, f32)) {
    let words = match direction {
        Direction::Upright => "upright",
        Direction::UpsideDown => "upside down",
    };
    println!("{name:width$}  {words:<12} {:5.1} %", score * 100.0);
}

fn main() -> ExitCode {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    match if paths.is_empty() { judge_own() } else { judge_all(&paths) } {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("image: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_pictures_are_judged_right() {
        let mut judge = Judge::new().unwrap();
        for ((name, bytes), wanted) in OWN.into_iter().zip([Direction::Upright, Direction::UpsideDown]) {
            let (found, score) = judge.judge(bytes).unwrap();
            assert!(found == wanted && score > 0.9, "{name}: {found:?}, {score}");
        }
    }

    #[test]
    fn a_picture_turned_around_is_judged_the_other_way() {
        let mut judge = Judge::new().unwrap();
        for (name, bytes) in OWN {
            let picture = Picture::decode(bytes).unwrap();
            let mut stands = |picture: &Picture| {
                prepare(picture, &mut judge.seen);
                let outputs = judge.model.run(&ppocr_cls::Inputs { x: (&*judge.seen).into() }).unwrap();
                outputs.save_infer_model_scale_0_tmp_1.data()[0] > 0.5
            };
            assert_ne!(stands(&picture), stands(&picture.turned()), "{name}");
        }
    }

    #[test]
    fn a_narrow_picture_leaves_grey_at_the_right() {
        let white = Picture::new(10, 20, vec![[255, 255, 255]; 200]).unwrap();
        let mut seen = [7.0; 3 * PLANE];
        prepare(&white, &mut seen);
        for row in seen.chunks_exact(WIDTH) {
            assert!(row[..24].iter().all(|v| *v == 1.0) && row[24..].iter().all(|v| *v == 0.0));
        }
    }

    #[test]
    fn planes_are_blue_green_red() {
        let picture = Picture::new(1, 1, vec![[255, 0, 51]]).unwrap();
        let mut seen = [7.0; 3 * PLANE];
        prepare(&picture, &mut seen);
        let first = [0, PLANE, 2 * PLANE].map(|i| seen[i]);
        assert_eq!(first, [(51.0 / 255.0 - 0.5) / 0.5, -1.0, 1.0]);
    }
}
