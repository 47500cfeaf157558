//! Tensors as constants, or as functions of the run's extents.

use crate::{
    Error, Mode,
    context::Context,
    exprs::Exprs,
    layout::Lines,
    names::comment,
    places::{Places, Spot},
};
use plan::{BufferId, DType, ExprId, Plan, Value, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// The tensors and buffers that the generated code names. Tensors at the same place with the same type and dims are one
/// constant, whatever their names: in a model of repeated blocks most are.
#[derive(Debug, Default)]
pub(crate) struct Operands {
    /// How the code refers to each tensor.
    references: BTreeMap<ValueId, String>,
    constants: Shared,
    functions: Shared,
    rooms: Shared,
    /// The helpers that are used.
    helpers: BTreeSet<Helper>,
}

/// Definitions without their names, each once, in the order of their first use.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    index: BTreeMap<String, usize>,
    list: Vec<(String, Vec<String>)>,
}

/// Names of tensors that stand in one comment.
const COMMENTED: usize = 3;

impl Shared {
    /// The number of a definition, which is one of `name`.
    pub(crate) fn add(&mut self, definition: String, name: &str) -> usize {
        let next = self.list.len();
        let i = *self.index.entry(definition.clone()).or_insert(next);
        if i == next {
            self.list.push((definition, Vec::new()));
        }
        if let Some((_, names)) = self.list.get_mut(i)
            && !names.iter().any(|n| n == name)
        {
            names.push(name.to_owned());
        }
        i
    }

    /// Each definition with its number and a comment.
    pub(crate) fn each(&self) -> impl Iterator<Item = (usize, &str, String)> {
        self.list.iter().enumerate().map(|(i, (definition, names))| {
            let mut text = names.iter().take(COMMENTED).map(|n| comment(n)).collect::<Vec<_>>().join(", ");
            if names.len() > COMMENTED {
                text.push_str(", …");
            }
            (i, definition.as_str(), text)
        })
    }
}

/// Functions that make operands, checked against the memory they lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Helper {
    Arena,
    ArenaView,
    Weights,
    WeightsView,
}

impl Helper {
    /// What lies at such a spot, row-major or not; none where only the run knows how long the memory is.
    fn of(spot: Spot, strided: bool) -> Option<Helper> {
        Some(match (spot, strided) {
            (Spot::Input(_) | Spot::Heap(_), _) => return None,
            (Spot::Weights(_), false) => Helper::Weights,
            (Spot::Weights(_), true) => Helper::WeightsView,
            (Spot::Arena(_), false) => Helper::Arena,
            (Spot::Arena(_), true) => Helper::ArenaView,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Helper::Arena => "arena",
            Helper::ArenaView => "arena_view",
            Helper::Weights => "weights",
            Helper::WeightsView => "weights_view",
        }
    }

    fn emit(self, places: &Places, out: &mut Lines) {
        let (place, bytes) = match self {
            Helper::Arena | Helper::ArenaView => ("arena", places.bound()),
            Helper::Weights | Helper::WeightsView => ("weights", "WEIGHT_BYTES"),
        };
        let strided = matches!(self, Helper::ArenaView | Helper::WeightsView);
        let what = if strided { "A view with strides" } else { "A tensor" };
        let memory = match places.mode {
            Mode::Eager if place == "arena" => "memory of the states",
            _ => place,
        };
        out.line(&format!("/// {what} in the {memory}: one that does not lie within it does not compile."));
        let head = format!("const fn {}<const N: usize>", self.name());
        if strided {
            out.open(&format!("{head}("));
            out.line("offset: usize,");
            out.line("dtype: DType,");
            out.line("dims: [usize; N],");
            out.line("strides: [isize; N],");
            out.turn(") -> Operand {");
            let space = if place == "arena" { "Arena" } else { "Weights" };
            out.line(&format!("Operand::strided(Space::{space}, offset, dtype, dims, strides).within({bytes})"));
        } else {
            out.open(&format!("{head}(offset: usize, dtype: DType, dims: [usize; N]) -> Operand {{"));
            out.line(&format!("Operand::{place}(offset, dtype, dims).within({bytes})"));
        }
        out.close("}");
        out.line("");
    }
}

/// How a tensor is written down.
enum Definition {
    /// A constant.
    Constant(String),
    /// The expression of a function.
    Function(String),
}

/// The space of a spot.
fn space(spot: Spot) -> String {
    match spot {
        Spot::Weights(_) => String::from("Space::Weights"),
        Spot::Input(index) => format!("Space::Input({index})"),
        Spot::Arena(_) => String::from("Space::Arena"),
        Spot::Heap(number) => format!("Space::Heap({number})"),
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
    pub(crate) fn reference(&mut self, c: Context<'_, '_>, id: ValueId) -> Result<String, Error> {
        if let Some(known) = self.references.get(&id) {
            return Ok(known.clone());
        }
        let found = value(c.plan, id)?;
        let text = match self.define(c, found)? {
            Definition::Constant(text) => format!("&V{}", self.constants.add(text, &found.name)),
            Definition::Function(text) => format!("&v{}(sizes)?", self.functions.add(text, &found.name)),
        };
        self.references.insert(id, text.clone());
        Ok(text)
    }

    /// The same, where the caller turns the fault into an error for `name`.
    pub(crate) fn reference_for(&mut self, c: Context<'_, '_>, id: ValueId, name: &str) -> Result<String, Error> {
        let text = self.reference(c, id)?;
        let name = crate::names::quoted(name);
        Ok(match text.strip_suffix('?') {
            Some(call) => format!("{call}.map_err(|fault| rt::Error::extent({name}, fault))?"),
            None => text,
        })
    }

    /// The constants and functions of all tensors named so far.
    pub(crate) fn emit(&self, places: &Places, out: &mut Lines) {
        self.helpers.iter().for_each(|h| h.emit(places, out));
        for (i, room, names) in self.rooms.each() {
            out.commented(&format!("const B{i}: Room = {room};"), &names);
        }
        for (i, operand, names) in self.constants.each() {
            out.commented(&format!("const V{i}: Operand = {operand};"), &names);
        }
        for (i, call, names) in self.functions.each() {
            out.function(&format!("fn v{i}(sizes: &Sizes) -> Result<Operand, Fault>"), call, &names);
        }
        out.line("");
    }

    /// The number of a buffer's room.
    fn room(&mut self, places: &Places, found: &plan::Buffer, spot: Spot) -> usize {
        let bytes = found.max_bytes;
        let room = match spot {
            Spot::Input(index) => format!("Room::input({index})"),
            Spot::Heap(number) => format!("Room::held({number}, {bytes})"),
            Spot::Weights(offset) => format!("Room::new(Space::Weights, {offset}, {bytes}, WEIGHT_BYTES)"),
            Spot::Arena(offset) => format!("Room::new(Space::Arena, {offset}, {bytes}, {})", places.bound()),
        };
        self.rooms.add(room, &found.name)
    }

    /// The constant or function of one tensor.
    fn define(&mut self, c: Context<'_, '_>, found: &Value) -> Result<Definition, Error> {
        let spot = c.places.spot(c.plan, found.place.buffer)?;
        if let Some(parts) = static_parts(found, c.exprs) {
            return self.constant(found, spot, parts).map(Definition::Constant);
        }
        let memory = buffer(c.plan, found.place.buffer)?;
        let dtype = format!("DType::{:?}", found.dtype);
        let sizes = |list: &[ExprId]| list.iter().map(|e| c.exprs.size(*e)).collect::<Vec<_>>().join(", ");
        let dims = sizes(&found.dims);
        let strides = match &found.place.strides {
            Some(strides) => format!("Some([{}])", sizes(strides)),
            None => String::from("None"),
        };
        let (first, room) = (c.exprs.size(found.place.offset), self.room(c.places, memory, spot));
        Ok(Definition::Function(format!("Operand::dynamic(B{room}, {first}, {dtype}, [{dims}], {strides})")))
    }

    /// The constant of a tensor whose place and dims do not depend on the run.
    fn constant(&mut self, found: &Value, spot: Spot, (dims, strides, first): Parts) -> Result<String, Error> {
        let bad = || Error::Plan(format!("tensor {} has a negative extent or place", found.name));
        let first = usize::try_from(first).ok().and_then(|f| found.dtype.bytes_of(f)).ok_or_else(bad)? as u64;
        let start = match spot {
            Spot::Weights(offset) | Spot::Arena(offset) => offset,
            Spot::Input(_) | Spot::Heap(_) => 0,
        };
        let offset = start.checked_add(first).ok_or_else(bad)?;
        if dims.iter().any(|d| *d < 0) {
            return Err(bad());
        }
        let dtype = format!("DType::{:?}", found.dtype);
        let mut shape = list(&dims);
        if let Some(strides) = &strides {
            shape = format!("{shape}, {}", list(strides));
        }
        let helper = Helper::of(spot, strides.is_some());
        self.helpers.extend(helper);
        Ok(match (helper, strides, spot) {
            (Some(helper), _, _) => format!("{}({offset}, {dtype}, {shape})", helper.name()),
            (None, Some(_), _) => {
                format!("Operand::strided({}, {offset}, {dtype}, {shape}).within(usize::MAX)", space(spot))
            }
            (None, None, Spot::Input(index)) if offset == 0 => format!("Operand::input({index}, {dtype}, {shape})"),
            (None, None, Spot::Heap(number)) => format!("Operand::held({number}, {offset}, {dtype}, {shape})"),
            (None, None, _) => format!("Operand::new({}, {offset}, {dtype}, {shape})", space(spot)),
        })
    }
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
