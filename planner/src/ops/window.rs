//! The windows of convolutions and poolings: kernel, step, padding, and how many fit.

use super::Cx;
use crate::graph::{Problem, V};
use crate::onnx::Node;
use plan::{ExprId, Filler, List};

/// How an operator pads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AutoPad {
    /// As the attribute `pads` says.
    Explicit,
    /// Not at all.
    Valid,
    /// So that there is an output for each step; an odd element goes to the end.
    SameUpper,
    /// Likewise; an odd element goes to the beginning.
    SameLower,
}

impl AutoPad {
    /// The node's attribute.
    pub(super) fn of(node: &Node) -> Result<AutoPad, Problem> {
        match node.string_or("auto_pad", "NOTSET")? {
            "NOTSET" | "" => Ok(AutoPad::Explicit),
            "VALID" => Ok(AutoPad::Valid),
            "SAME_UPPER" => Ok(AutoPad::SameUpper),
            "SAME_LOWER" => Ok(AutoPad::SameLower),
            other => Err(Problem::new(format!("auto_pad {other}"))),
        }
    }
}

/// Windows over the spatial axes of an operand `[n, c, spatial...]`.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// Extents.
    pub kernel: Vec<u32>,
    /// Steps.
    pub strides: Vec<u32>,
    /// Distances between taps.
    pub dilations: Vec<u32>,
    /// Padding before and after, where `auto_pad` does not decide.
    pub pads: Vec<(i64, i64)>,
    /// How to pad.
    pub auto: AutoPad,
}

/// Padding and number of windows along each spatial axis.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    /// Padding before.
    pub before: Vec<ExprId>,
    /// Padding after.
    pub after: Vec<ExprId>,
    /// How many windows.
    pub out: Vec<ExprId>,
}

/// At most three items, one for each spatial axis.
pub(super) fn spatial_list<T: Filler>(items: &[T]) -> Result<List<T, 3>, Problem> {
    List::from_slice(items).ok_or_else(|| {
        Problem::new(format!("{} spatial axes", items.len())).with("at most three spatial axes are supported")
    })
}

/// A list of positive integers of an attribute, one for each of `count` axes; `default` for each where it is not given.
pub(super) fn positive_list(node: &Node, name: &str, count: usize, default: u32) -> Result<Vec<u32>, Problem> {
    let Some(list) = node.opt_ints(name)? else { return Ok(vec![default; count]) };
    let list: Option<Vec<u32>> = list.iter().map(|v| u32::try_from(*v).ok().filter(|v| *v > 0)).collect();
    list.filter(|l| l.len() == count)
        .ok_or_else(|| Problem::new(format!("attribute {name} must have {count} positive integers")))
}

impl Window {
    /// The windows that a node's attributes describe.
    pub(super) fn of(node: &Node, kernel: Vec<u32>) -> Result<Window, Problem> {
        let n = kernel.len();
        let pads = match node.opt_ints("pads")? {
            None => vec![(0, 0); n],
            Some(list) if list.len() == 2 * n => {
                let (before, after) = list.split_at(n);
                before.iter().copied().zip(after.iter().copied()).collect()
            }
            Some(list) => return Err(Problem::new(format!("{} pads for {n} spatial axes", list.len()))),
        };
        Ok(Window {
            strides: positive_list(node, "strides", n, 1)?,
            dilations: positive_list(node, "dilations", n, 1)?,
            kernel,
            pads,
            auto: AutoPad::of(node)?,
        })
    }

    /// The extents of the axes from the third on, as many as the kernel has.
    pub(super) fn spatial_dims(&self, cx: &Cx<'_>, x: V) -> Result<Vec<ExprId>, Problem> {
        match cx.b.dims(x).as_slice() {
            [_, _, spatial @ ..] if spatial.len() == self.kernel.len() => Ok(spatial.to_vec()),
            _ => Err(Problem::new(format!("a kernel of {} axes on {}", self.kernel.len(), cx.b.describe(x)))),
        }
    }

    /// The extent from the first to the last tap.
    pub(super) fn reach(&self, axis: usize) -> i64 {
        let get = |l: &[u32]| i64::from(l.get(axis).copied().unwrap_or(1));
        (get(&self.kernel) - 1).saturating_mul(get(&self.dilations)).saturating_add(1)
    }

    /// How the windows lie on `x`. With `ceil`, windows that reach beyond the padding count, too.
    pub(super) fn fit(&self, cx: &mut Cx<'_>, x: V, ceil: bool) -> Result<Fit, Problem> {
        let spatial = self.spatial_dims(cx, x)?;
        let mut fit = Fit { before: Vec::new(), after: Vec::new(), out: Vec::new() };
        for (axis, extent) in spatial.into_iter().enumerate() {
            let stride = cx.b.int(self.strides.get(axis).copied().unwrap_or(1).into());
            let reach = cx.b.int(self.reach(axis));
            let (before, after, out) = match self.auto {
                AutoPad::SameUpper | AutoPad::SameLower => self.same(cx, extent, stride, reach),
                _ => {
                    let (before, after) = match self.auto {
                        AutoPad::Valid => (0, 0),
                        _ => self.pads.get(axis).copied().unwrap_or((0, 0)),
                    };
                    let (before, after) = (cx.b.int(before), cx.b.int(after));
                    let out = explicit(cx, extent, stride, reach, (before, after), ceil);
                    (before, after, out)
                }
            };
            let out = cx.b.extent(out, format!("windows of {} along spatial axis {axis}", self.reach(axis)))?;
            fit.before.push(before);
            fit.after.push(after);
            fit.out.push(out);
        }
        Ok(fit)
    }

    fn same(&self, cx: &mut Cx<'_>, extent: ExprId, stride: ExprId, reach: ExprId) -> (ExprId, ExprId, ExprId) {
        let (zero, one, two) = (cx.b.int(0), cx.b.int(1), cx.b.int(2));
        let x = cx.b.exprs();
        let out = x.ceil_div(extent, stride);
        let last = x.sub(out, one);
        let last = x.mul(last, stride);
        let needed = x.add(last, reach);
        let total = x.sub(needed, extent);
        let total = x.max(total, zero);
        let half = x.floor_div(total, two);
        let rest = x.sub(total, half);
        if self.auto == AutoPad::SameUpper { (half, rest, out) } else { (rest, half, out) }
    }
}

fn explicit(
    cx: &mut Cx<'_>,
    extent: ExprId,
    stride: ExprId,
    reach: ExprId,
    (before, after): (ExprId, ExprId),
    ceil: bool,
) -> ExprId {
    let one = cx.b.int(1);
    let x = cx.b.exprs();
    let start = x.add(extent, before);
    let padded = x.add(start, after);
    let room = x.sub(padded, reach);
    if !ceil {
        let steps = x.floor_div(room, stride);
        return x.add(steps, one);
    }
    let last = x.ceil_div(room, stride);
    // A window that would begin in the padding behind the data does not count.
    let begin = x.mul(last, stride);
    let inside = x.lt(begin, start);
    x.add(last, inside)
}
