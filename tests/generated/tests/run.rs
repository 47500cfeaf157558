//! Generated code does what the interpreter does, allocates nothing, and says what is wrong.

use flightplan::{ErrorKind, Fault, View};
use generated::{control, found, rows, total};
use runtime::interpret::{InputTensor, Interpreter, Mode};
use runtime::{DType, as_bytes};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[path = "../plans.rs"]
#[allow(dead_code, reason = "not every test uses every plan")]
mod plans;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// How many allocations `f` makes.
fn allocations(f: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.with(Cell::get);
    f();
    ALLOCATIONS.with(Cell::get) - before
}

fn interpreter(made: plans::Made, mode: Mode) -> Interpreter {
    Interpreter::with_mode(made.plan, made.weights, mode).unwrap()
}

#[test]
fn free_dims_guards_and_joins() {
    let x: Vec<f32> = (0..16).map(|v| v as f32).collect();
    let more: Vec<f32> = (0..32).map(|v| -(v as f32)).collect();
    let mut model = rows::Model::new().unwrap();
    for mode in [Mode::Static, Mode::Naive] {
        let mut plain = interpreter(plans::rows(), mode);
        for n in [4usize, 2, 4] {
            let (x, more) = (&x[..n * 4], &more[..n * 8]);
            let inputs = rows::Inputs { x: x.into(), more_data: more.into() };
            let mut result = Vec::new();
            let mut dims = [0; 2];
            let count = allocations(|| {
                let outputs = model.run(&inputs).unwrap();
                dims = outputs.z.dims();
                assert_eq!(outputs.z.get([1, 3]), Some(28.0));
            });
            assert_eq!(count, 0);
            result.extend_from_slice(model.run(&inputs).unwrap().z.bytes());
            plain
                .run(&[
                    InputTensor { dtype: DType::F32, dims: &[n, 4], bytes: as_bytes(x) },
                    InputTensor { dtype: DType::F32, dims: &[2 * n, 4], bytes: as_bytes(more) },
                ])
                .unwrap();
            let wanted = plain.output(0).unwrap();
            assert_eq!((&dims[..], &result), (&wanted.dims[..], &wanted.bytes));
        }
    }
}

#[test]
fn what_does_not_fit_is_told_before_anything_runs() {
    let x = [0f32; 40];
    let more = [0f32; 80];
    let mut model = rows::Model::new().unwrap();
    let mut kind = |n: usize, m: usize| {
        let inputs = rows::Inputs { x: (&x[..n]).into(), more_data: (&more[..m]).into() };
        model.run(&inputs).err().unwrap()
    };
    let error = kind(12, 24);
    assert!(matches!(error.kind(), ErrorKind::EnvelopeViolation { value: 3, lo: 2, hi: 8, step: 2, .. }), "{error}");
    let error = kind(40, 80);
    assert!(matches!(error.kind(), ErrorKind::EnvelopeViolation { value: 10, .. }), "{error}");
    let error = kind(16, 16);
    assert!(matches!(error.kind(), ErrorKind::Tensor { .. }), "{error}");
    let error = kind(15, 16);
    assert!(matches!(error.kind(), ErrorKind::Tensor { .. }), "{error}");
    let error = kind(32, 64);
    assert!(error.to_string().contains("twice the rows fit the table: 16 <= 12"), "{error}");
}

#[test]
fn branches_and_loops() {
    let x = [1f32, 2.0, 3.0, 4.0];
    let mut model = control::Model::new().unwrap();
    for mode in [Mode::Static, Mode::Naive] {
        let mut plain = interpreter(plans::control(), mode);
        for (flag, trip) in [(true, 0i64), (false, 5), (true, 2)] {
            let (flags, trips) = ([flag], [trip]);
            let inputs = control::Inputs { x: (&x).into(), if_: (&flags).into(), trip: (&trips).into() };
            let count = allocations(|| {
                let outputs = model.run(&inputs).unwrap();
                let sign = if flag { -1.0 } else { 1.0 };
                assert_eq!(outputs.chosen.data(), x.map(|v| sign * v));
                assert_eq!(outputs.sum.data(), x.map(|v| v * (trip + 1) as f32));
            });
            assert_eq!(count, 0);
            let flag = [u8::from(flag)];
            plain
                .run(&[
                    InputTensor { dtype: DType::F32, dims: &[4], bytes: as_bytes(&x) },
                    InputTensor { dtype: DType::Bool, dims: &[1], bytes: &flag },
                    InputTensor { dtype: DType::I64, dims: &[1], bytes: &trip.to_ne_bytes() },
                ])
                .unwrap();
            assert_eq!(plain.output(1).unwrap().bytes, as_bytes(&x.map(|v| v * (trip + 1) as f32)));
        }
    }
    let inputs = control::Inputs { x: (&x).into(), if_: (&[true]).into(), trip: (&[6]).into() };
    let error = model.run(&inputs).err().unwrap();
    let wanted = Fault::Capacity { needed: 6, planned: 5 };
    assert!(
        matches!(error.kind(), ErrorKind::Fault { name, fault, .. } if name == "again" && *fault == wanted),
        "{error}"
    );
}

#[test]
fn a_run_that_fails_leaves_the_state() {
    let mut model = total::Model::new().unwrap();
    let step = |model: &mut total::Model<'_>, x: [i32; 4]| {
        model.run(&total::Inputs { x: (&x).into() }).map(|o| o.next.data().to_vec())
    };
    assert_eq!(step(&mut model, [1, 2, 4, 5]).unwrap(), [1000, 500, 250, 200]);
    let error = step(&mut model, [1, 0, 1, 1]).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("step 1 (`divided`, Map) of plan ") && text.ends_with("integer division by zero"),
        "{text}"
    );
    assert_eq!(model.state().unwrap().total.data(), [1000, 500, 250, 200]);
    assert_eq!(step(&mut model, [1, 2, 4, 5]).unwrap(), [2000, 1000, 500, 400]);
    model.set_state(&total::States { total: (&[1, 2, 3, 4]).into() }).unwrap();
    assert_eq!(step(&mut model, [1000; 4]).unwrap(), [2, 3, 4, 5]);
    assert!(model.set_state(&total::States { total: View::flat(&[1, 2]) }).is_err());
    model.reset();
    assert_eq!(step(&mut model, [1, 2, 4, 5]).unwrap(), [1000, 500, 250, 200]);
}

#[test]
fn the_interpreter_keeps_states_too() {
    for mode in [Mode::Static, Mode::Naive] {
        let mut plain = interpreter(plans::total(), mode);
        let mut step = |x: [i32; 4]| {
            plain.run(&[InputTensor { dtype: DType::I32, dims: &[4], bytes: as_bytes(&x) }])?;
            plain.output(0).map(|o| o.bytes)
        };
        assert_eq!(step([1, 2, 4, 5]).unwrap(), as_bytes(&[1000, 500, 250, 200]));
        assert!(step([0; 4]).is_err());
        assert_eq!(step([1, 2, 4, 5]).unwrap(), as_bytes(&[2000, 1000, 500, 400]));
        plain.reset().unwrap();
        assert_eq!(plain.state(0).unwrap().bytes, [0; 16]);
    }
}

#[test]
fn extents_that_the_data_tells() {
    let mut model = found::Model::new().unwrap();
    for (x, wanted) in
        [([0f32, 1.0, 0.0, 2.0, 3.0, 0.0], &[1i64, 3, 4][..]), ([0.0; 6], &[]), ([1.0; 6], &[0, 1, 2, 3, 4, 5])]
    {
        let count = allocations(|| {
            let outputs = model.run(&found::Inputs { x: (&x).into() }).unwrap();
            assert_eq!(outputs.out.data(), wanted);
            assert_eq!(outputs.out.dims(), [1, wanted.len()]);
        });
        assert_eq!(count, 0);
        for mode in [Mode::Static, Mode::Naive] {
            let mut plain = interpreter(plans::found(), mode);
            plain.run(&[InputTensor { dtype: DType::F32, dims: &[6], bytes: as_bytes(&x) }]).unwrap();
            assert_eq!(plain.output(0).unwrap().bytes, as_bytes(wanted));
        }
    }
}

#[test]
fn a_callers_arena_and_buffers() {
    #[repr(align(64))]
    struct Memory([u8; total::ARENA_BYTES + 64]);
    let mut memory = Memory([1; total::ARENA_BYTES + 64]);
    assert!(total::Model::with_arena(&mut memory.0[1..]).is_err());
    assert!(total::Model::with_arena(&mut memory.0[..total::ARENA_BYTES - 1]).is_err());
    let mut model = total::Model::with_arena(&mut memory.0).unwrap();
    let mut next = [0; 4];
    model.run_into(&total::Inputs { x: (&[1, 2, 4, 5]).into() }, &mut total::Buffers { next: &mut next }).unwrap();
    assert_eq!(next, [1000, 500, 250, 200]);
    let mut short = [0; 3];
    assert!(model.run_into(&total::Inputs { x: (&[1; 4]).into() }, &mut total::Buffers { next: &mut short }).is_err());
}

#[test]
fn models_can_be_sent() {
    fn sent<T: Send>(_: &T) {}
    sent(&rows::Model::new().unwrap());
}
