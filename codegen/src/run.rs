//! `run`: what is checked when a run begins, and the run itself.

use crate::{
    Error, Mode, WeightsIn,
    layout::Lines,
    model::Generator,
    names::quoted,
    operands::{Operands, rust_type, value},
};
use plan::{ExprId, SymbolId, SymbolKind};

impl Generator<'_> {
    /// The function that runs the model.
    pub(crate) fn run(&self, operands: &mut Operands, out: &mut Lines) -> Result<(), Error> {
        let inputs = Self::lifetime(&self.inputs, "Inputs");
        let argument = if self.inputs.is_empty() { "_" } else { "inputs" };
        let outputs = Self::lifetime(&self.outputs, "Outputs");
        match self.options.mode {
            Mode::Static => out.line("/// Runs the model. Allocates nothing."),
            Mode::Eager => {
                out.line("/// Runs the model. Each buffer is taken before the step that first needs it and given back after the step");
                out.line(
                    "/// that last does; outputs are held until the next run. A run that fails gives back everything.",
                );
            }
        }
        out.line("///");
        out.line("/// # Errors");
        out.line("/// When the inputs do not fit (then nothing was touched), or a step fails.");
        out.open(&format!("pub fn run(&mut self, {argument}: &{inputs}) -> Result<{outputs}, rt::Error> {{"));
        if self.exprs.is_dynamic() {
            out.line("let sizes = &mut self.sizes;");
            out.line("*sizes = Sizes::default();");
        }
        self.bind(out)?;
        self.exprs.emit_guards(out);
        let data: Vec<String> = self.inputs.iter().map(|(field, _, _)| format!("inputs.{field}.bytes()")).collect();
        out.line(&format!("let data: [&[u8]; {}] = [{}];", data.len(), data.join(", ")));
        let weights = match self.options.weights {
            WeightsIn::Binary => "&WEIGHTS.0",
            WeightsIn::File => "self.weights.as_ref().as_ref()",
        };
        out.line(&format!("let weights: &[u8] = {weights};"));
        let arguments = if self.exprs.is_dynamic() { "&mut frame, sizes" } else { "&mut frame" };
        match self.options.mode {
            Mode::Static => {
                out.line("let mut frame = Frame::new(self.arena.bytes_mut(), weights, &data, self.isa);");
                out.open(&format!("if let Err(fault) = block_0({arguments}) {{"));
                out.line("return Err(failed(frame.step(), fault));");
            }
            Mode::Eager => {
                let memory = "self.states.bytes_mut(), &mut self.heap";
                out.line(&format!("let mut frame = EagerFrame::new({memory}, weights, &data, self.isa);"));
                out.open(&format!("if let Err(fault) = block_0({arguments}) {{"));
                out.line("let error = failed(frame.step(), fault);");
                out.line("self.heap.clear();");
                out.line("return Err(error);");
            }
        }
        out.close("}");
        self.leave(operands, out)?;
        out.close("}");
        out.line("");
        Ok(())
    }

    /// The outputs of a run that has ended.
    fn leave(&self, operands: &mut Operands, out: &mut Lines) -> Result<(), Error> {
        if self.outputs.is_empty() {
            out.line("Ok(Outputs)");
            return Ok(());
        }
        let kept = self.places.kept();
        out.line(&format!("let {kept} = self.{kept}.bytes();"));
        let output = match self.options.mode {
            Mode::Static => "output",
            Mode::Eager => "held_output",
        };
        let heap = if self.options.mode == Mode::Eager { "&self.heap, " } else { "" };
        out.open("Ok(Outputs {");
        for (field, id, name) in &self.outputs {
            let place = operands.reference_for(self.context(), *id, name)?;
            out.line(&format!("{field}: rt::{output}({}, {heap}{kept}, weights, {place})?,", quoted(name)));
        }
        out.close("})");
        Ok(())
    }

    /// Reads the dims of the inputs, and checks them.
    fn bind(&self, out: &mut Lines) -> Result<(), Error> {
        let mut checks = Vec::new();
        let mut entries = Vec::new();
        for (i, (field, id, name)) in (0u32..).zip(&self.inputs) {
            let found = value(self.plan, *id)?;
            let mut places = Vec::with_capacity(found.dims.len());
            let mut known = Vec::with_capacity(found.dims.len());
            for (axis, dim) in (0u32..).zip(found.dims.iter()) {
                if let Some(extent) = self.exprs.constant(*dim) {
                    places.push(String::from("_"));
                    known.push(format!("Some({extent})"));
                    continue;
                }
                let variable = format!("{field}_{axis}");
                known.push(String::from("None"));
                if let Some(symbol) = self.bound_here(i, axis, *dim) {
                    entries.push(self.entry(symbol, &variable)?);
                } else {
                    let wanted = self.exprs.size(*dim);
                    checks.push(format!("rt::same({}, {axis}, {variable}, {wanted})?;", quoted(name)));
                    // A symbol may be bound at an axis whose extent is an expression of it.
                    if let Some(symbol) = self.symbol_at(i, axis) {
                        entries.push(self.entry(symbol, &variable)?);
                    }
                }
                places.push(variable);
            }
            let (_, raw) = rust_type(found.dtype);
            let known = known.join(", ");
            let call = if raw {
                format!("inputs.{field}.resolve_bytes({}, [{known}], DType::{:?})?;", quoted(name), found.dtype)
            } else {
                format!("inputs.{field}.resolve({}, [{known}])?;", quoted(name))
            };
            let unused = places.iter().all(|p| p == "_");
            out.line(&if unused { call } else { format!("let [{}] = {call}", places.join(", ")) });
        }
        entries.iter().for_each(|e| out.line(e));
        if self.exprs.has_entry() {
            out.line("sizes.enter();");
        }
        checks.iter().for_each(|c| out.line(c));
        Ok(())
    }

    /// The symbol that is bound at an axis of an input, whose extent it is.
    fn bound_here(&self, input: u32, axis: u32, dim: ExprId) -> Option<SymbolId> {
        let symbol = self.symbol_at(input, axis)?;
        match self.plan.exprs.get(dim.index()) {
            Some(plan::Expr::Symbol(s)) if *s == symbol => Some(symbol),
            _ => None,
        }
    }

    /// The symbol that is bound at an axis of an input.
    fn symbol_at(&self, input: u32, axis: u32) -> Option<SymbolId> {
        let here = SymbolKind::Input { input, axis };
        let found = self.plan.symbols.iter().position(|s| s.kind == here)?;
        u32::try_from(found).ok().map(SymbolId).filter(|s| self.exprs.is_kept(*s))
    }

    /// The line that binds a symbol.
    fn entry(&self, id: SymbolId, variable: &str) -> Result<String, Error> {
        let symbol = self.plan.symbols.get(id.index()).ok_or_else(|| Error::missing("symbol", id))?;
        let field = self.exprs.symbol(id);
        let (lo, hi, step) = (symbol.lo, symbol.hi, symbol.step.max(1));
        Ok(format!("sizes.{field} = rt::entry({}, {variable}, {lo}, {hi}, {step})?;", quoted(&symbol.name)))
    }

    /// The function that copies outputs to the caller.
    pub(crate) fn run_into(&self, out: &mut Lines) {
        if self.outputs.is_empty() {
            return;
        }
        let inputs = Self::lifetime(&self.inputs, "Inputs");
        out.line("/// Runs the model, and copies what it leaves to the caller's memory.");
        out.line("///");
        out.line("/// # Errors");
        out.line("/// As [`Model::run`]; also when a buffer has another length than its output.");
        out.open("pub fn run_into(");
        out.line("&mut self,");
        out.line(&format!("inputs: &{inputs},"));
        out.line("buffers: &mut Buffers<'_>,");
        out.turn(") -> Result<Outputs<'_>, rt::Error> {");
        out.line("let outputs = self.run(inputs)?;");
        for (field, _, name) in &self.outputs {
            out.line(&format!("rt::copy_into({}, buffers.{field}, outputs.{field}.data())?;", quoted(name)));
        }
        out.line("Ok(outputs)");
        out.close("}");
        out.line("");
    }
}
