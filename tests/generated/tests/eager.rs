//! The eager executor: what static code computes, in memory that is taken and given back, and all of it given back at the end.

use flightplan::{ErrorKind, Fault};
use generated::{chain, chain_eager, control, control_eager, found, found_eager, opened_eager, rows, rows_eager};
use generated::{stream, stream_eager, total_eager};
use runtime::interpret::{InputTensor, Interpreter, Mode};
use runtime::{DType, as_bytes};

#[path = "../plans.rs"]
#[allow(dead_code, reason = "not every test uses every plan")]
mod plans;
#[path = "../stream.rs"]
#[allow(dead_code, reason = "the plan is not made anew")]
mod source;

const ALIGN: usize = 64;

fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGN)
}

/// Row A8. Three runs with changing shapes: equal bits, as much memory as each run's rows need, and nothing left.
#[test]
fn what_a_run_takes_follows_its_extents() {
    let x: Vec<f32> = (0..24).map(|v| v as f32).collect();
    let more: Vec<f32> = (0..48).map(|v| -(v as f32)).collect();
    let (mut model, mut plain) = (rows_eager::Model::new().unwrap(), rows::Model::new().unwrap());
    assert_eq!((model.live_bytes(), model.peak_bytes(), rows_eager::STATE_BYTES), (0, 0, 0));
    for n in [4usize, 2, 6] {
        let (x, more) = (&x[..n * 4], &more[..n * 8]);
        let wanted = plain.run(&rows::Inputs { x: x.into(), more_data: more.into() }).unwrap();
        let account = model.account();
        let outputs = model.run(&rows_eager::Inputs { x: x.into(), more_data: more.into() }).unwrap();
        assert_eq!((outputs.z.dims(), outputs.z.bytes()), (wanted.z.dims(), wanted.z.bytes()));
        let (y, z) = (aligned(n * 16), aligned(3 * n * 16));
        assert_eq!((account.live_bytes(), account.peak_bytes()), (z, y + z), "the output is held, {n} rows");
        model.release();
        assert_eq!((model.live_bytes(), model.peak_bytes()), (0, y + z));
    }
    let account = model.account();
    model.run(&rows_eager::Inputs { x: (&x[..8]).into(), more_data: (&more[..16]).into() }).unwrap();
    assert!(account.live_bytes() > 0);
    drop(model);
    assert_eq!(account.live_bytes(), 0, "a model that is dropped holds nothing");
}

/// Inputs of the plan `chain`.
struct Links {
    x: [i32; 4],
    by: [i32; 7],
    flag: [bool; 1],
    trip: [i64; 1],
}

/// As it goes well.
fn links(flag: bool, trip: i64) -> Links {
    Links { x: [1_000_000, -77_777, 31, 5], by: [1, 2, 1, 3, 2, 1, 2], flag: [flag], trip: [trip] }
}

fn linked(model: &mut chain_eager::Model, l: &Links) -> Result<Vec<i32>, flightplan::Error> {
    let inputs =
        chain_eager::Inputs { x: (&l.x).into(), by: (&l.by).into(), flag: (&l.flag).into(), trip: (&l.trip).into() };
    model.run(&inputs).map(|o| [o.y.data(), o.d.data()].concat())
}

fn linked_static(l: &Links) -> Vec<i32> {
    let inputs = chain::Inputs { x: (&l.x).into(), by: (&l.by).into(), flag: (&l.flag).into(), trip: (&l.trip).into() };
    let mut model = chain::Model::new().unwrap();
    let o = model.run(&inputs).unwrap();
    [o.y.data(), o.d.data()].concat()
}

/// The peak is what the plan's certificate says, however often the loop turns.
#[test]
fn the_peak_is_that_of_the_certificate() {
    let mut model = chain_eager::Model::new().unwrap();
    for (flag, trip) in [(true, 1), (false, 0), (false, 9), (true, 7)] {
        let l = links(flag, trip);
        assert_eq!(linked(&mut model, &l).unwrap(), linked_static(&l));
        let plan = plans::eager(plans::chain(), false).plan;
        assert_eq!(chain_eager::PEAK_BYTES as u64, plan.certificate.eager_peak_bytes);
        assert_eq!(model.peak_bytes(), chain_eager::PEAK_BYTES, "{flag} {trip}");
        assert_eq!(model.live_bytes(), 2 * ALIGN, "the outputs");
    }
}

/// Row A11. A step that fails, whichever it is, leaves nothing behind, and the next run is exact.
#[test]
fn a_run_that_fails_gives_back_everything() {
    let made = plans::eager(plans::chain(), false);
    let mut plain = Interpreter::with_mode(made.plan, made.weights, Mode::Eager).unwrap();
    let mut model = chain_eager::Model::new().unwrap();
    for k in 0..7 {
        let sound = links(k == 5, 2);
        let mut broken = links(k == 5, 2);
        broken.by[k] = 0;
        let error = linked(&mut model, &broken).unwrap_err();
        let wanted = format!("divided by {k}");
        let right = |e: &flightplan::Error| matches!(e.kind(), ErrorKind::Fault { name, fault: Fault::DivisionByZero, .. } if *name == wanted);
        assert!(right(&error), "{error}");
        assert_eq!(model.live_bytes(), 0, "{k}");
        assert!(model.peak_bytes() > 0);
        assert_eq!(linked(&mut model, &sound).unwrap(), linked_static(&sound), "{k}");
        assert_eq!(model.peak_bytes(), chain_eager::PEAK_BYTES);
        // The interpreter does the same.
        let error = interpreted(&mut plain, &broken).unwrap_err();
        assert!(right(&error), "{error}");
        assert_eq!(plain.account().live_bytes(), 0, "{k}");
        assert_eq!(interpreted(&mut plain, &sound).unwrap(), as_bytes(&linked_static(&sound)));
        assert_eq!(plain.account().peak_bytes(), chain_eager::PEAK_BYTES);
        plain.release();
        assert_eq!(plain.account().live_bytes(), 0);
    }
}

fn interpreted(plain: &mut Interpreter, l: &Links) -> Result<Vec<u8>, runtime::Error> {
    let tensor = |dtype, dims: &'static [usize], bytes| InputTensor { dtype, dims, bytes };
    plain.run(&[
        tensor(DType::I32, &[4], as_bytes(&l.x)),
        tensor(DType::I32, &[7], as_bytes(&l.by)),
        tensor(DType::Bool, &[1], as_bytes(&l.flag)),
        tensor(DType::I64, &[1], as_bytes(&l.trip)),
    ])?;
    Ok([plain.output(0)?.bytes, plain.output(1)?.bytes].concat())
}

/// Row A5. Nothing is taken before the step that first needs it: at the first of four steps one tensor is held, not all, and where
/// each step writes over what it reads, never more than one.
#[test]
fn buffers_are_taken_at_their_definition() {
    for (in_place, wanted) in [(false, [256, 512, 512, 512]), (true, [256; 4])] {
        let made = plans::eager(plans::relus(), in_place);
        let peak = made.plan.certificate.eager_peak_bytes;
        let mut plain = Interpreter::with_mode(made.plan, made.weights, Mode::Eager).unwrap();
        let account = plain.account().clone();
        let (x, mut seen) = ([1f32; 64], Vec::new());
        let input = InputTensor { dtype: DType::F32, dims: &[64], bytes: as_bytes(&x) };
        plain.run_observed(&[input], &mut |_, _| seen.push(account.live_bytes())).unwrap();
        assert_eq!(seen, wanted);
        assert_eq!(account.peak_bytes() as u64, peak);
        assert_eq!(account.live_bytes(), 256, "the output");
        assert_eq!(plain.output(0).unwrap().bytes, as_bytes(&x));
    }
}

#[test]
fn branches_and_loops() {
    let x = [1f32, 2.0, 3.0, 4.0];
    let (mut model, mut plain) = (control_eager::Model::new().unwrap(), control::Model::new().unwrap());
    for (flag, trip) in [(true, 0i64), (false, 5), (true, 2)] {
        let (flags, trips) = ([flag], [trip]);
        let inputs = control::Inputs { x: (&x).into(), if_: (&flags).into(), trip: (&trips).into() };
        let wanted = plain.run(&inputs).unwrap();
        let inputs = control_eager::Inputs { x: (&x).into(), if_: (&flags).into(), trip: (&trips).into() };
        let outputs = model.run(&inputs).unwrap();
        assert_eq!((outputs.chosen.data(), outputs.sum.data()), (wanted.chosen.data(), wanted.sum.data()));
    }
    let inputs = control_eager::Inputs { x: (&x).into(), if_: (&[true]).into(), trip: (&[6]).into() };
    let error = model.run(&inputs).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::Fault { fault: Fault::Capacity { needed: 6, .. }, .. }), "{error}");
    assert_eq!(model.live_bytes(), 0);
}

#[test]
fn states_persist() {
    let mut model = total_eager::Model::new().unwrap();
    assert_eq!(total_eager::STATE_BYTES, ALIGN);
    let step = |model: &mut total_eager::Model, x: [i32; 4]| {
        model.run(&total_eager::Inputs { x: (&x).into() }).map(|o| o.next.data().to_vec())
    };
    assert_eq!(step(&mut model, [1, 2, 4, 5]).unwrap(), [1000, 500, 250, 200]);
    step(&mut model, [1, 0, 1, 1]).unwrap_err();
    assert_eq!(model.live_bytes(), 0);
    assert_eq!(model.state().unwrap().total.data(), [1000, 500, 250, 200]);
    assert_eq!(step(&mut model, [1, 2, 4, 5]).unwrap(), [2000, 1000, 500, 400]);
    assert_eq!(model.peak_bytes() + total_eager::STATE_BYTES, total_eager::PEAK_BYTES);
    model.set_state(&total_eager::States { total: (&[1, 2, 3, 4]).into() }).unwrap();
    assert_eq!(step(&mut model, [1000; 4]).unwrap(), [2, 3, 4, 5]);
    model.reset();
    let mut next = [0; 4];
    let mut buffers = total_eager::Buffers { next: &mut next };
    model.run_into(&total_eager::Inputs { x: (&[1, 2, 4, 5]).into() }, &mut buffers).unwrap();
    assert_eq!(next, [1000, 500, 250, 200]);
}

#[test]
fn extents_that_the_data_tells() {
    let (mut model, mut plain) = (found_eager::Model::new().unwrap(), found::Model::new().unwrap());
    for x in [[0f32, 1.0, 0.0, 2.0, 3.0, 0.0], [0.0; 6], [1.0; 6]] {
        let wanted = plain.run(&found::Inputs { x: (&x).into() }).unwrap();
        let account = model.account();
        let outputs = model.run(&found_eager::Inputs { x: (&x).into() }).unwrap();
        assert_eq!((outputs.out.dims(), outputs.out.data()), (wanted.out.dims(), wanted.out.data()));
        // The places have room for all six; the output takes what was found.
        let out = aligned(size_of_val(outputs.out.data()));
        assert_eq!((account.live_bytes(), account.peak_bytes()), (out, aligned(6 * 8) + out));
    }
}

#[test]
fn weights_in_a_file() {
    let path = concat!(env!("OUT_DIR"), "/opened_eager.weights");
    let mut model = opened_eager::Model::open(path).unwrap();
    let mut other = opened_eager::Model::with_weights(model.weights()).unwrap();
    let (x, more) = ([1f32; 8], [2f32; 16]);
    let inputs = opened_eager::Inputs { x: (&x).into(), more_data: (&more).into() };
    assert_eq!(model.run(&inputs).unwrap().z.data(), other.run(&inputs).unwrap().z.data());
}

/// A real model as a stream, with failures in between: the same bits as the static executor.
#[test]
fn a_stream() {
    let (mut model, mut plain) = (stream_eager::Model::new().unwrap(), stream::Model::new().unwrap());
    for i in 0..6 {
        let sound: [f32; source::CHUNK] = std::array::from_fn(|k| ((i * source::CHUNK + k) as f32 * 0.037).sin() * 0.4);
        let fuse = [if i == 3 { 2i64 } else { 1 }];
        let wanted = plain.run(&stream::Inputs { input: (&sound).into(), fuse: (&fuse).into() });
        let outputs = model.run(&stream_eager::Inputs { input: (&sound).into(), fuse: (&fuse).into() });
        match (outputs, wanted) {
            (Ok(outputs), Ok(wanted)) => {
                assert_eq!(
                    (outputs.output.bytes(), outputs.burnt.bytes()),
                    (wanted.output.bytes(), wanted.burnt.bytes())
                );
                assert_eq!(model.peak_bytes() + stream_eager::STATE_BYTES, stream_eager::PEAK_BYTES);
            }
            (Err(error), Err(wanted)) => {
                assert_eq!((i, error.to_string()), (3, wanted.to_string()));
                assert_eq!(model.live_bytes(), 0);
            }
            (a, b) => panic!("{:?} {:?}", a.err(), b.err()),
        }
        assert_eq!(model.state().unwrap().state.bytes(), plain.state().unwrap().state.bytes());
    }
}

#[test]
fn models_can_be_sent() {
    fn sent<T: Send>(_: &T) {}
    sent(&rows_eager::Model::new().unwrap());
}
