//! What can be seen without running: indices, counts, types, classes, bounds and alignment.

use crate::{Reason, Rejection};
use plan::{
    Action, BlockId, BufferId, Capture, Class, DType, Expr, ExprId, Plan, Step, SymbolId, SymbolKind, Value, ValueId,
};
use std::collections::BTreeSet;

type Found = Result<(), Rejection>;

/// Checks everything that does not depend on symbols.
pub fn check(plan: &Plan) -> Found {
    if !plan.align.is_power_of_two() || plan.align > 1 << 20 {
        return fail(Reason::Malformed, format!("the alignment {} is not a power of two up to 2^20", plan.align));
    }
    symbols(plan)?;
    for (i, value) in plan.values.iter().enumerate() {
        tensor(plan, value).map_err(|r| r.of(ValueId(i as u32)).within(plan, None, None))?;
    }
    for (i, buffer) in plan.buffers.iter().enumerate() {
        memory(plan, buffer).map_err(|r| Rejection::new(r.reason, format!("buffer {i} `{}`: {r}", buffer.name)))?;
    }
    ports(plan)?;
    for (b, block) in plan.blocks.iter().enumerate() {
        for (i, s) in block.steps.iter().enumerate() {
            step(plan, s).map_err(|r| r.within(plan, Some((BlockId(b as u32), i as u32)), None))?;
        }
    }
    Ok(())
}

fn fail(reason: Reason, what: impl Into<String>) -> Found {
    Err(Rejection::new(reason, what))
}

fn index<'a, T>(list: &'a [T], i: usize, what: &str) -> Result<&'a T, Rejection> {
    list.get(i).ok_or_else(|| Rejection::new(Reason::Index, format!("{what} {i} does not exist")))
}

fn expr(plan: &Plan, e: ExprId) -> Found {
    index(&plan.exprs, e.index(), "expression").map(drop)
}

fn symbol(plan: &Plan, s: SymbolId) -> Found {
    index(&plan.symbols, s.index(), "symbol").map(drop)
}

fn value(plan: &Plan, v: ValueId) -> Result<&Value, Rejection> {
    index(&plan.values, v.index(), "tensor")
}

fn buffer(plan: &Plan, b: BufferId) -> Result<&plan::Buffer, Rejection> {
    index(&plan.buffers, b.index(), "buffer")
}

fn class_of(plan: &Plan, v: ValueId) -> Result<Class, Rejection> {
    Ok(buffer(plan, value(plan, v)?.place.buffer)?.class)
}

fn symbols(plan: &Plan) -> Found {
    for (i, e) in plan.exprs.iter().enumerate() {
        if e.operands().any(|o| o.index() >= i) {
            return fail(Reason::Index, format!("expression {i} uses one that does not stand before it"));
        }
        if let Expr::Symbol(s) = e {
            symbol(plan, *s)?;
        }
    }
    for s in &plan.symbols {
        if s.lo > s.hi || s.step < 1 {
            return fail(
                Reason::Malformed,
                format!("the range {}..={}/{} of `{}` is empty", s.lo, s.hi, s.step, s.name),
            );
        }
        if let SymbolKind::Input { input, axis } = s.kind {
            let port = index(&plan.inputs, input as usize, "input")?;
            index(&value(plan, port.value)?.dims, axis as usize, "axis")?;
        }
    }
    plan.guards.iter().try_for_each(|g| expr(plan, g.left).and(expr(plan, g.right)))
}

fn tensor(plan: &Plan, v: &Value) -> Found {
    let home = buffer(plan, v.place.buffer)?;
    expr(plan, v.place.offset)?;
    v.dims.iter().try_for_each(|e| expr(plan, *e))?;
    if let Some(strides) = &v.place.strides {
        strides.iter().try_for_each(|e| expr(plan, *e))?;
        if strides.len() != v.dims.len() {
            return fail(Reason::Malformed, format!("{} extents but {} strides", v.dims.len(), strides.len()));
        }
    }
    if home.class == Class::Work {
        return fail(Reason::Workspace, "a tensor lies in a workspace");
    }
    let Some(root) = v.root else { return Ok(()) };
    let root = value(plan, root)?;
    if root.place.buffer != v.place.buffer {
        return fail(Reason::Root, "the tensor that it is a view of lies in another buffer");
    }
    if root.root.is_some() {
        return fail(Reason::Root, "it is a view of a view");
    }
    Ok(())
}

fn memory(plan: &Plan, b: &plan::Buffer) -> Found {
    expr(plan, b.bytes)?;
    b.pinned_by.iter().try_for_each(|v| value(plan, *v).map(drop))?;
    let end = b.offset.saturating_add(b.max_bytes);
    match b.class {
        Class::Act | Class::Work | Class::Persist => {
            if !b.offset.is_multiple_of(plan.align) {
                return fail(Reason::Misaligned, format!("offset {} is no multiple of {}", b.offset, plan.align));
            }
            if end > plan.arena_bytes {
                return fail(Reason::OutsideArena, format!("it ends at {end}, the arena at {}", plan.arena_bytes));
            }
        }
        Class::Const if end > plan.weight_bytes => {
            return fail(Reason::OutsideWeights, format!("it ends at {end}, the weights at {}", plan.weight_bytes));
        }
        Class::Input if b.offset >= plan.inputs.len() as u64 => {
            return fail(Reason::Index, format!("input {} does not exist", b.offset));
        }
        Class::Const | Class::Input => {}
    }
    if b.max_bytes >= 1 << 60 {
        return fail(Reason::TooLarge, "it is too large");
    }
    let Some(eager) = b.eager else { return Ok(()) };
    if !matches!(b.class, Class::Act | Class::Work) {
        return fail(Reason::FreedTwice, format!("the eager executor does not own memory of class {:?}", b.class));
    }
    let steps = index(&plan.blocks, eager.block.index(), "block")?.steps.len() as u32;
    if eager.alloc >= steps || eager.free.is_some_and(|f| f < eager.alloc || f >= steps) {
        return fail(Reason::Malformed, "the eager executor's steps are not in the block, or not in order");
    }
    Ok(())
}

fn ports(plan: &Plan) -> Found {
    let states: BTreeSet<ValueId> = plan.states.iter().map(|s| s.current).collect();
    for (i, port) in plan.inputs.iter().enumerate() {
        let home = buffer(plan, value(plan, port.value)?.place.buffer)?;
        let fine = home.class == Class::Input && home.offset == i as u64;
        if !fine && !states.contains(&port.value) {
            return fail(Reason::Malformed, format!("input `{}` is not where its number says", port.name));
        }
    }
    for port in &plan.outputs {
        if class_of(plan, port.value)? == Class::Input {
            let what = format!("output `{}` lies in the caller's memory: a copy is missing", port.name);
            return Err(Rejection::new(Reason::EscapingAlias, what).of(port.value));
        }
    }
    for state in &plan.states {
        if class_of(plan, state.current)? != Class::Persist {
            let what = format!("state `{}` does not lie in memory that persists", state.input);
            return Err(Rejection::new(Reason::State, what).of(state.current));
        }
        if value(plan, state.current)?.root.is_some() {
            let what = format!("state `{}` is a view", state.input);
            return Err(Rejection::new(Reason::Root, what).of(state.current));
        }
        class_of(plan, state.next)?;
    }
    Ok(())
}

fn step(plan: &Plan, s: &Step) -> Found {
    let decides = match &s.action {
        Action::Run { defines, .. } => !defines.is_empty(),
        Action::If { .. } | Action::Loop { .. } | Action::Define { .. } => true,
    };
    if decides && matches!(s.capture, Capture::Safe {}) {
        return fail(Reason::Capture, "the host has to look at what it does, so that no device graph may record it");
    }
    match &s.action {
        Action::Run { prim, reads, writes, workspace, defines } => {
            let traits = prim.traits();
            let fits = |n: usize, range: (usize, usize)| n >= range.0 && n <= range.1;
            if !fits(reads.len(), traits.reads) || !fits(writes.len(), traits.writes) {
                let what = format!("{} does not take {} reads and {} writes", traits.name, reads.len(), writes.len());
                return fail(Reason::Malformed, what);
            }
            reads.iter().flatten().try_for_each(|v| value(plan, *v).map(drop))?;
            for v in writes.iter().flatten() {
                let class = class_of(plan, *v)?;
                if !matches!(class, Class::Act | Class::Persist) {
                    let what = format!("memory of class {class:?} is written");
                    return Err(Rejection::new(Reason::Write, what).of(*v));
                }
            }
            if let Some(b) = workspace
                && buffer(plan, *b)?.class != Class::Work
            {
                return fail(Reason::Workspace, "the workspace is not of class Work");
            }
            defines.iter().try_for_each(|s| runs(plan, *s))?;
            let mut bad = None;
            prim.map_extents(&mut |e: ExprId| {
                bad = bad.or((e.index() >= plan.exprs.len()).then_some(e));
                e
            });
            bad.map_or(Ok(()), |e| expr(plan, e))
        }
        Action::If { cond, .. } => typed(plan, *cond, DType::Bool),
        Action::Loop { trip, cond, counter, max_trips, .. } => {
            trip.map_or(Ok(()), |v| typed(plan, v, DType::I64))?;
            cond.map_or(Ok(()), |v| typed(plan, v, DType::Bool))?;
            expr(plan, *max_trips)?;
            runs(plan, *counter)
        }
        Action::Define { symbol, value } => runs(plan, *symbol).and(expr(plan, *value)),
    }
}

fn typed(plan: &Plan, v: ValueId, dtype: DType) -> Found {
    let found = value(plan, v)?.dtype;
    if found == dtype {
        return Ok(());
    }
    Err(Rejection::new(Reason::Malformed, format!("it is of type {found}, needed is {dtype}")).of(v))
}

/// A symbol that a step gives its value.
fn runs(plan: &Plan, s: SymbolId) -> Found {
    match index(&plan.symbols, s.index(), "symbol")?.kind {
        SymbolKind::Run {} => Ok(()),
        SymbolKind::Input { .. } => fail(Reason::Malformed, "a step defines the symbol of an input"),
    }
}
