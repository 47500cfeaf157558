//! Writing elementwise programs: registers with types instead of bare numbers.

use crate::graph::{Builder, Problem, V, constant_bits};
use plan::{DType, prim::*};

/// A register of a [`Program`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Reg {
    at: u8,
    dtype: DType,
}

impl Reg {
    /// The type of what it holds.
    pub(super) fn dtype(self) -> DType {
        self.dtype
    }
}

/// An elementwise program under construction.
#[derive(Debug)]
pub(super) struct Program {
    operands: Vec<V>,
    next: u8,
    code: Vec<MapInstr>,
}

impl Program {
    /// An empty program over operands; gives their registers too.
    pub(super) fn new<const K: usize>(b: &Builder, operands: [V; K]) -> (Program, [Reg; K]) {
        let regs =
            std::array::from_fn(|i| Reg { at: i as u8, dtype: operands.get(i).map_or(DType::F32, |v| b.dtype(*v)) });
        (Program { operands: operands.to_vec(), next: K as u8, code: Vec::new() }, regs)
    }

    fn push(&mut self, op: MapOp, dtype: DType, out: DType, args: [u8; 3], bits: u64) -> Reg {
        self.code.push(MapInstr { op, dtype, out, args, bits });
        let at = self.next;
        self.next = self.next.saturating_add(1);
        Reg { at, dtype: out }
    }

    /// A constant.
    pub(super) fn constant(&mut self, dtype: DType, value: f64) -> Result<Reg, Problem> {
        Ok(self.push(MapOp::Const, dtype, dtype, [0; 3], constant_bits(dtype, value)?))
    }

    /// An operation on one register.
    pub(super) fn one(&mut self, op: MapOp, a: Reg) -> Reg {
        let out = if matches!(op, MapOp::IsNan | MapOp::IsPosInf | MapOp::IsNegInf) { DType::Bool } else { a.dtype };
        self.push(op, a.dtype, out, [a.at, 0, 0], 0)
    }

    /// An operation on two registers of one type.
    pub(super) fn two(&mut self, op: MapOp, a: Reg, b: Reg) -> Reg {
        let out = if matches!(op, MapOp::Eq | MapOp::Lt | MapOp::Le) { DType::Bool } else { a.dtype };
        self.push(op, a.dtype, out, [a.at, b.at, 0], 0)
    }

    /// An operation on a register and a constant of its type on the right.
    pub(super) fn with(&mut self, op: MapOp, a: Reg, b: f64) -> Result<Reg, Problem> {
        let b = self.constant(a.dtype, b)?;
        Ok(self.two(op, a, b))
    }

    /// `b` where `a` else `c`.
    pub(super) fn select(&mut self, a: Reg, b: Reg, c: Reg) -> Reg {
        self.push(MapOp::Select, b.dtype, b.dtype, [a.at, b.at, c.at], 0)
    }

    /// Converted; the register itself where it has the type.
    pub(super) fn cast(&mut self, a: Reg, to: DType) -> Reg {
        if a.dtype == to { a } else { self.cast_as(MapOp::Cast, a, to) }
    }

    /// Converted in one of the three ways.
    pub(super) fn cast_as(&mut self, op: MapOp, a: Reg, to: DType) -> Reg {
        self.push(op, a.dtype, to, [a.at, 0, 0], 0)
    }

    /// Adds the program to the graph; its result is that of the last instruction.
    pub(super) fn finish(self, b: &mut Builder) -> Result<V, Problem> {
        let out = self.code.last().map(|i| i.out);
        match (out, self.operands.first()) {
            (Some(out), _) => b.map_program(&self.code, &self.operands, out),
            (None, Some(v)) => Ok(*v),
            (None, None) => Err(Problem::new("an elementwise program of nothing")),
        }
    }
}

/// A program of one operand: `f` writes it, starting from the operand's register.
pub(super) fn unary_program(
    b: &mut Builder,
    v: V,
    f: impl FnOnce(&mut Program, Reg) -> Result<Reg, Problem>,
) -> Result<V, Problem> {
    let (mut p, [x]) = Program::new(b, [v]);
    f(&mut p, x)?;
    p.finish(b)
}
