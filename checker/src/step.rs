//! One step on shadow memory: what it reads, what it writes, and whether these may lie as they do.

use crate::{
    Executor, Owner, Reason, Rejection,
    facts::{in_arena, root},
    footprint::{Footprint, Misplaced},
    run::{Sim, Stop},
    shadow::{Tag, WORKSPACE},
};
use plan::{BufferId, Class, ExprId, Primitive, SymbolId, Traits, ValueId, prim::MapOp};

/// A tensor at its place.
#[derive(Clone)]
pub struct Place {
    value: ValueId,
    class: Class,
    buffer: BufferId,
    dims: Vec<i64>,
    /// Distances of neighbours along the axes that have any.
    strides: Vec<i64>,
    bits: usize,
    pub footprint: Footprint,
}

impl Place {
    /// Whether two tensors lie in the same memory, all from the first byte to the last: a kernel holds a tensor as that one
    /// slice, what lies between its elements with it.
    fn meets(&self, other: &Place) -> bool {
        let same_space = in_arena(self.class) == in_arena(other.class)
            && (in_arena(self.class) || (self.class == other.class && self.buffer == other.buffer));
        same_space && self.footprint.hull().overlaps(&other.footprint.hull())
    }

    /// Whether two tensors lie in the same memory element by element.
    fn same(&self, other: &Place) -> bool {
        self.bits == other.bits
            && self.dims == other.dims
            && self.strides == other.strides
            && self.footprint == other.footprint
    }
}

impl Sim<'_> {
    /// Where a tensor lies now.
    pub fn place(&self, v: ValueId) -> Result<Place, Stop> {
        let Some(tensor) = self.plan.values.get(v.index()) else {
            return Err(Rejection::new(Reason::Index, "no such tensor").of(v).into());
        };
        let buffer = tensor.place.buffer;
        let Some(home) = self.plan.buffers.get(buffer.index()) else {
            return Err(Rejection::new(Reason::Index, "no such buffer").of(v).into());
        };
        let Some(base) = self.bases.get(buffer.index()).copied().flatten() else {
            let what = format!("its buffer {} `{}` is not held", buffer.0, home.name);
            return Err(Rejection::new(Reason::NotHeld, what).of(v).into());
        };
        let dims = tensor.dims.iter().map(|e| self.extent(*e, v)).collect::<Result<Vec<i64>, Stop>>()?;
        let strides = match &tensor.place.strides {
            Some(s) => Some(s.iter().map(|e| self.eval(*e)).collect::<Result<Vec<i64>, Stop>>()?),
            None => None,
        };
        let offset = self.eval(tensor.place.offset)?;
        let aligned = (self.executor != Executor::Static && in_arena(home.class))
            || home.class == Class::Input
            || home.offset % tensor.dtype.align() as u64 == 0;
        if !aligned {
            let what = format!("a tensor of {} begins at {}", tensor.dtype, home.offset);
            return Err(Rejection::new(Reason::Misaligned, what).of(v).into());
        }
        let footprint = Footprint::new(tensor.dtype, &dims, strides.as_deref(), offset, base).map_err(|m| {
            let what = match m {
                Misplaced::Before => "it begins before its buffer",
                Misplaced::Overflow => "its bytes cannot be counted",
                Misplaced::Packed => "its elements of less than a byte do not begin at one",
            };
            Rejection::new(Reason::OutsideBuffer, what).of(v)
        })?;
        let bytes = if self.env.get(home.bytes).is_some() { self.capacity(buffer)? } else { home.max_bytes };
        if !footprint.is_empty() && footprint.end - base > bytes {
            let what = format!("it ends {} bytes after its buffer's start, which has {bytes}", footprint.end - base);
            let r = Rejection::new(Reason::OutsideBuffer, what).of(v);
            return Err(r.at(footprint.start, footprint.end).into());
        }
        let strides = distances(&dims, strides.as_deref());
        let bits = tensor.dtype.bits();
        Ok(Place { value: v, class: home.class, buffer, dims, strides, bits, footprint })
    }

    fn extent(&self, e: ExprId, v: ValueId) -> Result<i64, Stop> {
        let extent = self.eval(e)?;
        if extent >= 0 {
            return Ok(extent);
        }
        if self.assumed {
            return Err(Stop::Abandon);
        }
        Err(Rejection::new(Reason::Unevaluable, format!("its extent is {extent}")).of(v).into())
    }

    /// Checks that a tensor is there to be read.
    pub fn read(&mut self, v: ValueId) -> Result<Place, Stop> {
        let place = self.place(v)?;
        if !in_arena(place.class) || place.footprint.is_empty() {
            return Ok(place);
        }
        let (root, f) = (root(self.plan, v), &place.footprint);
        if let Some((from, to)) = self.overwritten(f) {
            let what = "it is read after this turn of the loop has written what the next one reads";
            let r = Rejection::new(Reason::Carried, what).of(v).at(from, to);
            return Err(r.owners(Owner::Old(root), Owner::Value(root)).into());
        }
        let want = self.tag_read(root);
        let mut bad = None;
        self.shadow.any(f.start, f.end, &mut |from, to, tag| {
            let wrong = tag != Some(want) && f.meets(from, to);
            if wrong {
                bad = Some((from, to, tag));
            }
            wrong
        });
        let Some((from, to, tag)) = bad else { return Ok(place) };
        let found = self.owner_of(tag);
        let what = if found == Owner::Nobody {
            "it is read before it is written"
        } else {
            "it is read where something else lies"
        };
        Err(Rejection::new(Reason::Read, what).of(v).at(from, to).owners(Owner::Value(root), found).into())
    }

    /// Runs a primitive.
    pub fn primitive(
        &mut self,
        prim: &Primitive<ExprId>,
        reads: &[Option<ValueId>],
        writes: &[Option<ValueId>],
        workspace: Option<BufferId>,
        defines: &[SymbolId],
    ) -> Result<(), Stop> {
        let traits = prim.traits();
        let mut sources = Vec::with_capacity(reads.len());
        for (i, v) in reads.iter().enumerate() {
            let Some(v) = *v else { continue };
            let place = self.read(v)?;
            self.shape(&place, traits.read_may_be_strided(i))?;
            sources.push((i, place));
        }
        let first = writes.first().copied().flatten().and_then(|v| self.plan.values.get(v.index()));
        let rows = first.and_then(|v| v.dims.first()).and_then(|e| self.env.get(*e));
        for s in defines {
            self.assume(*s, limit(prim, &sources, rows))?;
        }
        let mut parameters = Ok(0);
        prim.map_extents(&mut |e| {
            if parameters.is_ok() {
                parameters = self.eval(e);
            }
            e
        });
        parameters?;
        let mut targets = Vec::with_capacity(writes.len());
        for (j, v) in writes.iter().enumerate() {
            let Some(v) = *v else { continue };
            let place = self.place(v)?;
            self.shape(&place, traits.write_may_be_strided(j))?;
            self.may_write(prim, &place, reads)?;
            targets.push((j, place));
        }
        self.apart(&traits, &sources, &targets)?;
        if let Some(buffer) = workspace {
            self.scratch(buffer, &sources, &targets)?;
        }
        if self.committed && can_fail(prim) {
            let what = format!("{} can fail, but a state has been written already", traits.name);
            return Err(Rejection::new(Reason::StateBeforeFailure, what).into());
        }
        for (_, place) in &targets {
            let root = root(self.plan, place.value);
            let tag = self.tag_written(root);
            self.written_once(place, root, tag)?;
        }
        for (_, place) in &targets {
            let root = root(self.plan, place.value);
            let tag = self.tag_written(root);
            self.fill(&place.footprint, Some(tag))?;
            self.carry(&place.footprint, root);
        }
        Ok(())
    }

    fn shape(&self, place: &Place, strides: bool) -> Result<(), Stop> {
        if strides || place.footprint.contiguous {
            return Ok(());
        }
        Err(Rejection::new(Reason::Strided, "the kernel needs it contiguous").of(place.value).into())
    }

    /// Whether a step may write this tensor's memory at all.
    fn may_write(&mut self, prim: &Primitive<ExprId>, place: &Place, reads: &[Option<ValueId>]) -> Result<(), Stop> {
        if place.footprint.folded {
            return Err(Rejection::new(Reason::WriteOverlap, "elements overlap each other").of(place.value).into());
        }
        if place.footprint.pieces() > 1 << 20 {
            return Err(Rejection::new(Reason::TooLarge, "it lies in too many pieces").of(place.value).into());
        }
        match place.class {
            Class::Act => Ok(()),
            Class::Persist => {
                let written = root(self.plan, place.value);
                let states = &self.plan.states;
                let buffer = |v: ValueId| self.plan.values.get(v.index()).map(|v| v.place.buffer);
                let becomes = states.iter().any(|s| {
                    buffer(s.current) == Some(place.buffer)
                        && s.current != written
                        && root(self.plan, s.next) == written
                });
                let commits = matches!(prim, Primitive::Copy(_))
                    && states.iter().any(|s| {
                        let source = reads.first().copied().flatten().map(|v| root(self.plan, v));
                        s.current == written && source == Some(root(self.plan, s.next))
                    });
                if !becomes && !commits {
                    let what = "a state is written by what is not its next value";
                    return Err(Rejection::new(Reason::Write, what).of(place.value).into());
                }
                self.committed = true;
                Ok(())
            }
            Class::Const | Class::Input | Class::Work => {
                let what = format!("memory of class {:?} is written", place.class);
                Err(Rejection::new(Reason::Write, what).of(place.value).into())
            }
        }
    }

    /// Writes lie apart from each other, and from reads but for what the table permits.
    fn apart(&self, traits: &Traits, reads: &[(usize, Place)], writes: &[(usize, Place)]) -> Result<(), Stop> {
        for (n, (j, write)) in writes.iter().enumerate() {
            let bytes = (write.footprint.start, write.footprint.end);
            let reject = |reason: Reason, what: &str, other: ValueId| -> Result<(), Stop> {
                let r = Rejection::new(reason, what).of(write.value).at(bytes.0, bytes.1);
                Err(r.owners(Owner::Value(write.value), Owner::Value(other)).into())
            };
            if let Some((_, other)) = writes.iter().take(n).find(|(_, w)| w.meets(write)) {
                return reject(Reason::WriteOverlap, "two writes of a step overlap", other.value);
            }
            let mut shared = None;
            for (i, read) in reads.iter().filter(|(_, r)| r.meets(write)) {
                let permitted = traits.in_place.iter().any(|(a, b)| (*a as usize, *b as usize) == (*i, *j));
                if !permitted {
                    return reject(
                        Reason::InPlace,
                        "it is written over an operand for which that is not permitted",
                        read.value,
                    );
                }
                if !read.same(write) {
                    return reject(Reason::InPlace, "it is written over an operand that lies otherwise", read.value);
                }
                if shared.is_some() {
                    return reject(Reason::InPlace, "it is written over two operands", read.value);
                }
                shared = Some(i);
            }
        }
        Ok(())
    }

    /// The workspace lies apart from every operand.
    fn scratch(&mut self, buffer: BufferId, reads: &[(usize, Place)], writes: &[(usize, Place)]) -> Result<(), Stop> {
        let bytes = self.capacity(buffer)?;
        let Some(base) = self.bases.get(buffer.index()).copied().flatten() else {
            return Err(Rejection::new(Reason::NotHeld, "the workspace is not held").into());
        };
        let range = Footprint::range(base, base.saturating_add(bytes));
        let mut operands = reads.iter().chain(writes);
        if let Some((_, place)) = operands.find(|(_, p)| in_arena(p.class) && p.footprint.hull().overlaps(&range)) {
            let r = Rejection::new(Reason::Workspace, "the workspace overlaps an operand of its step").of(place.value);
            let r = r.at(range.start, range.end).owners(Owner::Workspace, Owner::Value(place.value));
            return Err(r.into());
        }
        let turn = u64::MAX;
        self.fill(&range, Some(Tag { owner: WORKSPACE, turn }))
    }

    /// A tensor is written once in a turn of its block, but where a loop within carries it on.
    fn written_once(&mut self, place: &Place, root: ValueId, tag: Tag) -> Result<(), Stop> {
        if self.carrier(root).is_some() || !in_arena(place.class) {
            return Ok(());
        }
        let f = &place.footprint;
        let mut again = None;
        self.shadow.any(f.start, f.end, &mut |from, to, found| {
            let hit = found == Some(tag) && f.meets(from, to);
            if hit {
                again = Some((from, to));
            }
            hit
        });
        let Some((from, to)) = again else { return Ok(()) };
        let r = Rejection::new(Reason::WrittenTwice, "it is written where it has been written already");
        Err(r.of(place.value).at(from, to).owners(Owner::Nobody, Owner::Value(root)).into())
    }
}

/// Strides of axes that have more than one element.
fn distances(dims: &[i64], strides: Option<&[i64]>) -> Vec<i64> {
    let mut step = 1i64;
    let mut out = vec![0; dims.len()];
    for (axis, d) in dims.iter().enumerate().rev() {
        if *d > 1
            && let Some(distance) = out.get_mut(axis)
        {
            *distance = strides.map_or(step, |s| s.get(axis).copied().unwrap_or(0));
        }
        step = step.saturating_mul(*d);
    }
    out
}

/// The most that a primitive can find, where its operands tell; `rows`: the first extent of what it writes.
fn limit(prim: &Primitive<ExprId>, reads: &[(usize, Place)], rows: Option<i64>) -> Option<i64> {
    let dims = |i: usize| reads.iter().find(|(n, _)| *n == i).map(|(_, p)| p.dims.as_slice());
    let all = |d: &[i64]| d.iter().fold(1i64, |a, b| a.saturating_mul(*b));
    let along = |axis: Option<u8>| match axis {
        Some(a) => dims(0)?.get(a as usize).copied(),
        None => dims(0).map(all),
    };
    match prim {
        Primitive::NonZero(_) => dims(0).map(all),
        Primitive::Unique(p) => along(p.axis),
        Primitive::Compress(p) => Some(along(p.axis)?.min(dims(1).map_or(i64::MAX, all))),
        // A row for each box that is kept.
        Primitive::NonMaxSuppression(_) => Some(dims(1).map_or(i64::MAX, all).min(rows.unwrap_or(i64::MAX))),
        _ => None,
    }
}

/// Whether the data can make a primitive fail.
fn can_fail(prim: &Primitive<ExprId>) -> bool {
    match prim {
        // Only integer division does.
        Primitive::Map(map) => map
            .code
            .iter()
            .any(|instr| matches!(instr.op, MapOp::Div | MapOp::Mod | MapOp::Fmod) && instr.dtype.is_integer()),
        _ => prim.traits().fallible,
    }
}
