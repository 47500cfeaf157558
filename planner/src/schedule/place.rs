//! Where values lie: roots, and views resolved to an offset and strides in their root's buffer.

use super::{Body, Scheduler};
use crate::graph::{Graph, Op, Problem, V, View};
use crate::shape::Exprs;
use plan::{Axes, BufferId, Class, ExprId};

/// A value's place in the buffer of its root.
#[derive(Clone, Debug)]
pub(super) struct Where {
    pub root: V,
    pub buffer: BufferId,
    pub offset: ExprId,
    pub dims: Vec<ExprId>,
    pub strides: Vec<ExprId>,
    contiguous: bool,
}

impl Where {
    /// The place of a root.
    pub fn whole(v: V, buffer: BufferId, graph: &mut Graph) -> Where {
        let dims = graph.value(v).dims.to_vec();
        let strides = row_major(&dims, &mut graph.exprs);
        let offset = graph.exprs.int(0);
        Where { root: v, buffer, offset, dims, strides, contiguous: true }
    }

    pub fn is_contiguous(&self) -> bool {
        self.contiguous
    }

    pub fn strides_list(&self) -> Result<Axes<ExprId>, Problem> {
        Axes::from_slice(&self.strides).ok_or_else(|| Problem::new("rank above 8"))
    }

    fn settle(mut self, x: &mut Exprs) -> Where {
        let one = x.int(1);
        let mut step = one;
        self.contiguous = true;
        for (d, s) in self.dims.iter().zip(&self.strides).rev() {
            if *d == one {
                continue;
            }
            if *s != step {
                self.contiguous = false;
                break;
            }
            step = x.mul(step, *d);
        }
        self
    }
}

fn row_major(dims: &[ExprId], x: &mut Exprs) -> Vec<ExprId> {
    let mut step = x.int(1);
    let mut strides: Vec<ExprId> = dims
        .iter()
        .rev()
        .map(|d| {
            let s = step;
            step = x.mul(step, *d);
            s
        })
        .collect();
    strides.reverse();
    strides
}

impl Scheduler<'_> {
    /// Where a value lies. Constants get their buffer here, and a view that cannot be one gets a copy to look at.
    pub(super) fn place(&mut self, v: V, body: &mut Body) -> Result<Where, Problem> {
        if let Some(place) = self.places.get(&v) {
            return Ok(place.clone());
        }
        if self.is_source(v) {
            return self.place_constant(v);
        }
        let Some((n, _)) = self.graph.producer_of(v) else {
            return Err(Problem::new(format!("value {} has no place", self.graph.value(v).name)));
        };
        let node = self.graph.node(n);
        let (Op::View(view), Some(Some(from))) = (node.op.clone(), node.reads.first().copied()) else {
            return Err(Problem::new(format!("value {} is used before it is made", self.graph.value(v).name)));
        };
        let parent = self.place(from, body)?;
        let dims = self.graph.value(v).dims.to_vec();
        let place = match self.resolve(&view, &parent, &dims) {
            Some(place) => place.settle(&mut self.graph.exprs),
            None => return self.place_reshaped_copy(v, from, &dims, body),
        };
        self.places.insert(v, place.clone());
        Ok(place)
    }

    fn place_constant(&mut self, v: V) -> Result<Where, Problem> {
        let bytes = self.graph.constant_of(v).cloned().ok_or_else(|| Problem::new("a constant without data"))?;
        let name = self.graph.value(v).name.clone();
        let offset = self.weights.add(bytes, self.align);
        let buffer = self.buffer(&name, Class::Const, v, offset)?;
        let place = Where::whole(v, buffer, self.graph);
        self.places.insert(v, place.clone());
        Ok(place)
    }

    /// A view of a tensor whose strides do not allow it: of a contiguous copy then. The copy belongs to this body alone.
    fn place_reshaped_copy(&mut self, v: V, from: V, dims: &[ExprId], body: &mut Body) -> Result<Where, Problem> {
        let copy = self.copied(from, body)?;
        let buffer =
            self.plan.values.get(copy.index()).map(|c| c.place.buffer).ok_or_else(|| Problem::new("no copy"))?;
        let place = Where { root: v, ..Where::whole(v, buffer, self.graph) };
        debug_assert_eq!(place.dims, dims);
        let value = self.graph.value(v);
        let plan_value = plan::Value {
            name: value.name.clone(),
            dtype: value.dtype,
            dims: value.dims,
            place: plan::Place { buffer, offset: place.offset, strides: None },
            root: Some(copy),
        };
        let id = self.new_plan_value(plan_value);
        self.ids.insert(v, id);
        self.places.insert(v, place.clone());
        body.local.push(v);
        Ok(place)
    }

    /// A view as offset and strides; none where its strides do not exist.
    fn resolve(&mut self, view: &View, parent: &Where, dims: &[ExprId]) -> Option<Where> {
        let x = &mut self.graph.exprs;
        let (mut offset, mut strides) = (parent.offset, Vec::new());
        match view {
            View::Reshape if parent.contiguous => strides = row_major(dims, x),
            View::Reshape => strides = reshape_strides(&parent.dims, &parent.strides, dims, x)?,
            View::Permute(perm) => {
                for p in perm.iter() {
                    strides.push(*parent.strides.get(*p as usize)?);
                }
            }
            View::Slice { start, step } => {
                for ((s, from), k) in parent.strides.iter().zip(start.iter()).zip(step.iter()) {
                    let far = x.mul(*s, *from);
                    offset = x.add(offset, far);
                    let k = x.int(*k);
                    strides.push(x.mul(*s, k));
                }
            }
            View::Broadcast => {
                let (one, zero) = (x.int(1), x.int(0));
                let lead = dims.len().checked_sub(parent.dims.len())?;
                strides = vec![zero; lead];
                for ((d, s), new) in parent.dims.iter().zip(&parent.strides).zip(dims.iter().skip(lead)) {
                    strides.push(if *d == one && *new != one { zero } else { *s });
                }
            }
        }
        Some(Where {
            root: parent.root,
            buffer: parent.buffer,
            offset,
            dims: dims.to_vec(),
            strides,
            contiguous: false,
        })
    }
}

/// Strides of a reshaped strided tensor, where groups of axes that are dense among themselves are split or merged.
fn reshape_strides(old: &[ExprId], strides: &[ExprId], new: &[ExprId], x: &mut Exprs) -> Option<Vec<ExprId>> {
    let one = x.int(1);
    let zero = x.int(0);
    // Axes of extent 1 say nothing about memory.
    let old: Vec<(ExprId, ExprId)> =
        old.iter().copied().zip(strides.iter().copied()).filter(|(d, _)| *d != one).collect();
    let mut out = vec![zero; new.len()];
    let (mut i, mut j) = (0, 0);
    while i < old.len() {
        while new.get(j) == Some(&one) {
            j += 1;
        }
        let (first, from) = (i, j);
        let (mut p, mut q) = (old.get(i)?.0, *new.get(j)?);
        (i, j) = (i + 1, j + 1);
        // Grow the smaller side until both have as many elements.
        while p != q {
            let (larger_p, r) = (x.max(p, q) == p, x.min(p, q));
            if r != p && r != q {
                return None;
            }
            if larger_p {
                q = x.mul(q, *new.get(j)?);
                j += 1;
            } else {
                p = x.mul(p, old.get(i)?.0);
                i += 1;
            }
        }
        // The old axes of the group must be dense among themselves.
        for k in first..i.checked_sub(1)? {
            let (d, s) = (old.get(k + 1)?.0, old.get(k + 1)?.1);
            if x.mul(d, s) != old.get(k)?.1 {
                return None;
            }
        }
        let mut step = old.get(i - 1)?.1;
        for k in (from..j).rev() {
            *out.get_mut(k)? = step;
            step = x.mul(step, *new.get(k)?);
        }
    }
    new.get(j..)?.iter().all(|d| *d == one).then_some(out)
}
