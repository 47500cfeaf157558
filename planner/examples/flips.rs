//! Plans models with flipped bits, and watches memory: `cargo run --release -p planner --example flips -- COUNT MODEL.onnx …`
//!
//! Ends with an error on a panic, on a plan that the checker rejects, on a case that takes more than ten seconds, and on memory beyond
//! twice the file and 64 MiB.

#[path = "../../tests/common/flips.rs"]
mod flips;

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator; the counters own no memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((count, files)) = args.split_first().and_then(|(n, files)| Some((n.parse::<usize>().ok()?, files))) else {
        eprintln!("usage: flips COUNT MODEL.onnx …");
        return ExitCode::from(2);
    };
    std::panic::set_hook(Box::new(|info| eprintln!("{info}")));
    let mut good = true;
    for (i, path) in files.iter().enumerate() {
        let file = match std::fs::read(path) {
            Ok(file) => file,
            Err(e) => {
                eprintln!("{path}: {e}");
                return ExitCode::from(2);
            }
        };
        let base = LIVE.load(Relaxed);
        PEAK.store(base, Relaxed);
        let tally = flips::run(&file, 1 + i as u64, count / files.len().max(1), Duration::from_secs(10));
        // The harness holds one copy of the file for each case.
        let peak = PEAK.load(Relaxed) - base;
        let room = 2 * file.len() + (64 << 20);
        println!("{path}: {tally:?}, peak {peak} bytes of {room}");
        good &= tally.panics == 0 && tally.rejected == 0 && peak <= room;
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
