//! Constant weights are stored as their kernels read them.

use super::{Changed, Context, rewrite};
use crate::graph::{Builder, Graph, N, Op, Problem, V};
use plan::{DType, ExprId, Primitive, prim::*};
use std::collections::BTreeMap;

pub(super) fn run(graph: &mut Graph, _: &mut Context) -> Changed {
    let mut changed = Changed::No;
    // Weights that several nodes read are packed once.
    let mut packed = Packed::new();
    let mut replaced = BTreeMap::new();
    rewrite::each_node(graph, |graph, n| {
        let done = match &graph.node(n).op {
            Op::Prim(Primitive::MatMul(m)) if m.b == MatLayout::Plain => {
                matmul(graph, n, *m, &mut packed, &mut replaced)
            }
            Op::Prim(Primitive::Conv(c)) if c.weights == ConvLayout::Plain => conv(graph, n, *c, &mut packed),
            Op::Prim(Primitive::Rnn(r)) if r.weights == RnnLayout::Plain => rnn(graph, n, *r, &mut packed),
            _ => None,
        };
        if done.is_some() {
            changed = Changed::Yes;
        }
        done.unwrap_or_default()
    });
    graph.substitute(&replaced);
    changed
}

/// Packed weights by the address of their data and the way of packing: views of the same data are the same weights.
type Packed = BTreeMap<(usize, String), V>;

/// Constant `f32` weights, packed once.
fn pack(b: &mut Builder, packed: &mut Packed, v: V, kind: PackKind, dims: &[ExprId]) -> Result<V, Problem> {
    let address = b.graph.constant_of(v).map_or(0, |data| data.as_ptr() as usize);
    let key = (address, format!("{kind:?} {:?}", b.dims(v)));
    if let Some(done) = packed.get(&key) {
        return Ok(*done);
    }
    let name = b.graph.value(v).name.clone();
    let out = b.emit1(Prepack { kind }, &[Some(v)], DType::F32, dims)?;
    if !b.is_const(out) {
        return Err(Problem::new("weights that cannot be packed while planning"));
    }
    b.name(out, &name);
    packed.insert(key, out);
    Ok(out)
}

fn is_f32_const(graph: &Graph, v: V) -> bool {
    graph.constant_of(v).is_some() && graph.value(v).dtype == DType::F32
}

fn panels(b: &mut Builder, n: ExprId) -> ExprId {
    let sixteen = b.int(16);
    b.exprs().ceil_div(n, sixteen)
}

/// The constant matrix that a product in f32 has on its right for every batch.
pub(super) fn constant_matrix(graph: &Graph, n: N) -> Option<V> {
    let base = graph.behind_broadcast(graph.read(n, 1)?);
    let one_matrix = graph.static_dims(base).is_some_and(|dims| match dims.as_slice() {
        [lead @ .., _, _] => lead.iter().all(|d| *d == 1),
        _ => false,
    });
    let f32s = is_f32_const(graph, base) && graph.value(graph.read(n, 0)?).dtype == DType::F32;
    (f32s && one_matrix && graph.node(n).reads.len() <= 4).then_some(base)
}

/// `a · b` with a constant matrix `b`: all rows of all batches at once, over panels.
fn matmul(graph: &mut Graph, n: N, m: MatMul, packed: &mut Packed, replaced: &mut BTreeMap<V, V>) -> Option<Vec<N>> {
    let base = constant_matrix(graph, n)?;
    let (a, out, node) = (graph.read(n, 0)?, graph.write(n, 0)?, graph.node(n).clone());
    let name = node.name.clone();
    let out_name = graph.value(out).name.clone();
    let (made, nodes) = rewrite::build(graph, &name, |b| {
        let (da, db, dout) = (b.dims(a), b.dims(base), b.dims(out));
        let ([lead @ .., k], [.., rows, cols]) = (da.as_slice(), db.as_slice()) else {
            return Err(Problem::new("no matrix"));
        };
        let (k, rows, cols) = (*k, *rows, *cols);
        let base = b.reshape(base, &[rows, cols])?;
        let strips = panels(b, cols);
        let sixteen = b.int(16);
        let weights = pack(b, packed, base, PackKind::MatPanels16, &[strips, k, sixteen])?;
        let rows = b.exprs().product(lead.iter().copied());
        let flat_a = b.reshape(a, &[rows, k])?;
        let flat_dims = [rows, cols];
        let mut reads = vec![Some(flat_a), Some(weights)];
        for i in 2..node.reads.len() {
            reads.push(match node.reads.get(i).copied().flatten() {
                None => None,
                Some(v) if i == 2 => {
                    let behind = b.graph.behind_views(v);
                    let vector = b.reshape_or_spread(behind, cols)?;
                    Some(b.broadcast(vector, &flat_dims)?)
                }
                Some(v) => Some(b.reshape(v, &flat_dims)?),
            });
        }
        let prim = MatMul { activation: m.activation, b: MatLayout::Panels16 };
        let product = b.push_prim(prim, &reads, DType::F32, &flat_dims)?;
        b.name(product, &out_name);
        let shaped = b.reshape(product, &dout)?;
        b.name(shaped, &out_name);
        Ok((product, shaped))
    });
    let (product, shaped) = made.ok()?;
    graph.succeed(n, graph.producer_of(product)?.0);
    replaced.insert(out, shaped);
    Some(nodes)
}

/// The layout in which a convolution's constant weights are stored, and their dims in it; none where they stay as they are.
pub(super) fn conv_weights(graph: &Graph, n: N, c: &Conv<ExprId>) -> Option<(ConvLayout, PackKind, Vec<i64>)> {
    let (x, w) = (graph.read(n, 0)?, graph.read(n, 1)?);
    if !is_f32_const(graph, w) || graph.value(x).dtype != DType::F32 {
        return None;
    }
    let dims = graph.static_dims(w)?;
    let (m, per_group) = (*dims.first()?, *dims.get(1)?);
    let taps = dims.iter().skip(2).try_fold(1usize, |n, d| n.checked_mul(*d))?;
    let depth = per_group.checked_mul(taps)?;
    if per_group == 1 && m == c.group as usize && c.group > 1 {
        // Depthwise kernels over channels-first data read the weights as they are.
        let strips = vec![m.div_ceil(16) as i64, taps as i64, 16];
        let packed = c.data == DataLayout::ChannelsLast;
        return packed.then_some((ConvLayout::Depthwise16, PackKind::ConvDepthwise16, strips));
    }
    if suits_winograd(graph, n, c, &dims) {
        let strips = vec![36, m.div_ceil(16) as i64, per_group as i64, 16];
        return Some((ConvLayout::Winograd4, PackKind::ConvWinograd4, strips));
    }
    let group = c.group.max(1) as usize;
    let strips = vec![group as i64, (m / group).div_ceil(16) as i64, depth as i64, 16];
    Some((ConvLayout::Panels16, PackKind::ConvPanels16 { group: c.group }, strips))
}

fn conv(graph: &mut Graph, n: N, c: Conv<ExprId>, packed: &mut Packed) -> Option<Vec<N>> {
    let (layout, kind, strips) = conv_weights(graph, n, &c)?;
    let w = graph.read(n, 1)?;
    let name = graph.node(n).name.clone();
    let (made, nodes) = rewrite::build(graph, &name, |b| {
        let strips = b.ints(&strips);
        pack(b, packed, w, kind, &strips)
    });
    let weights = made.ok()?;
    let mut reads = graph.node(n).reads.clone();
    *reads.get_mut(1)? = Some(weights);
    graph.replace(n, Op::Prim(Conv { weights: layout, ..c }.into()), reads, &[]);
    Some(nodes)
}

/// Whether transformed weights repay their fourfold size: 3×3 windows with stride 1 over images that are large for their channels.
fn suits_winograd(graph: &Graph, n: N, c: &Conv<ExprId>, weights: &[usize]) -> bool {
    /// Fewer products than this cost less than the transforms.
    const FEW: usize = 256;
    /// Products of channels for each tile of 4×4 pixels up to which reading the weights stays cheap beside the work.
    const PER_TILE: usize = 512;
    let &[m, channels, 3, 3] = weights else { return false };
    let simple = c.group == 1
        && c.data == DataLayout::ChannelsFirst
        && c.strides.iter().chain(c.dilations.iter()).all(|s| *s == 1);
    let Some(out) = graph.write(n, 0) else { return false };
    let largest = |dim: &ExprId| usize::try_from(graph.exprs.range(*dim).1).unwrap_or(0);
    let [_, _, height, width] = graph.value(out).dims.as_slice() else { return false };
    let tiles = (largest(height) / 4).saturating_mul(largest(width) / 4);
    let products = m.saturating_mul(channels);
    simple && products >= FEW && products <= tiles.saturating_mul(PER_TILE)
}

/// The constant weights of a recurrent layer in f32: of the data and of the state.
pub(super) fn recurrent_weights(graph: &Graph, n: N) -> Option<(V, V)> {
    let (x, w, r) = (graph.read(n, 0)?, graph.read(n, 1)?, graph.read(n, 2)?);
    let f32s = is_f32_const(graph, w) && is_f32_const(graph, r) && graph.value(x).dtype == DType::F32;
    f32s.then_some((w, r))
}

fn rnn(graph: &mut Graph, n: N, r: Rnn, packed: &mut Packed) -> Option<Vec<N>> {
    let (w, rec) = recurrent_weights(graph, n)?;
    let name = graph.node(n).name.clone();
    let (made, nodes) = rewrite::build(graph, &name, |b| {
        let mut out = Vec::new();
        for v in [w, rec] {
            let d = b.dims(v);
            let [direction, rows, k] = d.as_slice() else { return Err(Problem::new("weights of another rank")) };
            let (direction, k) = (*direction, *k);
            let strips = panels(b, *rows);
            let sixteen = b.int(16);
            out.push(pack(b, packed, v, PackKind::RnnPanels16, &[direction, strips, k, sixteen])?);
        }
        Ok(out)
    });
    let made = made.ok()?;
    let mut reads = graph.node(n).reads.clone();
    for (i, v) in made.into_iter().enumerate() {
        *reads.get_mut(i + 1)? = Some(v);
    }
    graph.replace(n, Op::Prim(Rnn { weights: RnnLayout::Panels16, ..r }.into()), reads, &[]);
    Some(nodes)
}
