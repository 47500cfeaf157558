//! The static executor.

use super::capture::Guard;
use super::common::{Bound, States, size, stage, unstage, weights};
use super::fingerprint::{Binding, Fingerprint};
use super::memory::{Fixed, walk};
use super::segments::{Piece, Told, pieces};
use crate::device::{Allocation, Device, Label, MemoryClass, Pointer, Span, Stage};
use crate::interpret::{InputTensor, OutputTensor};
use crate::{Error, Operand, TensorProblem};
use core::ops::Range;
use plan::{Class, DType, Plan};
use std::sync::Arc;

/// The memory of a static executor. Captured runs keep it too, so that it outlives them.
pub(super) struct Held<D: Device> {
    uploads: Vec<Stage<D>>,
    downloads: Vec<Stage<D>>,
    /// The arena, and what inputs lie in where the caller brings nothing.
    arena: Allocation<D>,
    ports: Vec<Allocation<D>>,
    weights: Allocation<D>,
}

/// A part of a run, to be done or recorded.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Uploads,
    Steps(Range<usize>),
    /// Those outputs.
    Downloads(Vec<usize>),
}

/// Runs a plan on a device in memory that is all taken when it is prepared: no run takes or gives back any. So a run can be
/// captured in device graphs and replayed.
///
/// Row D4. There is nothing of a run that could be freed:
///
/// ```compile_fail,E0599
/// fn free<D: runtime::device::Device>(exec: &mut runtime::executor::StaticExec<D>) {
///     let _ = exec.free(0);
/// }
/// ```
pub struct StaticExec<D: Device> {
    pub(super) bound: Bound,
    rooms: Vec<Option<Span>>,
    bindings: Vec<Binding>,
    pieces: Vec<Piece>,
    /// The outputs of the last run, as they lie in their staging memory.
    results: Vec<Option<(Operand, usize)>>,
    pub(super) held: Arc<Held<D>>,
    pub(super) device: D,
    pub(super) off: Vec<Guard>,
}

impl<D: Device> StaticExec<D> {
    /// An executor on this device: takes all memory that its runs will use.
    ///
    /// # Errors
    /// When the weights are not the plan's, or memory cannot be had.
    pub fn prepare(device: D, plan: impl Into<Arc<Plan>>, weight_bytes: &[u8]) -> Result<StaticExec<D>, Error> {
        let bound = Bound::new(plan.into(), weight_bytes)?;
        let plan = &bound.plan;
        let pass = device.gate().pass();
        let told = |f| bound.told(f);
        let constants = weights(&bound, &device, weight_bytes)?;
        // Most elements of most models are of this type: with it, what nobody has written yet is no number.
        let label = Label { dtype: Some(DType::F32), ..Label::new(MemoryClass::Act, "arena") };
        let arena = device.alloc(size(plan.arena_bytes)?, &label).map_err(told)?;
        let (mut bindings, mut ports, mut uploads) = (Vec::new(), Vec::new(), Vec::new());
        for port in &plan.inputs {
            let (value, buffer) = bound.value(port.value)?;
            let capacity = size(buffer.max_bytes)?;
            let label = Label { dtype: Some(value.dtype), ..Label::new(MemoryClass::Io, &port.name) };
            let taken = device.alloc(capacity, &label).map_err(told)?;
            let pointer = taken.span().pointer;
            bindings.push(Binding { name: port.name.clone(), pointer, capacity, dtype: value.dtype });
            ports.push(taken);
            uploads.push(stage(&bound, &device, capacity, &port.name)?);
        }
        let mut downloads = Vec::new();
        for port in &plan.outputs {
            let bytes = size(bound.value(port.value)?.1.max_bytes)?;
            downloads.push(stage(&bound, &device, bytes, &port.name)?);
        }
        let rooms = rooms(plan, arena.span(), constants.span())?;
        drop(pass);
        let held = Held { uploads, downloads, arena, ports, weights: constants };
        let pieces = pieces(plan);
        let mut exec = StaticExec {
            rooms,
            bindings,
            pieces,
            results: Vec::new(),
            held: Arc::new(held),
            device,
            off: Vec::new(),
            bound,
        };
        exec.settle()?;
        exec.reset()?;
        Ok(exec)
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.bound.plan
    }

    /// The segments that a capture records, and what lies between them.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Where each input lies on the device, in the plan's order.
    pub fn bindings(&self) -> &[Binding] {
        &self.bindings
    }

    /// Lets input `i` lie in the caller's memory from now on. It must stay there for as long as runs use it.
    ///
    /// # Errors
    /// When there is no such input.
    pub fn bind(&mut self, i: usize, binding: Binding) -> Result<(), Error> {
        let place = self.bindings.get_mut(i).ok_or_else(|| Error::plan(format!("there is no input {i}")))?;
        *place = binding;
        self.settle()
    }

    /// Makes input `i` lie in the executor's own memory again.
    ///
    /// # Errors
    /// When there is no such input.
    pub fn unbind(&mut self, i: usize) -> Result<(), Error> {
        let missing = || Error::plan(format!("there is no input {i}"));
        let port = self.bound.plan.inputs.get(i).ok_or_else(missing)?;
        let span = self.held.ports.get(i).ok_or_else(missing)?.span();
        let dtype = self.bound.value(port.value)?.0.dtype;
        self.bind(i, Binding { name: port.name.clone(), pointer: span.pointer, capacity: span.bytes, dtype })
    }

    /// Puts the inputs' buffers where they are bound.
    fn settle(&mut self) -> Result<(), Error> {
        for (port, binding) in self.bound.plan.inputs.iter().zip(&self.bindings) {
            let buffer = self.bound.value(port.value)?.0.place.buffer;
            if let Some(room) = self.rooms.get_mut(buffer.index()) {
                *room = Some(Span { pointer: binding.pointer, bytes: binding.capacity });
            }
        }
        Ok(())
    }

    /// Runs the plan. `inputs` are in the plan's order.
    ///
    /// # Errors
    /// When the inputs do not fit the plan or their bindings (then nothing was touched), or a step fails.
    pub fn run(&mut self, inputs: &[InputTensor<'_>]) -> Result<(), Error> {
        self.bound.enter(inputs)?;
        self.check_bindings(inputs)?;
        let device = self.device.clone();
        let _pass = device.gate().pass();
        self.begin(inputs)?;
        let issued = self.issue(&self.items());
        self.end(issued)
    }

    /// Whether what is bound is what the plan reads.
    pub(super) fn check_bindings(&self, inputs: &[InputTensor<'_>]) -> Result<(), Error> {
        for (binding, input) in self.bindings.iter().zip(inputs) {
            let problem = if binding.dtype != input.dtype {
                TensorProblem::DType { found: binding.dtype, wanted: input.dtype }
            } else if binding.capacity < input.bytes.len() {
                TensorProblem::Bytes { found: binding.capacity, wanted: input.bytes.len() }
            } else {
                continue;
            };
            return Err(Error::tensor(binding.name.clone(), problem));
        }
        Ok(())
    }

    /// Puts the inputs where the copies to the device find them.
    pub(super) fn begin(&mut self, inputs: &[InputTensor<'_>]) -> Result<(), Error> {
        self.results.clear();
        for (input, stage) in inputs.iter().zip(&self.held.uploads) {
            let staged = stage.first(input.bytes.len());
            self.device.write_stage(staged, input.bytes).map_err(|f| self.bound.told(f))?;
        }
        Ok(())
    }

    /// Waits for what was issued, and notes where the outputs are.
    pub(super) fn end(&mut self, issued: Result<(), Error>) -> Result<(), Error> {
        // What failed in the queue was asked for before whatever failed while asking.
        self.device.sync().map_err(|f| self.bound.told(f))?;
        issued?;
        let results = (0..self.bound.plan.outputs.len()).map(|i| self.result(i).map(|(s, o)| Some((o, s.bytes))));
        self.results = results.collect::<Result<_, Error>>()?;
        Ok(())
    }

    /// All that a run does, in order.
    pub(super) fn items(&self) -> Vec<Item> {
        let steps = self.pieces.iter().map(|piece| match piece {
            Piece::Segment { steps } => Item::Steps(steps.clone()),
            Piece::Seam { step, .. } => Item::Steps(*step..step + 1),
        });
        let all = (0..self.bound.plan.outputs.len()).collect();
        core::iter::once(Item::Uploads).chain(steps).chain([Item::Downloads(all)]).collect()
    }

    /// The same, apart: what can be recorded together, and (false) what cannot be recorded.
    pub(super) fn parts(&self) -> Vec<(bool, Vec<Item>)> {
        let mut parts = vec![(true, vec![Item::Uploads])];
        for piece in &self.pieces {
            let (recorded, item) = match piece {
                Piece::Segment { steps } => (true, Item::Steps(steps.clone())),
                Piece::Seam { step, .. } => (false, Item::Steps(*step..step + 1)),
            };
            add(&mut parts, recorded, item);
        }
        let told = Told::new(&self.bound.plan);
        let outputs = self.bound.plan.outputs.iter().enumerate();
        let (known, unknown): (Vec<_>, Vec<_>) =
            outputs.partition(|(_, port)| told.value(&self.bound.plan, port.value).is_none());
        for (recorded, outputs) in [(true, known), (false, unknown)] {
            if !outputs.is_empty() {
                add(&mut parts, recorded, Item::Downloads(outputs.into_iter().map(|(i, _)| i).collect()));
            }
        }
        parts
    }

    /// Asks the device for these parts of a run.
    pub(super) fn issue(&mut self, items: &[Item]) -> Result<(), Error> {
        for item in items {
            match item {
                Item::Uploads => self.upload()?,
                Item::Steps(range) => {
                    walk(&mut self.bound, &self.device, &mut self.rooms, &mut Fixed, range.clone())?;
                }
                Item::Downloads(outputs) => {
                    for i in outputs {
                        let (span, _) = self.result(*i)?;
                        if let Some(stage) = self.held.downloads.get(*i) {
                            let copied = self.device.download(span, stage.first(span.bytes));
                            copied.map_err(|f| self.bound.told(f))?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn upload(&self) -> Result<(), Error> {
        let ports = self.bound.plan.inputs.iter().zip(&self.bindings).zip(&self.held.uploads);
        for ((port, binding), stage) in ports {
            let operand = self.bound.operand(&port.name, port.value)?;
            let bytes = operand.dtype.bytes_of(operand.shape.len()).unwrap_or(usize::MAX);
            let to = Span { pointer: binding.pointer, bytes };
            self.device.upload(stage.first(bytes), to).map_err(|f| self.bound.told(f))?;
        }
        Ok(())
    }

    /// Where output `i` lies on the device, and how it lies there.
    fn result(&self, i: usize) -> Result<(Span, Operand), Error> {
        let port = self.bound.plan.outputs.get(i).ok_or_else(|| Error::plan(format!("there is no output {i}")))?;
        self.bound.extent(&port.name, port.value, self.room(port.value)?)
    }

    fn room(&self, value: plan::ValueId) -> Result<Span, Error> {
        let buffer = self.bound.value(value)?.0.place.buffer;
        self.rooms.get(buffer.index()).copied().flatten().ok_or_else(|| Error::plan("a buffer has no memory"))
    }

    /// What recorded runs depend on, as it is now.
    pub(super) fn fingerprint(&self, inputs: &[InputTensor<'_>]) -> Fingerprint {
        let bases: (Pointer, Pointer) = (self.held.arena.span().pointer, self.held.weights.span().pointer);
        Fingerprint::new(&self.bound.plan, bases, &self.bindings, inputs)
    }

    /// Output `i` of the last run.
    ///
    /// # Errors
    /// When there is no such output, or the last run has not left it.
    pub fn output(&self, i: usize) -> Result<OutputTensor, Error> {
        let outputs = self.bound.plan.outputs.get(i).zip(self.held.downloads.get(i));
        let found = outputs.zip(self.results.get(i).copied().flatten());
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

/// Adds to the last part, or begins another.
fn add(parts: &mut Vec<(bool, Vec<Item>)>, recorded: bool, item: Item) {
    match parts.last_mut() {
        Some((same, items)) if *same == recorded => items.push(item),
        _ => parts.push((recorded, vec![item])),
    }
}

/// The memory of each buffer but the inputs'.
fn rooms(plan: &Plan, arena: Span, weights: Span) -> Result<Vec<Option<Span>>, Error> {
    let room = |buffer: &plan::Buffer| {
        let base = match buffer.class {
            Class::Const => weights,
            Class::Persist | Class::Act | Class::Work => arena,
            Class::Input => return Ok(None),
        };
        let (offset, bytes) = (size(buffer.offset)?, size(buffer.max_bytes)?);
        if offset.checked_add(bytes).is_none_or(|end| end > base.bytes) {
            return Err(Error::plan(format!("`{}` lies outside the arena or the weights", buffer.name)));
        }
        Ok(Some(Span { pointer: base.pointer.plus(offset), bytes }))
    };
    plan.buffers.iter().map(room).collect()
}
