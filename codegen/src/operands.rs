//! Tensors as constants, or as functions of the run's extents.

use crate::{Error, exprs::Exprs, layout::Lines, names::comment};
use plan::{BufferId, Class, DType, ExprId, Plan, Value, ValueId};
use std::collections::BTreeSet;

/// The tensors and buffers that the generated code names.
#[derive(Debug, Default)]
pub(crate) struct Operands {
    values: BTreeSet<ValueId>,
    rooms: BTreeSet<BufferId>,
    arena: bool,
    weights: bool,
}

/// How a tensor is written down.
enum Definition {
    /// A constant.
    Constant(String),
    /// The expression of a function.
    Function(String),
}

/// The space of a class, and the constant that bounds it.
fn space(class: Class, index: u64) -> (String, &'static str) {
    match class {
        Class::Const => (String::from("Space::Weights"), "WEIGHT_BYTES"),
        Class::Input => (format!("Space::Input({index})"), "usize::MAX"),
        Class::Persist | Class::Act | Class::Work => (String::from("Space::Arena"), "ARENA_BYTES"),
    }
}

/// The type of a Rust element, and whether it stands for the bytes of a type that Rust does not have.
pub(crate) fn rust_type(dtype: DType) -> (&'static str, bool) {
    match dtype {
        DType::F32 => ("f32", false),
        DType::F64 => ("f64", false),
        DType::F16 => ("rt::half::f16", false),
        DType::BF16 => ("rt::half::bf16", false),
        DType::I8 => ("i8", false),
        DType::I16 => ("i16", false),
        DType::I32 => ("i32", false),
        DType::I64 => ("i64", false),
        DType::U8 => ("u8", false),
        DType::U16 => ("u16", false),
        DType::U32 => ("u32", false),
        DType::U64 => ("u64", false),
        DType::Bool => ("bool", false),
        DType::C64 => ("[f32; 2]", false),
        DType::C128 => ("[f64; 2]", false),
        _ => ("u8", true),
    }
}

/// A tensor of the plan.
pub(crate) fn value(plan: &Plan, id: ValueId) -> Result<&Value, Error> {
    plan.values.get(id.index()).ok_or_else(|| Error::missing("tensor", id))
}

/// A buffer of the plan.
pub(crate) fn buffer(plan: &Plan, id: BufferId) -> Result<&plan::Buffer, Error> {
    plan.buffers.get(id.index()).ok_or_else(|| Error::missing("buffer", id))
}

/// Every expression of a tensor.
pub(crate) fn value_exprs(value: &Value) -> impl Iterator<Item = ExprId> + '_ {
    let strides = value.place.strides.as_ref().map_or(&[][..], |s| s);
    value.dims.iter().chain(strides).copied().chain(std::iter::once(value.place.offset))
}

impl Operands {
    /// A tensor that the code names from now on: an expression of type `&Operand`, in a function that has `sizes` where the
    /// tensor depends on them, and that returns a `Fault`.
    pub(crate) fn reference(&mut self, plan: &Plan, exprs: &Exprs<'_>, id: ValueId) -> Result<String, Error> {
        let found = value(plan, id)?;
        self.values.insert(id);
        if is_static(found, exprs) {
            return Ok(format!("&V{}", id.0));
        }
        self.rooms.insert(found.place.buffer);
        Ok(format!("&v{}(sizes)?", id.0))
    }

    /// The same, where the caller turns the fault into an error for `name`.
    pub(crate) fn reference_for(
        &mut self,
        plan: &Plan,
        exprs: &Exprs<'_>,
        id: ValueId,
        name: &str,
    ) -> Result<String, Error> {
        let text = self.reference(plan, exprs, id)?;
        let name = crate::names::quoted(name);
        Ok(match text.strip_suffix('?') {
            Some(call) => format!("{call}.map_err(|fault| rt::Error::extent({name}, fault))?"),
            None => text,
        })
    }

    /// The constants and functions of all tensors named so far.
    pub(crate) fn emit(&mut self, plan: &Plan, exprs: &Exprs<'_>, out: &mut Lines) -> Result<(), Error> {
        let mut body = Lines::default();
        for id in &self.rooms {
            let found = buffer(plan, *id)?;
            let (space, bytes) = space(found.class, found.offset);
            let room = match found.class {
                Class::Input => format!("Room::input({})", found.offset),
                _ => format!("Room::new({space}, {}, {}, {bytes})", found.offset, found.max_bytes),
            };
            body.commented(&format!("const B{}: Room = {room};", id.0), &comment(&found.name));
        }
        for id in self.values.clone() {
            let found = value(plan, id)?;
            let name = comment(&found.name);
            match self.define(plan, exprs, id, found)? {
                Definition::Constant(line) => body.commented(&line, &name),
                Definition::Function(call) => {
                    let head = format!("fn v{}(sizes: &Sizes) -> Result<Operand, Fault>", id.0);
                    body.function(&head, &call, &name);
                }
            }
        }
        for (used, name, call, bytes) in
            [(self.arena, "arena", "arena", "ARENA_BYTES"), (self.weights, "weights", "weights", "WEIGHT_BYTES")]
        {
            if used {
                out.line(&format!("/// A tensor in the {name}: one that does not lie within it does not compile."));
                out.open(&format!(
                    "const fn {name}<const N: usize>(offset: usize, dtype: DType, dims: [usize; N]) -> Operand {{"
                ));
                out.line(&format!("Operand::{call}(offset, dtype, dims).within({bytes})"));
                out.close("}");
                out.line("");
            }
        }
        out.append(body);
        out.line("");
        Ok(())
    }

    /// The constant or function of one tensor.
    fn define(&mut self, plan: &Plan, exprs: &Exprs<'_>, id: ValueId, found: &Value) -> Result<Definition, Error> {
        let memory = buffer(plan, found.place.buffer)?;
        let dtype = format!("DType::{:?}", found.dtype);
        let (space, bound) = space(memory.class, memory.offset);
        let start = if memory.class == Class::Input { 0 } else { memory.offset };
        if let Some((dims, strides, first)) = static_parts(found, exprs) {
            let bad = || Error::Plan(format!("tensor {} has a negative extent or place", found.name));
            let first = usize::try_from(first).ok().and_then(|f| found.dtype.bytes_of(f)).ok_or_else(bad)? as u64;
            let offset = start.checked_add(first).ok_or_else(bad)?;
            if dims.iter().any(|d| *d < 0) {
                return Err(bad());
            }
            let dims = list(&dims);
            let operand = match (strides, memory.class) {
                (Some(strides), _) => {
                    format!("Operand::strided({space}, {offset}, {dtype}, {dims}, {}).within({bound})", list(&strides))
                }
                (None, Class::Input) if offset == 0 => format!("Operand::input({}, {dtype}, {dims})", memory.offset),
                (None, Class::Input) => format!("Operand::new({space}, {offset}, {dtype}, {dims})"),
                (None, Class::Const) => {
                    self.weights = true;
                    format!("weights({offset}, {dtype}, {dims})")
                }
                (None, _) => {
                    self.arena = true;
                    format!("arena({offset}, {dtype}, {dims})")
                }
            };
            return Ok(Definition::Constant(format!("const V{}: Operand = {operand};", id.0)));
        }
        let sizes = |list: &[ExprId]| list.iter().map(|e| exprs.size(*e)).collect::<Vec<_>>().join(", ");
        let dims = sizes(&found.dims);
        let strides = match &found.place.strides {
            Some(strides) => format!("Some([{}])", sizes(strides)),
            None => String::from("None"),
        };
        let first = exprs.size(found.place.offset);
        let body = format!("Operand::dynamic(B{}, {first}, {dtype}, [{dims}], {strides})", found.place.buffer.0);
        Ok(Definition::Function(body))
    }
}

/// Whether a tensor's place and dims do not depend on the run.
pub(crate) fn is_static(value: &Value, exprs: &Exprs<'_>) -> bool {
    static_parts(value, exprs).is_some()
}

type Parts = (Vec<i64>, Option<Vec<i64>>, i64);

fn static_parts(value: &Value, exprs: &Exprs<'_>) -> Option<Parts> {
    let strides = match &value.place.strides {
        Some(strides) => Some(exprs.constants(strides.iter())?),
        None => None,
    };
    Some((exprs.constants(value.dims.iter())?, strides, exprs.constant(value.place.offset)?))
}

fn list(numbers: &[i64]) -> String {
    let items: Vec<String> = numbers.iter().map(i64::to_string).collect();
    format!("[{}]", items.join(", "))
}
