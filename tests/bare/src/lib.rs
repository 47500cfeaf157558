//! A generated model in static memory, without `alloc` and `std`.
#![no_std]

use core::cell::UnsafeCell;

flightplan::include_model!(silero_vad_16k);

#[repr(C, align(64))]
struct Memory(UnsafeCell<[u8; silero_vad_16k::ARENA_BYTES]>);

// SAFETY: only `speech` touches it, whose caller promises not to call it twice at a time.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new([0; silero_vad_16k::ARENA_BYTES]));

/// The probability of speech in 576 samples; -1 for an error.
///
/// # Safety
/// `samples` points to 576 floats, and no other call is under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn speech(samples: *const f32) -> f32 {
    // SAFETY: the caller promises that nobody else uses the memory.
    let memory = unsafe { &mut *MEMORY.0.get() };
    // SAFETY: the caller promises 576 floats.
    let samples = unsafe { core::slice::from_raw_parts(samples, 576) };
    let Ok(mut model) = silero_vad_16k::Model::with_arena(memory) else { return -1.0 };
    let outputs = model.run(&silero_vad_16k::Inputs { input: samples.into() });
    outputs.ok().and_then(|o| o.output.data().first().copied()).unwrap_or(-1.0)
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
