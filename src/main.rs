//! Names the type of each file on the command line, with a model that is part of the program.
//!
//! What is read of a file, and when a label is trusted, is as in the Python package `magika` 1.0.3.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

flightplan::include_model!(magika);

/// A line per class, in the order of the model's output.
const LABELS: &str = include_str!("../models/magika/labels.tsv");
/// Bytes that the model sees of either end of a file.
const SIDE: usize = 1024;
/// Bytes that are read at either end.
const BLOCK: usize = 4096;
/// What stands where the file has no byte.
const PADDING: i32 = 256;
/// Bytes below which the model is not asked.
const FEW: usize = 8;

/// What a file is taken for.
struct Kind {
    label: &'static str,
    description: &'static str,
    score: f32,
}

impl Kind {
    fn sure(label: &'static str, description: &'static str) -> Kind {
        Kind { label, description, score: 1.0 }
    }
}

const EMPTY: (&str, &str) = ("empty", "Empty file");
const TEXT: (&str, &str) = ("txt", "Generic text document");
const UNKNOWN: (&str, &str) = ("unknown", "Unknown binary data");

type Error = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let mut paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if paths.is_empty() {
        paths = own_files();
        println!("No files given, so here are some of this program's own. Give it others: demo FILE ...\n");
    }
    match identify_all(&paths) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("demo: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Files that are at hand: what the program was made from, and the program.
fn own_files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = [
        "Cargo.toml",
        "build.rs",
        "src/main.rs",
        "README.md",
        ".gitignore",
        "models/magika/labels.tsv",
        "models/magika/magika.onnx",
    ];
    let mut paths: Vec<PathBuf> = names.iter().map(|n| root.join(n)).filter(|p| p.exists()).collect();
    paths.extend(std::env::current_exe().ok());
    paths
}

/// Prints a line per file; false where one could not be read.
fn identify_all(paths: &[PathBuf]) -> Result<bool, Error> {
    let mut model = magika::Model::new()?;
    let width = paths.iter().map(|p| p.display().to_string().chars().count()).max().unwrap_or(0);
    let mut out = std::io::stdout().lock();
    let mut all = true;
    for path in paths {
        let name = path.display().to_string();
        match identify(&mut model, path) {
            Ok(kind) => {
                let score = kind.score * 100.0;
                writeln!(out, "{name:width$}  {:<12} {score:5.1} %  {}", kind.label, kind.description)?;
            }
            Err(error) => {
                all = false;
                writeln!(out, "{name:width$}  cannot be read: {error}")?;
            }
        }
    }
    let (weights, arena) = (magika::WEIGHT_BYTES.div_ceil(1024), magika::ARENA_BYTES.div_ceil(1024));
    writeln!(out, "\nThe model: {weights} KiB of weights in this program, {arena} KiB of memory, taken once.")?;
    Ok(all)
}

/// What one file is.
fn identify(model: &mut magika::Model<'_>, path: &Path) -> Result<Kind, Error> {
    let mut file = File::open(path)?;
    let meta = file.metadata()?;
    if meta.is_dir() {
        return Ok(Kind::sure("directory", "A directory"));
    }
    let size = meta.len();
    let count = size.min(BLOCK as u64) as usize;
    let mut head = vec![0; count];
    file.read_exact(&mut head)?;
    if count == 0 {
        return Ok(Kind::sure(EMPTY.0, EMPTY.1));
    }
    let mut tail = vec![0; count];
    file.seek(SeekFrom::Start(size - count as u64))?;
    file.read_exact(&mut tail)?;

    let features = features(&head, &tail);
    if count < FEW || features.get(FEW - 1) == Some(&PADDING) {
        let (label, description) = if std::str::from_utf8(&head).is_ok() { TEXT } else { UNKNOWN };
        return Ok(Kind::sure(label, description));
    }
    let outputs = model.run(&magika::Inputs { bytes: (&features).into() })?;
    Ok(judge(outputs.target_label.data()))
}

/// The model's input: the first bytes after leading white space, and the last ones before trailing white space.
fn features(head: &[u8], tail: &[u8]) -> [i32; 2 * SIDE] {
    let space = |b: &u8| matches!(b, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c);
    let start = head.iter().position(|b| !space(b)).unwrap_or(head.len());
    let end = tail.iter().rposition(|b| !space(b)).map_or(0, |p| p + 1);
    let mut features = [PADDING; 2 * SIDE];
    let (first, last) = features.split_at_mut(SIDE);
    for (to, from) in first.iter_mut().zip(head.iter().skip(start)) {
        *to = i32::from(*from);
    }
    for (to, from) in last.iter_mut().rev().zip(tail.iter().take(end).rev()) {
        *to = i32::from(*from);
    }
    features
}

/// The label of the highest score, or a general one where the score is not to be trusted.
fn judge(scores: &[f32]) -> Kind {
    let best = scores.iter().zip(LABELS.lines()).reduce(|best, next| if next.0 > best.0 { next } else { best });
    let Some((score, line)) = best else { return Kind::sure(UNKNOWN.0, UNKNOWN.1) };
    let mut fields = line.split('\t');
    let mut field = || fields.next().unwrap_or_default();
    let (label, _group, text, threshold, description) = (field(), field(), field(), field(), field());
    if *score >= threshold.parse().unwrap_or(0.5) {
        return Kind { label, description, score: *score };
    }
    let (label, description) = if text == "text" { TEXT } else { UNKNOWN };
    Kind { label, description, score: *score }
}
