//! Elementwise nodes become one: a node takes in the elementwise nodes whose results only it reads.
//!
//! A program holds 16-bit floats as f32. What is taken in rounds to its type all the same, as it would have when its result was
//! stored: operators give the same bits whether they are fused or not.

use super::{Changed, Context, rewrite};
use crate::graph::{Graph, N, Op, V};
use plan::{DType, List, Primitive, prim::*};

/// More operands than this are not worth one loop.
const MAX_OPERANDS: usize = 8;

pub(super) fn run(graph: &mut Graph, _: &mut Context) -> Changed {
    let blocks = rewrite::blocks_of_nodes(graph);
    let uses = rewrite::use_counts(graph);
    let mut changed = Changed::No;
    rewrite::each_node(graph, |graph, n| {
        let alone = |graph: &Graph, v: V| -> Option<N> {
            let (m, prim) = graph.prim_of(v)?;
            let same = graph.write(n, 0).is_some_and(|w| graph.value(w).dims == graph.value(v).dims);
            (matches!(prim, Primitive::Map(_))
                && same
                && uses.get(v.index()) == Some(&1)
                && blocks.get(&m) == blocks.get(&n))
            .then_some(m)
        };
        if let Some((code, reads, taken)) = flatten(graph, n, &alone)
            && let Some(code) = List::from_slice(&code)
        {
            let op = Op::Prim(Map { code }.into());
            if graph.node(n).op != op {
                graph.replace(n, op, reads.into_iter().map(Some).collect(), &taken);
                changed = Changed::Yes;
            }
        }
        Vec::new()
    });
    changed
}

/// A value inside a program: an operand or the result of an instruction.
#[derive(Clone, Copy)]
enum Slot {
    Operand(usize),
    Result(usize),
}

/// A program, its operands, and the nodes that it has taken in.
type Flat = (Vec<MapInstr>, Vec<V>, Vec<N>);

/// The program of a node with what it takes in. None where nothing changes or it would be too long.
fn flatten(graph: &Graph, n: N, alone: &dyn Fn(&Graph, V) -> Option<N>) -> Option<Flat> {
    let Op::Prim(Primitive::Map(own)) = &graph.node(n).op else { return None };
    let mut program = Program { graph, code: Vec::new(), slots: Vec::new(), operands: Vec::new() };
    let (mut registers, mut taken) = (Vec::new(), Vec::new());
    for r in &graph.node(n).reads {
        let v = (*r)?;
        // Taken in as far as there is room; the rest stays an operand.
        let mark = (program.code.len(), program.operands.len());
        let inner = alone(graph, v).and_then(|m| Some((m, program.take_in(m)?)));
        registers.push(match inner {
            Some((m, slot)) if program.code.len() + own.code.len() <= 32 && program.operands.len() <= MAX_OPERANDS => {
                taken.push(m);
                slot
            }
            _ => {
                program.code.truncate(mark.0);
                program.slots.truncate(mark.0);
                program.operands.truncate(mark.1);
                program.operand(v)
            }
        });
    }
    program.append(own, registers)?;
    let (code, reads) = program.finish()?;
    Some((code, reads, taken))
}

struct Program<'g> {
    graph: &'g Graph,
    code: Vec<MapInstr>,
    /// Arguments of each instruction.
    slots: Vec<[Option<Slot>; 3]>,
    operands: Vec<V>,
}

impl Program<'_> {
    /// A value as an operand, or as a constant where it is one number.
    fn operand(&mut self, v: V) -> Slot {
        let dtype = self.graph.value(v).dtype;
        if let Some(bits) = self.graph.splat_bits(v) {
            let constant = MapInstr { op: MapOp::Const, dtype, out: dtype, args: [0; 3], bits };
            let known = self.code.iter().position(|i| *i == constant);
            return Slot::Result(known.unwrap_or_else(|| {
                self.code.push(constant);
                self.slots.push([None; 3]);
                self.code.len() - 1
            }));
        }
        let known = self.operands.iter().position(|o| *o == v);
        Slot::Operand(known.unwrap_or_else(|| {
            self.operands.push(v);
            self.operands.len() - 1
        }))
    }

    fn take_in(&mut self, m: N) -> Option<Slot> {
        let Op::Prim(Primitive::Map(map)) = &self.graph.node(m).op else { return None };
        let mut registers = Vec::new();
        for r in &self.graph.node(m).reads {
            registers.push(self.operand((*r)?));
        }
        let slot = self.append(map, registers)?;
        let Some(dtype) = rounds(map, self.graph.node(m).reads.len()) else { return Some(slot) };
        self.code.push(MapInstr::new(MapOp::Cast, dtype, dtype, [0; 3], 0));
        self.slots.push([Some(slot), None, None]);
        Some(Slot::Result(self.code.len() - 1))
    }

    /// Appends a program whose operands are in `registers`; where its result is.
    fn append(&mut self, map: &Map, mut registers: Vec<Slot>) -> Option<Slot> {
        for i in map.code.iter() {
            let mut slots = [None; 3];
            for (slot, arg) in slots.iter_mut().zip(i.args).take(i.op.arity()) {
                *slot = Some(*registers.get(arg as usize)?);
            }
            self.code.push(MapInstr { args: [0; 3], ..*i });
            self.slots.push(slots);
            registers.push(Slot::Result(self.code.len() - 1));
        }
        registers.last().copied()
    }

    /// With register numbers, now that the number of operands is known.
    fn finish(mut self) -> Option<(Vec<MapInstr>, Vec<V>)> {
        let base = self.operands.len();
        for (i, slots) in self.code.iter_mut().zip(&self.slots) {
            for (arg, slot) in i.args.iter_mut().zip(slots) {
                *arg = match slot {
                    None => 0,
                    Some(Slot::Operand(o)) => u8::try_from(*o).ok()?,
                    Some(Slot::Result(r)) => u8::try_from(base + r).ok()?,
                };
            }
        }
        Some((self.code, self.operands))
    }
}

/// The type that the result of a program of so many operands has to be rounded to when it stays in a register; none where that
/// changes nothing.
fn rounds(map: &Map, operands: usize) -> Option<DType> {
    let wider = |dtype: DType| dtype.is_float() && !matches!(dtype, DType::F32 | DType::F64);
    // Of each register, whether it may have more places than its type.
    let mut more = vec![false; operands];
    for i in map.code.iter() {
        let exact = match i.op {
            MapOp::Const | MapOp::Cast | MapOp::CastSaturate | MapOp::CastNoSaturate => true,
            // One of its arguments, or as exact as it.
            MapOp::Select | MapOp::Neg | MapOp::Abs | MapOp::Relu | MapOp::Min | MapOp::Max | MapOp::Clip => {
                i.args.iter().take(i.op.arity()).all(|a| more.get(usize::from(*a)) == Some(&false))
            }
            _ => false,
        };
        more.push(wider(i.out) && !exact);
    }
    map.code.last().map(|i| i.out).filter(|_| more.last() == Some(&true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Builder;

    /// The operations of `relu(-(x * y) + y)`, fused.
    fn fused(dtype: DType) -> Vec<MapOp> {
        let mut b = Builder::new("test");
        let four = b.int(4);
        let [x, y] = ["x", "y"].map(|name| b.input(name, dtype, &[four]).unwrap());
        let product = b.binary(MapOp::Mul, x, y).unwrap();
        let negative = b.unary(MapOp::Neg, product).unwrap();
        let sum = b.binary(MapOp::Add, negative, y).unwrap();
        let out = b.unary(MapOp::Relu, sum).unwrap();
        let mut graph = b.graph;
        assert_eq!(run(&mut graph, &mut Context::default()), Changed::Yes);
        let made_by = graph.prim_of(out).unwrap().0;
        let Op::Prim(Primitive::Map(map)) = &graph.node(made_by).op else { panic!("no program") };
        map.code.iter().map(|i| i.op).collect()
    }

    #[test]
    fn sixteen_bits_round_after_each_operator() {
        assert_eq!(fused(DType::F32), [MapOp::Mul, MapOp::Neg, MapOp::Add, MapOp::Relu]);
        for dtype in [DType::F16, DType::BF16] {
            let wanted = [MapOp::Mul, MapOp::Cast, MapOp::Neg, MapOp::Add, MapOp::Cast, MapOp::Relu];
            assert_eq!(fused(dtype), wanted);
        }
    }
}
