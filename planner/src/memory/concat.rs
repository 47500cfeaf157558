//! Concatenations built in place: an operand is written where the result will hold it.

use super::{
    alias::Alias,
    exprs::constant,
    poly::Poly,
    rules::Rule,
    take::Refused,
    windows::{Part, fixed_range},
};
use plan::{Action, Axes, BufferId, Capture, Class, ExprId, Place, Primitive, Step, Value, ValueId};
use std::collections::BTreeMap;

/// The most pieces into which an operand may fall within the result.
const MAX_PIECES: i64 = 1 << 16;

/// Where an operand lies in the result.
struct Slot {
    operand: ValueId,
    offset: ExprId,
    strides: Option<Axes<ExprId>>,
}

/// Operands that move into the result together, since they share a buffer: their numbers, first the one at its start.
type Unit = Vec<usize>;

/// Places as many operands as may be placed without raising the peak; the others are copied.
pub fn place(alias: &mut Alias<'_>, at: (u32, u32), axis: usize, reads: &[Option<ValueId>], w: ValueId) {
    let operands: Vec<ValueId> = reads.iter().copied().flatten().collect();
    let Some(slots) = slots(alias, axis, &operands, w) else { return };
    let mut taken: Vec<Unit> = Vec::new();
    let mut touched: BTreeMap<(u32, u32), bool> = BTreeMap::new();
    for unit in units(alias, &slots) {
        let buffer = slots.get(unit[0]).map(|s| alias.buffer(s.operand));
        let may = may_place(alias, at, &slots, &unit, w);
        match may.and_then(|()| apart(alias, &slots[unit[0]], &touched)) {
            Ok(()) => {
                for u in buffer.iter().flat_map(|b| &alias.uses[b.index()]) {
                    *touched.entry((u.block, u.step)).or_default() |= u.write;
                }
                taken.push(unit);
            }
            Err(why) => {
                let operand = slots[unit[0]].operand;
                alias.refuse(at.0, at.1, operand, format!("it is copied into the result: {why}"));
            }
        }
    }
    // The earliest-born operand stretches the result's life most.
    let born = |alias: &Alias<'_>, u: &Unit| alias.life(alias.buffer(slots[u[0]].operand)).map_or(0, |l| l.first);
    let before = alias.peak();
    while !taken.is_empty() && raises(alias, &slots, &taken, w, before) {
        let Some(first) = (0..taken.len()).min_by_key(|i| (born(alias, &taken[*i]), *i)) else { break };
        let unit = taken.remove(first);
        let operand = slots[unit[0]].operand;
        alias.refuse(at.0, at.1, operand, "it is copied into the result: the peak would rise");
    }
    if taken.is_empty() {
        return;
    }
    for unit in &taken {
        put(alias, &slots[unit[0]], w);
    }
    let mut copies = Vec::new();
    for (k, slot) in slots.iter().enumerate() {
        if !taken.iter().flatten().any(|t| *t == k) {
            copies.extend(copy(alias, at, slot, w));
        }
    }
    alias.replaced.insert(at, copies);
}

/// Operands by the buffer that they lie in, those at its start first.
fn units(alias: &Alias<'_>, slots: &[Slot]) -> Vec<Unit> {
    let mut units: Vec<(BufferId, Unit)> = Vec::new();
    for (k, slot) in slots.iter().enumerate() {
        let buffer = alias.buffer(slot.operand);
        match units.iter_mut().find(|(b, _)| *b == buffer) {
            Some((_, unit)) => unit.push(k),
            None => units.push((buffer, vec![k])),
        }
    }
    let starts =
        |k: &usize| alias.value(slots[*k].operand).and_then(|v| constant(alias.plan, v.place.offset)) != Some(0);
    for (_, unit) in &mut units {
        unit.sort_by_key(|k| (starts(k), *k));
    }
    units.into_iter().map(|(_, unit)| unit).collect()
}

/// Where each operand lies in the result, which must fill its buffer.
fn slots(alias: &mut Alias<'_>, axis: usize, operands: &[ValueId], w: ValueId) -> Option<Vec<Slot>> {
    let result = alias.value(w)?.clone();
    if !alias.fills(&result) || result.dtype.size().is_none() {
        return None;
    }
    let plan = &mut *alias.plan;
    let exprs = &mut alias.exprs;
    let mut steps = vec![exprs.number(plan, 1); result.dims.len()];
    for a in (0..result.dims.len().checked_sub(1)?).rev() {
        steps[a] = exprs.mul(plan, steps[a + 1], *result.dims.get(a + 1)?);
    }
    let one = exprs.number(plan, 1);
    let flat = result.dims.iter().take(axis).all(|d| exprs.same(plan, *d, one));
    let strides = if flat { None } else { Some(Axes::from_slice(&steps)?) };
    let mut before = exprs.number(plan, 0);
    let mut slots = Vec::with_capacity(operands.len());
    for v in operands {
        let dims = plan.values.get(v.index())?.dims;
        let offset = exprs.mul(plan, before, *steps.get(axis)?);
        slots.push(Slot { operand: *v, offset, strides });
        before = exprs.add(plan, before, *dims.get(axis)?);
    }
    Some(slots)
}

/// Whether operands that share a buffer may be written straight into the result.
fn may_place(alias: &Alias<'_>, at: (u32, u32), slots: &[Slot], unit: &Unit, w: ValueId) -> Result<(), Refused> {
    let slot = slots.get(unit[0]).ok_or("it is not used")?;
    let (from, to) = (alias.buffer(slot.operand), alias.buffer(w));
    let (Some(operand), Some(whole)) = (alias.value(slot.operand), alias.life(to)) else {
        return Err("it is not used");
    };
    let ask = |rule, given, why| alias.rules.ask(rule, given, why);
    if from == to {
        return Err("it lies in the result already");
    }
    alias.ground().of_the_run(from)?;
    let begins = alias.class(to) == Some(Class::Act) && whole.block == at.0 && whole.first == at.1;
    ask(Rule::JoinBegins, begins, "the result's memory is in use before")?;
    alias.ground().owned(from, at.0)?;
    if (unit.len() > 1 || !alias.fills(operand)) && alias.rules.hold(Rule::JoinPieces) {
        pieces(alias, slots, unit)?;
    }
    let result = alias.plan.buffers.get(to.index()).map(|b| b.bytes).ok_or("it is not used")?;
    let strides = slot.strides.iter().flat_map(|s| s.iter());
    let known = !strides.chain([&slot.offset, &result]).any(|e| alias.exprs.is_found(*e));
    ask(Rule::JoinKnownPlace, known, "its place in the result is known only to the run")?;
    let size = operand.dtype.size();
    let alike = alias.members[from.index()].iter().all(|v| alias.value(*v).is_some_and(|m| m.dtype.size() == size));
    ask(Rule::JoinElementSize, alike, "it is seen as elements of another size")?;
    if slot.strides.is_some() && alias.rules.hold(Rule::JoinStrides) {
        strided(alias, slot.operand, from)
    } else {
        Ok(())
    }
}

/// Whether no step touches an operand together with one that is in the result already, and writes either. Where parts of
/// the result have strides, the memory from first to last element of one covers elements of the other.
fn apart(alias: &Alias<'_>, slot: &Slot, touched: &BTreeMap<(u32, u32), bool>) -> Result<(), Refused> {
    let uses = &alias.uses[alias.buffer(slot.operand).index()];
    let meets = uses.iter().any(|u| touched.get(&(u.block, u.step)).is_some_and(|written| *written || u.write));
    let apart = slot.strides.is_none() || !meets;
    alias.rules.ask(Rule::JoinApart, apart, "a step that writes it reads or writes another part")
}

/// Whether several operands are the pieces of one buffer, all of it, and lie in the result as they lie there.
fn pieces(alias: &Alias<'_>, slots: &[Slot], unit: &Unit) -> Result<(), Refused> {
    let part = "it is a part of a larger tensor, or in another order";
    let poly = |e: ExprId| Poly::of(alias.plan, &alias.exprs, e);
    let first = slots.get(unit[0]).ok_or(part)?;
    let (root, base) = (alias.root(first.operand), poly(first.offset).ok_or(part)?);
    let buffer = alias.plan.buffers.get(alias.buffer(first.operand).index()).ok_or(part)?;
    let mut bits = Poly::number(0);
    for k in unit {
        let slot = slots.get(*k).ok_or(part)?;
        let v = alias.value(slot.operand).ok_or(part)?;
        let offset = poly(v.place.offset).and_then(|o| o.plus(&base, 1)).ok_or(part)?;
        let rows = v.place.strides.as_ref().is_none_or(|s| alias.row_major(&v.dims, s));
        // Each piece as far from the first one as in the result; no two at one place, since no two are in the result.
        if slot.strides.is_some() || !rows || alias.root(slot.operand) != root || Some(offset) != poly(slot.offset) {
            return Err(part);
        }
        let mut size = Poly::number(v.dtype.bits() as i64);
        for d in v.dims.iter() {
            size = poly(*d).and_then(|d| size.times(&d)).ok_or(part)?;
        }
        bits = bits.plus(&size, 1).ok_or(part)?;
    }
    let all = poly(buffer.bytes).and_then(|b| b.times(&Poly::number(8)));
    if Some(bits) == all { Ok(()) } else { Err(part) }
}

/// Whether everything that touches an operand can do with strides.
fn strided(alias: &Alias<'_>, operand: ValueId, buffer: BufferId) -> Result<(), Refused> {
    let Some(operand) = alias.value(operand) else { return Err("it is not used") };
    let mut pieces = 1i64;
    for d in operand.dims.iter().rev().skip(1) {
        pieces = pieces.saturating_mul(constant(alias.plan, *d).unwrap_or(i64::MAX));
    }
    if pieces > MAX_PIECES {
        return Err("it would lie in too many pieces");
    }
    for v in &alias.members[buffer.index()] {
        let Some(member) = alias.value(*v) else { continue };
        let alike = member.dims.len() == operand.dims.len()
            && member.dims.iter().zip(operand.dims.iter()).all(|(a, b)| alias.exprs.same(alias.plan, *a, *b));
        if !alike || !alias.fills(member) {
            return Err("it has views, which cannot follow it");
        }
    }
    for u in &alias.uses[buffer.index()] {
        let step = alias.plan.blocks.get(u.block as usize).and_then(|b| b.steps.get(u.step as usize));
        let Some(Action::Run { prim, .. }) = step.map(|s| &s.action) else { return Err("it steers a branch or loop") };
        let traits = prim.traits();
        let fine = match u.operand {
            Some(i) if u.write => traits.write_may_be_strided(i),
            Some(i) => traits.read_may_be_strided(i),
            None => false,
        };
        if !fine {
            return Err("a step that touches it needs it contiguous");
        }
    }
    Ok(())
}

/// Whether placing these operands raises the peak.
fn raises(alias: &Alias<'_>, slots: &[Slot], taken: &[Unit], w: ValueId, before: u64) -> bool {
    let whole = alias.buffer(w);
    let (mut life, mut parts, mut gone) = (alias.life(whole), alias.parts_of(whole), Vec::new());
    for unit in taken {
        let Some(slot) = slots.get(unit[0]) else { continue };
        let from = alias.buffer(slot.operand);
        if let (Some(a), Some(b)) = (alias.life(from), life) {
            life = Some(a.join(b, alias.tree));
        }
        parts.extend(moved(alias, slot, whole));
        gone.push(from);
    }
    alias.rules.hold(Rule::JoinPeak) && alias.peak_with(whole, life, &parts, &gone) > before
}

/// The parts of an operand where they lie in the result: all of the result where the place depends on extents, or is in pieces.
fn moved(alias: &Alias<'_>, slot: &Slot, whole: BufferId) -> Vec<Part> {
    let from = alias.buffer(slot.operand);
    let mut parts = alias.parts_of(from);
    let bits = alias.value(slot.operand).map_or(8, |v| v.dtype.bits() as u64);
    let fixed = |v: &ValueId| alias.value(*v).is_some_and(|v| fixed_range(alias.plan, v).is_some());
    let fixed = slot.strides.is_none() && alias.members[from.index()].iter().all(fixed);
    let offset = constant(alias.plan, slot.offset).filter(|_| fixed);
    let offset = offset.and_then(|o| u64::try_from(o).ok()?.checked_mul(bits)).map(|bits| bits / 8);
    let size = alias.plan.buffers.get(whole.index()).map_or(0, |b| b.max_bytes);
    for part in &mut parts {
        let place = offset.and_then(|o| Some((part.low.checked_add(o)?, part.high.checked_add(o)?)));
        (part.low, part.high) = place.filter(|(_, high)| *high <= size).unwrap_or((0, size));
    }
    parts
}

/// Moves an operand, and all that shares its memory, into the result.
fn put(alias: &mut Alias<'_>, slot: &Slot, w: ValueId) {
    let (from, to) = (alias.buffer(slot.operand), alias.buffer(w));
    let mut parts = alias.parts_of(to);
    parts.extend(moved(alias, slot, to));
    for v in alias.members[from.index()].clone() {
        let Some(mut offset) = alias.value(v).map(|v| v.place.offset) else { continue };
        offset = alias.exprs.add(alias.plan, offset, slot.offset);
        let place = &mut alias.plan.values[v.index()].place;
        place.offset = offset;
        if slot.strides.is_some() {
            place.strides = slot.strides;
        }
    }
    let life = alias.lives[from.index()].take();
    if let (Some(a), Some(b)) = (life, alias.lives[to.index()]) {
        alias.lives[to.index()] = Some(a.join(b, alias.tree));
    }
    // Nothing lies in the other any more.
    alias.drop_parts(from);
    alias.set_parts(to, alias.life(to), parts);
    for v in std::mem::take(&mut alias.members[from.index()]) {
        alias.plan.values[v.index()].place.buffer = to;
        alias.members[to.index()].push(v);
    }
    let uses = std::mem::take(&mut alias.uses[from.index()]);
    alias.uses[to.index()].extend(uses);
    alias.rename(slot.operand, w);
}

/// A step that copies an operand to its place in the result.
fn copy(alias: &mut Alias<'_>, at: (u32, u32), slot: &Slot, w: ValueId) -> Option<Step> {
    let step = alias.plan.blocks.get(at.0 as usize)?.steps.get(at.1 as usize)?;
    let name = step.name.clone();
    let (buffer, root) = (alias.buffer(w), alias.root(w));
    let Value { name: of, dtype, dims, .. } = alias.value(slot.operand)?.clone();
    let place = Place { buffer, offset: slot.offset, strides: slot.strides };
    let target = ValueId(alias.plan.values.len() as u32);
    alias.plan.values.push(Value { name: of, dtype, dims, place, root: Some(root) });
    alias.members[buffer.index()].push(target);
    let prim: Primitive<ExprId> = plan::prim::Copy {}.into();
    let (reads, writes) = (vec![Some(slot.operand)], vec![Some(target)]);
    let action = Action::Run { prim, reads, writes, workspace: None, defines: Vec::new() };
    Some(Step { name, action, capture: Capture::Safe {} })
}
