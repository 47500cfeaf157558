//! The eager executor.

use super::common::{Bound, States, size, stage, unstage, weights};
use super::memory::{Around, Told, walk};
use crate::device::{Allocation, Device, Failure, Label, MemoryClass, Span, Stage};
use crate::interpret::eager::Schedule;
use crate::interpret::layout::buffer_bytes;
use crate::interpret::numbers::Numbers;
use crate::interpret::walk::At;
use crate::interpret::{InputTensor, OutputTensor};
use crate::{DeviceCall, Error, Fault, Operand};
use plan::{Buffer, Class, DType, Plan};
use std::sync::Arc;

/// Runs a plan on a device and takes each buffer when it is first used, with the bytes that this run needs, and gives it back
/// after the last use of all that lies in it. For wide ranges of sizes, and for models that share a device.
///
/// Row D4. Its addresses change from run to run, so it cannot be captured: it has no such method.
///
/// ```compile_fail,E0599
/// fn capture<D: runtime::device::Device>(exec: &mut runtime::executor::EagerExec<D>) {
///     let _ = exec.capture(&[]);
/// }
/// ```
///
/// The same with the other executor:
///
/// ```
/// fn capture<D: runtime::device::Device>(exec: &mut runtime::executor::StaticExec<D>) {
///     let _ = exec.capture(&[]);
/// }
/// ```
pub struct EagerExec<D: Device> {
    bound: Bound,
    schedule: Schedule,
    /// The element type of what each buffer holds first.
    dtypes: Vec<Option<DType>>,
    rooms: Vec<Option<Span>>,
    held: Vec<Option<Allocation<D>>>,
    uploads: Vec<Stage<D>>,
    downloads: Vec<Stage<D>>,
    /// The outputs of the last run, as they lie in their staging memory.
    results: Vec<Option<(Operand, usize)>>,
    _weights: Allocation<D>,
    device: D,
}

/// The eager schedule during a run.
struct Takes<'r, D: Device> {
    plan: &'r Plan,
    table: &'r Schedule,
    dtypes: &'r [Option<DType>],
    held: &'r mut [Option<Allocation<D>>],
    device: &'r D,
}

impl<D: Device> Around for Takes<'_, D> {
    fn enter(&mut self, at: At, numbers: &Numbers, rooms: &mut [Option<Span>]) -> Result<(), Told> {
        for i in self.table.takes(at).iter().map(|i| *i as usize) {
            let (Some(buffer), Some(held), Some(room)) =
                (self.plan.buffers.get(i), self.held.get_mut(i), rooms.get_mut(i))
            else {
                continue;
            };
            if held.is_some() {
                return Err(Error::plan(format!("`{}` is taken twice", buffer.name)).into());
            }
            let class = if buffer.class == Class::Work { MemoryClass::Work } else { MemoryClass::Act };
            let dtype = self.dtypes.get(i).copied().flatten();
            let label =
                Label { step: Some(at.index), dtype, align: align(self.plan), ..Label::new(class, &buffer.name) };
            let (bytes, planned) = (buffer_bytes(buffer, numbers)?, size(buffer.max_bytes)?);
            if bytes > planned {
                let problem = Fault::Capacity { needed: bytes, planned }.into();
                return Err(Failure { step: Some(at.index), ..Failure::new(DeviceCall::Alloc, problem) }.into());
            }
            let taken = self.device.alloc(bytes, &label)?;
            *room = Some(taken.span());
            *held = Some(taken);
        }
        Ok(())
    }

    fn leave(&mut self, at: At, rooms: &mut [Option<Span>]) -> Result<(), Told> {
        for i in self.table.gives(at).iter().map(|i| *i as usize) {
            let (Some(buffer), Some(held), Some(room)) =
                (self.plan.buffers.get(i), self.held.get_mut(i), rooms.get_mut(i))
            else {
                continue;
            };
            *room = None;
            match held.take() {
                Some(held) => give(held, buffer, Some(at.index))?,
                None => return Err(Error::plan(format!("`{}` is given back before it is taken", buffer.name)).into()),
            }
        }
        Ok(())
    }
}

fn align(plan: &Plan) -> usize {
    usize::try_from(plan.align).unwrap_or(1)
}

/// Gives memory back; a failure says whose it was.
fn give<D: Device>(held: Allocation<D>, buffer: &Buffer, step: Option<usize>) -> Result<(), Failure> {
    let bytes = held.span().bytes;
    held.free().map_err(|f| Failure { step: step.or(f.step), value: buffer.name.clone(), bytes, ..f })
}

impl<D: Device> EagerExec<D> {
    /// An executor on this device: takes memory for the weights and the states.
    ///
    /// # Errors
    /// When the weights are not the plan's, or memory cannot be had.
    pub fn prepare(device: D, plan: impl Into<Arc<Plan>>, weight_bytes: &[u8]) -> Result<EagerExec<D>, Error> {
        let bound = Bound::new(plan.into(), weight_bytes)?;
        let plan = &bound.plan;
        let pass = device.gate().pass();
        let constants = weights(&bound, &device, weight_bytes)?;
        let mut rooms = vec![None; plan.buffers.len()];
        let mut held: Vec<Option<Allocation<D>>> = plan.buffers.iter().map(|_| None).collect();
        for ((buffer, room), held) in plan.buffers.iter().zip(&mut rooms).zip(&mut held) {
            match buffer.class {
                Class::Const => {
                    let (offset, bytes) = (size(buffer.offset)?, size(buffer.max_bytes)?);
                    *room = Some(Span { pointer: constants.span().pointer.plus(offset), bytes });
                }
                Class::Persist => {
                    let label = Label { align: align(plan), ..Label::new(MemoryClass::Persist, &buffer.name) };
                    let taken = device.alloc(size(buffer.max_bytes)?, &label).map_err(|f| bound.told(f))?;
                    device.fill(taken.span(), 0).map_err(|f| bound.told(f))?;
                    *room = Some(taken.span());
                    *held = Some(taken);
                }
                Class::Input | Class::Act | Class::Work => {}
            }
        }
        let mut dtypes = vec![None; plan.buffers.len()];
        for value in &plan.values {
            if let Some(dtype) = dtypes.get_mut(value.place.buffer.index()) {
                dtype.get_or_insert(value.dtype);
            }
        }
        drop(pass);
        Ok(EagerExec {
            schedule: Schedule::new(plan),
            dtypes,
            rooms,
            held,
            uploads: Vec::new(),
            downloads: Vec::new(),
            results: Vec::new(),
            _weights: constants,
            device,
            bound,
        })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.bound.plan
    }

    /// Runs the plan. `inputs` are in the plan's order. Afterwards no memory of the run is held, whether it ended well or not.
    ///
    /// # Errors
    /// When the inputs do not fit the plan (then nothing was touched), memory cannot be had or given back, or a step fails.
    pub fn run(&mut self, inputs: &[InputTensor<'_>]) -> Result<(), Error> {
        let device = self.device.clone();
        let _pass = device.gate().pass();
        self.results.clear();
        self.bound.enter(inputs)?;
        let mut ports = Vec::new();
        let ran = self.walk(inputs, &mut ports);
        let downloaded = ran.and_then(|()| self.download());
        // All is queued: what is given back now is given back behind it.
        let given = self.clean(ports);
        // What failed in the queue was asked for before whatever failed while asking.
        device.sync().map_err(|f| self.bound.told(f))?;
        self.results = downloaded?;
        given.inspect_err(|_| self.results.clear())
    }

    fn walk(&mut self, inputs: &[InputTensor<'_>], ports: &mut Vec<Allocation<D>>) -> Result<(), Error> {
        let told = |bound: &Bound, f| bound.told(f);
        for (i, input) in inputs.iter().enumerate() {
            let Some(port) = self.bound.plan.inputs.get(i) else { continue };
            let bytes = input.bytes.len();
            grow(&mut self.uploads, &self.bound, &self.device, i, bytes, &port.name)?;
            let (Some(stage), buffer) = (self.uploads.get(i), self.bound.value(port.value)?.0.place.buffer) else {
                continue;
            };
            let label = Label { dtype: Some(input.dtype), ..Label::new(MemoryClass::Io, &port.name) };
            let taken = self.device.alloc(bytes, &label).map_err(|f| told(&self.bound, f))?;
            let span = taken.span();
            ports.push(taken);
            if let Some(room) = self.rooms.get_mut(buffer.index()) {
                *room = Some(span);
            }
            self.device.write_stage(stage.first(bytes), input.bytes).map_err(|f| told(&self.bound, f))?;
            self.device.upload(stage.first(bytes), span).map_err(|f| told(&self.bound, f))?;
        }
        let plan = self.bound.plan.clone();
        let mut takes = Takes {
            plan: &plan,
            table: &self.schedule,
            dtypes: &self.dtypes,
            held: &mut self.held,
            device: &self.device,
        };
        walk(&mut self.bound, &self.device, &mut self.rooms, &mut takes, 0..usize::MAX)
    }

    /// Queues the copies of the outputs to the host.
    fn download(&mut self) -> Result<Vec<Option<(Operand, usize)>>, Error> {
        let plan = self.bound.plan.clone();
        let mut results = Vec::with_capacity(plan.outputs.len());
        for (i, port) in plan.outputs.iter().enumerate() {
            let buffer = self.bound.value(port.value)?.0.place.buffer;
            let room = self.rooms.get(buffer.index()).copied().flatten();
            let room = room.ok_or_else(|| Error::plan(format!("output {} is given back before the end", port.name)))?;
            let (span, operand) = self.bound.extent(&port.name, port.value, room)?;
            grow(&mut self.downloads, &self.bound, &self.device, i, span.bytes, &port.name)?;
            if let Some(stage) = self.downloads.get(i) {
                self.device.download(span, stage.first(span.bytes)).map_err(|f| self.bound.told(f))?;
            }
            results.push(Some((operand, span.bytes)));
        }
        Ok(results)
    }

    /// Gives back all that the run holds. What cannot be given back is told once all else has been.
    fn clean(&mut self, ports: Vec<Allocation<D>>) -> Result<(), Error> {
        let mut first = Ok(());
        for ((buffer, held), room) in self.bound.plan.buffers.iter().zip(&mut self.held).zip(&mut self.rooms) {
            if matches!(buffer.class, Class::Const | Class::Persist) {
                continue;
            }
            *room = None;
            if let Some(held) = held.take() {
                first = first.and(give(held, buffer, None));
            }
        }
        for (port, buffer) in ports.into_iter().zip(&self.bound.plan.inputs) {
            let bytes = port.span().bytes;
            first = first.and(port.free().map_err(|f| Failure { value: buffer.name.clone(), bytes, ..f }));
        }
        first.map_err(|f| self.bound.told(f))
    }

    /// Output `i` of the last run.
    ///
    /// # Errors
    /// When there is no such output, or the last run has not left it.
    pub fn output(&self, i: usize) -> Result<OutputTensor, Error> {
        let found =
            self.bound.plan.outputs.get(i).zip(self.downloads.get(i)).zip(self.results.get(i).copied().flatten());
        let ((port, stage), (operand, bytes)) =
            found.ok_or_else(|| Error::plan(format!("the last run has left no output {i}")))?;
        unstage(&self.bound, &self.device, &port.name, stage, &operand, bytes)
    }

    /// What state `i` holds.
    ///
    /// # Errors
    /// When there is no such state.
    pub fn state(&self, i: usize) -> Result<OutputTensor, Error> {
        self.states().read(i)
    }

    /// Gives state `i` these contents, row-major.
    ///
    /// # Errors
    /// When there is no such state, or its size is another.
    pub fn set_state(&mut self, i: usize, bytes: &[u8]) -> Result<(), Error> {
        self.states().write(i, bytes)
    }

    /// Sets every state to zero.
    ///
    /// # Errors
    /// When the device fails.
    pub fn reset(&mut self) -> Result<(), Error> {
        self.states().reset()
    }

    fn states(&self) -> States<'_, D> {
        States { bound: &self.bound, device: &self.device, rooms: &self.rooms }
    }
}

/// Makes staging memory `i` hold at least that many bytes.
fn grow<D: Device>(
    stages: &mut Vec<Stage<D>>,
    bound: &Bound,
    device: &D,
    i: usize,
    bytes: usize,
    name: &str,
) -> Result<(), Error> {
    match stages.get_mut(i) {
        Some(old) if old.staged().bytes >= bytes => {}
        Some(old) => *old = stage(bound, device, bytes, name)?,
        None => stages.push(stage(bound, device, bytes, name)?),
    }
    Ok(())
}
