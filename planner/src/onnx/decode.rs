//! From the bytes of a file to a [`Model`]: structure only, the rules of ONNX come in `check`.
//!
//! Each message is walked twice: first to count its repeated fields and to see that its structure is
//! sound, then to read them, so that every vector is allocated once, at its size, after the size was
//! charged. Fields that may come in any order but are needed to read others are read on the first
//! walk.

use bytes::Bytes;

use super::attribute::{Attribute, AttributeKind, Attributes};
use super::cost::Meter;
use super::elem::ElemType;
use super::error::{Error, ErrorKind, Problems, quote};
use super::external::External;
use super::fields::{
    attribute, dim, entry, function, graph, model, node, opset, shape, sparse, type_inner, type_map, type_proto,
    type_tensor, value_info,
};
use super::model::{Dim, Function, Graph, Model, Node, OpsetMap, Type, ValueInfo};
use super::tensor::{SparseTensor, Tensor};
use super::wire::{Field, Message};

/// How deep graphs and types may nest. Everything that walks them recursively relies on it.
const MAX_DEPTH: u32 = 32;

/// Reads messages, sharing the data of raw tensors with the bytes they come from.
pub(crate) struct Decoder {
    whole: Bytes,
    external: External,
    meter: Meter,
    depth: u32,
    /// Initialisers whose data cannot be had: all of them are told together.
    missing: Problems,
}

impl Decoder {
    pub(crate) fn new(whole: Bytes, external: External) -> Self {
        let meter = Meter::for_file(whole.len());
        Self { whole, external, meter, depth: 0, missing: Problems::default() }
    }

    /// All that was given, as one message.
    pub(crate) fn whole(&self) -> Bytes {
        self.whole.clone()
    }

    pub(crate) fn meter(&mut self) -> &mut Meter {
        &mut self.meter
    }

    pub(crate) fn external(&mut self) -> &mut External {
        &mut self.external
    }

    /// A part of the whole, shared.
    pub(crate) fn share(&self, part: &[u8]) -> Bytes {
        self.whole.slice_ref(part)
    }

    /// Goes one level deeper for messages that can contain their own kind.
    pub(crate) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.depth >= MAX_DEPTH {
            return Err(Error::unsupported(format!("graphs or types nested over {MAX_DEPTH} deep")));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    pub(crate) fn text(&mut self, field: &Field) -> Result<String, Error> {
        let text = field.text()?;
        self.meter.charge_text(text.len())?;
        Ok(text.to_owned())
    }

    pub(crate) fn model(mut self) -> Result<Model, Error> {
        let whole = self.whole();
        let message = Message::new("ModelProto", &whole);
        let [metadata, functions] = message.count([model::METADATA, model::FUNCTIONS])?;
        let mut result =
            Model { metadata: self.meter.vec(metadata)?, functions: self.meter.vec(functions)?, ..Model::default() };
        let (mut ir_version, mut producer_version, mut graph) = (None, String::new(), None);
        let mut fields = message;
        while let Some(field) = fields.next()? {
            match field.number {
                model::IR_VERSION => ir_version = Some(field.int()?),
                model::PRODUCER_NAME => result.producer = self.lossy(field.bytes()?)?,
                model::PRODUCER_VERSION => producer_version = self.lossy(field.bytes()?)?,
                model::DOMAIN => result.domain = self.lossy(field.bytes()?)?,
                model::MODEL_VERSION => result.model_version = field.int()?,
                model::GRAPH => {
                    let decoded = self.graph(field.bytes()?)?;
                    if graph.replace(decoded).is_some() {
                        return Err(Error::malformed("the model has two graphs"));
                    }
                }
                model::OPSET_IMPORT => self.opset(&mut result.opsets, field.bytes()?)?,
                model::METADATA => result.metadata.push(self.entry(field.bytes()?)?),
                model::FUNCTIONS => result.functions.push(self.function(field.bytes()?)?),
                _ => {}
            }
        }
        Error::collected(std::mem::take(&mut self.missing))?;
        result.ir_version =
            ir_version.ok_or_else(|| Error::malformed("no IR version").remedy("is this file an ONNX model?"))?;
        result.graph = graph.ok_or_else(|| Error::malformed("no graph").remedy("is this file an ONNX model?"))?;
        if !producer_version.is_empty() {
            result.producer = format!("{} {producer_version}", result.producer);
        }
        result.files = self.external.files();
        result.meter = self.meter;
        Ok(result)
    }

    /// A text that is only shown, never compared.
    fn lossy(&mut self, bytes: &[u8]) -> Result<String, Error> {
        self.meter.charge_text(bytes.len().saturating_mul(3))?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }

    fn opset(&mut self, opsets: &mut OpsetMap, bytes: &[u8]) -> Result<(), Error> {
        let (mut domain, mut version) = (String::new(), 0);
        let mut fields = Message::new("OperatorSetIdProto", bytes);
        while let Some(field) = fields.next()? {
            match field.number {
                opset::DOMAIN => domain = self.domain(&field)?,
                opset::VERSION => version = field.int()?,
                _ => {}
            }
        }
        self.meter.charge_text(0)?;
        match opsets.insert(domain, version) {
            Some(other) if other != version => {
                Err(Error::invalid(format!("an operator set is imported in two versions, {other} and {version}")))
            }
            _ => Ok(()),
        }
    }

    /// A domain, with the standard's long name made short.
    fn domain(&mut self, field: &Field) -> Result<String, Error> {
        let domain = self.text(field)?;
        Ok(if domain == "ai.onnx" { String::new() } else { domain })
    }

    fn entry(&mut self, bytes: &[u8]) -> Result<(String, String), Error> {
        let (mut key, mut value) = (String::new(), String::new());
        let mut fields = Message::new("StringStringEntryProto", bytes);
        while let Some(field) = fields.next()? {
            match field.number {
                entry::KEY => key = self.lossy(field.bytes()?)?,
                entry::VALUE => value = self.lossy(field.bytes()?)?,
                _ => {}
            }
        }
        Ok((key, value))
    }

    fn graph(&mut self, bytes: &[u8]) -> Result<Graph, Error> {
        self.nested(|this| this.graph_fields(bytes))
    }

    fn graph_fields(&mut self, bytes: &[u8]) -> Result<Graph, Error> {
        let message = Message::new("GraphProto", bytes);
        let [nodes, dense, sparse, inputs, outputs, infos] = message.count([
            graph::NODE,
            graph::INITIALIZER,
            graph::SPARSE_INITIALIZER,
            graph::INPUT,
            graph::OUTPUT,
            graph::VALUE_INFO,
        ])?;
        let mut result = Graph {
            name: String::new(),
            nodes: self.meter.vec(nodes)?,
            inputs: self.meter.vec(inputs)?,
            outputs: self.meter.vec(outputs)?,
            initializers: self.meter.vec(dense.saturating_add(sparse))?,
            value_infos: self.meter.vec(infos)?,
        };
        let mut fields = message;
        while let Some(field) = fields.next()? {
            match field.number {
                graph::NODE => result.nodes.push(self.node(field.bytes()?)?),
                graph::NAME => result.name = self.text(&field)?,
                graph::INITIALIZER => match self.tensor(field.bytes()?).map_err(|e| e.within("initializer")) {
                    Ok(tensor) => result.initializers.push(tensor),
                    Err(e) if e.kind() == ErrorKind::ExternalData => self.missing.push(e),
                    Err(e) => return Err(e),
                },
                graph::SPARSE_INITIALIZER => {
                    let sparse = self.sparse_tensor(field.bytes()?);
                    let dense = sparse.and_then(|sparse| self.dense(&sparse));
                    result.initializers.push(dense.map_err(|e| e.within("sparse initializer"))?);
                }
                graph::INPUT => result.inputs.push(self.value_info(field.bytes()?)?),
                graph::OUTPUT => result.outputs.push(self.value_info(field.bytes()?)?),
                graph::VALUE_INFO => result.value_infos.push(self.value_info(field.bytes()?)?),
                _ => {}
            }
        }
        Ok(result)
    }

    fn node(&mut self, bytes: &[u8]) -> Result<Node, Error> {
        let message = Message::new("NodeProto", bytes);
        let [inputs, outputs, attributes] = message.count([node::INPUT, node::OUTPUT, node::ATTRIBUTE])?;
        let mut result = Node { inputs: self.meter.vec(inputs)?, outputs: self.meter.vec(outputs)?, ..Node::default() };
        let mut fields = message;
        while let Some(field) = fields.next()? {
            match field.number {
                node::INPUT => result.inputs.push(self.text(&field)?),
                node::OUTPUT => result.outputs.push(self.text(&field)?),
                node::NAME => result.name = self.text(&field)?,
                node::OP_TYPE => result.op_type = self.text(&field)?,
                node::DOMAIN => result.domain = self.domain(&field)?,
                node::OVERLOAD => result.overload = self.text(&field)?,
                _ => {}
            }
        }
        result.attributes = self
            .attributes(message, node::ATTRIBUTE, attributes)
            .and_then(|attributes| self.constant_made_dense(&result, attributes))
            .map_err(|error| error.at_node(result.label()))?;
        Ok(result)
    }

    /// Sparse constants are made dense here, where the budget is known.
    fn constant_made_dense(&mut self, node: &Node, mut attributes: Attributes) -> Result<Attributes, Error> {
        let constant = node.op_type == "Constant" && node.domain.is_empty();
        if constant && let Some(Attribute::SparseTensor(sparse)) = attributes.get("sparse_value") {
            let value = Attribute::Tensor(Box::new(self.dense(sparse)?));
            attributes.remove("sparse_value");
            if attributes.insert("value".to_owned(), value).is_some() {
                return Err(Error::invalid("a constant has both value and sparse_value"));
            }
        }
        Ok(attributes)
    }

    /// The `count` attributes in the fields of this number.
    fn attributes(&mut self, mut message: Message, number: u32, count: usize) -> Result<Attributes, Error> {
        let mut list = self.meter.vec(count)?;
        while let Some(field) = message.next()? {
            if field.number == number {
                list.push(self.attribute(field.bytes()?)?);
            }
        }
        Attributes::from_unsorted(list)
    }

    fn attribute(&mut self, bytes: &[u8]) -> Result<(String, Attribute), Error> {
        let message = Message::new("AttributeProto", bytes);
        let (mut name, mut reference, mut number) = (String::new(), String::new(), 0);
        let mut fields = message;
        while let Some(field) = fields.next()? {
            match field.number {
                attribute::NAME => name = self.text(&field)?,
                attribute::REF_ATTR_NAME => reference = self.text(&field)?,
                attribute::TYPE => number = field.int32()?,
                _ => {}
            }
        }
        let place = |error: Error| error.within(format!("attribute {}", quote(&name)));
        let kind = attribute_kind(message, number).map_err(place)?;
        if !reference.is_empty() {
            return Ok((name, Attribute::Ref { name: reference, kind }));
        }
        let value = self.attribute_value(message, kind).map_err(place)?;
        Ok((name, value))
    }

    fn attribute_value(&mut self, message: Message, kind: AttributeKind) -> Result<Attribute, Error> {
        let fields = || Fields { message, number: kind.field() };
        Ok(match kind {
            // Writers of protobuf 3 leave out scalars that are zero.
            AttributeKind::Float => Attribute::Float(fields().last()?.map_or(Ok(0.0), |field| field.float())?),
            AttributeKind::Int => Attribute::Int(fields().last()?.map_or(Ok(0), |field| field.int())?),
            AttributeKind::String => {
                let text = fields().last()?.map_or(Ok([].as_slice()), |field| field.bytes())?;
                Attribute::String(self.share(text))
            }
            AttributeKind::Tensor => Attribute::Tensor(Box::new(self.tensor(fields().only()?)?)),
            AttributeKind::Graph => Attribute::Graph(Box::new(self.graph(fields().only()?)?)),
            AttributeKind::SparseTensor => Attribute::SparseTensor(Box::new(self.sparse_tensor(fields().only()?)?)),
            AttributeKind::Type => Attribute::Type(Box::new(self.type_proto(fields().only()?)?)),
            AttributeKind::Floats => Attribute::Floats(self.floats(fields())?),
            AttributeKind::Ints => Attribute::Ints(self.ints(fields())?),
            AttributeKind::Strings => {
                let mut list = self.meter.vec(fields().count()?)?;
                fields().each(|field| {
                    list.push(self.share(field.bytes()?));
                    Ok(())
                })?;
                Attribute::Strings(list)
            }
            AttributeKind::Tensors => Attribute::Tensors(self.list(fields(), Self::tensor)?),
            AttributeKind::Graphs => Attribute::Graphs(self.list(fields(), Self::graph)?),
            AttributeKind::SparseTensors => Attribute::SparseTensors(self.list(fields(), Self::sparse_tensor)?),
            AttributeKind::Types => Attribute::Types(self.list(fields(), Self::type_proto)?),
        })
    }

    /// Each message of a repeated field.
    pub(crate) fn list<T>(
        &mut self,
        fields: Fields,
        read: impl Fn(&mut Self, &[u8]) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let mut list = self.meter.vec(fields.count()?)?;
        fields.each(|field| {
            list.push(read(self, field.bytes()?)?);
            Ok(())
        })?;
        Ok(list)
    }

    fn floats(&mut self, fields: Fields) -> Result<Vec<f32>, Error> {
        let mut count = 0usize;
        fields.each(|field| {
            count += field.fixed::<4>()?.len() / 4;
            Ok(())
        })?;
        let mut list = self.meter.vec(count)?;
        fields.each(|field| {
            let (chunks, _) = field.fixed::<4>()?.as_chunks::<4>();
            list.extend(chunks.iter().map(|chunk| f32::from_le_bytes(*chunk)));
            Ok(())
        })?;
        Ok(list)
    }

    pub(crate) fn ints(&mut self, fields: Fields) -> Result<Vec<i64>, Error> {
        let mut count = 0usize;
        fields.each(|field| {
            count += field.int_count();
            Ok(())
        })?;
        let mut list = self.meter.vec(count)?;
        fields.each(|field| {
            field.each_int(|value| {
                list.push(value.cast_signed());
                Ok(())
            })
        })?;
        Ok(list)
    }

    pub(crate) fn sparse_tensor(&mut self, bytes: &[u8]) -> Result<SparseTensor, Error> {
        let message = Message::new("SparseTensorProto", bytes);
        let fields = |number| Fields { message, number };
        let values = self.tensor(fields(sparse::VALUES).only()?)?;
        let indices = self.tensor(fields(sparse::INDICES).only()?)?;
        let dims = self.ints(fields(sparse::DIMS))?;
        Ok(SparseTensor { values, indices, dims })
    }

    fn dense(&mut self, sparse: &SparseTensor) -> Result<Tensor, Error> {
        let size = sparse.dense_bytes()?;
        // Indices are written out as well, then positions, and the dims once more.
        let words = [sparse.indices.len(), sparse.values.len(), sparse.dims.len() as u64];
        let words = words.into_iter().fold(0, u64::saturating_add);
        self.meter.charge(size.saturating_add(words.saturating_mul(8)))?;
        sparse.to_dense(size)
    }

    fn function(&mut self, bytes: &[u8]) -> Result<Function, Error> {
        let message = Message::new("FunctionProto", bytes);
        let [inputs, outputs, attributes, defaults, nodes] = message.count([
            function::INPUT,
            function::OUTPUT,
            function::ATTRIBUTE,
            function::ATTRIBUTE_PROTO,
            function::NODE,
        ])?;
        let mut result = Function {
            inputs: self.meter.vec(inputs)?,
            outputs: self.meter.vec(outputs)?,
            attributes: self.meter.vec(attributes)?,
            nodes: self.meter.vec(nodes)?,
            ..Function::default()
        };
        let mut fields = message;
        while let Some(field) = fields.next()? {
            match field.number {
                function::NAME => result.name = self.text(&field)?,
                function::DOMAIN => result.domain = self.domain(&field)?,
                function::OVERLOAD => result.overload = self.text(&field)?,
                function::INPUT => result.inputs.push(self.text(&field)?),
                function::OUTPUT => result.outputs.push(self.text(&field)?),
                function::ATTRIBUTE => result.attributes.push(self.text(&field)?),
                function::OPSET_IMPORT => self.opset(&mut result.opsets, field.bytes()?)?,
                _ => {}
            }
        }
        self.function_body(message, defaults, &mut result).map_err(|error| error.within(result.label()))?;
        Ok(result)
    }

    fn function_body(&mut self, message: Message, defaults: usize, result: &mut Function) -> Result<(), Error> {
        result.defaults = self.attributes(message, function::ATTRIBUTE_PROTO, defaults)?;
        Fields { message, number: function::NODE }.each(|field| {
            result.nodes.push(self.node(field.bytes()?)?);
            Ok(())
        })
    }

    fn value_info(&mut self, bytes: &[u8]) -> Result<ValueInfo, Error> {
        let (mut name, mut ty) = (String::new(), Type::Unknown);
        let mut fields = Message::new("ValueInfoProto", bytes);
        while let Some(field) = fields.next()? {
            match field.number {
                value_info::NAME => name = self.text(&field)?,
                value_info::TYPE => ty = self.type_proto(field.bytes()?)?,
                _ => {}
            }
        }
        Ok(ValueInfo { name, ty })
    }

    pub(crate) fn type_proto(&mut self, bytes: &[u8]) -> Result<Type, Error> {
        self.nested(|this| {
            let mut ty = Type::Unknown;
            let mut fields = Message::new("TypeProto", bytes);
            while let Some(field) = fields.next()? {
                match field.number {
                    type_proto::TENSOR => ty = this.tensor_type(field.bytes()?, false)?,
                    type_proto::SPARSE_TENSOR => ty = this.tensor_type(field.bytes()?, true)?,
                    type_proto::SEQUENCE => {
                        ty = Type::Sequence(this.inner_type(field.bytes()?)?);
                    }
                    type_proto::OPTIONAL => {
                        ty = Type::Optional(this.inner_type(field.bytes()?)?);
                    }
                    type_proto::MAP => ty = this.map_type(field.bytes()?)?,
                    type_proto::OPAQUE => ty = Type::Opaque,
                    _ => {}
                }
            }
            Ok(ty)
        })
    }

    fn inner_type(&mut self, bytes: &[u8]) -> Result<Box<Type>, Error> {
        let fields =
            Fields { message: Message::new("TypeProto.Sequence or .Optional", bytes), number: type_inner::ELEM_TYPE };
        self.boxed_type(fields)
    }

    fn boxed_type(&mut self, fields: Fields) -> Result<Box<Type>, Error> {
        let ty = match fields.last()? {
            Some(field) => self.type_proto(field.bytes()?)?,
            None => Type::Unknown,
        };
        self.meter.charge_text(size_of::<Type>())?;
        Ok(Box::new(ty))
    }

    fn map_type(&mut self, bytes: &[u8]) -> Result<Type, Error> {
        let message = Message::new("TypeProto.Map", bytes);
        let key = Fields { message, number: type_map::KEY_TYPE }.last()?;
        let key = elem_type(key.map_or(Ok(0), |field| field.int())?)?
            .ok_or_else(|| Error::malformed("a map type has no key type"))?;
        let value = self.boxed_type(Fields { message, number: type_map::VALUE_TYPE })?;
        Ok(Type::Map { key, value })
    }

    fn tensor_type(&mut self, bytes: &[u8], sparse: bool) -> Result<Type, Error> {
        let (mut number, mut dims) = (0, None);
        let mut fields = Message::new("TypeProto.Tensor", bytes);
        while let Some(field) = fields.next()? {
            match field.number {
                type_tensor::ELEM_TYPE => number = field.int()?,
                type_tensor::SHAPE => {
                    let message = Message::new("TensorShapeProto", field.bytes()?);
                    let list = Fields { message, number: shape::DIM };
                    dims = Some(self.list(list, Self::dim)?);
                }
                _ => {}
            }
        }
        Ok(match elem_type(number)? {
            None => Type::Unknown,
            Some(dtype) if sparse => Type::SparseTensor { dtype, dims },
            Some(dtype) => Type::Tensor { dtype, dims },
        })
    }

    fn dim(&mut self, bytes: &[u8]) -> Result<Dim, Error> {
        let mut result = Dim::Free;
        let mut fields = Message::new("TensorShapeProto.Dimension", bytes);
        while let Some(field) = fields.next()? {
            match field.number {
                dim::VALUE => result = Dim::from_value(field.int()?),
                dim::PARAM => {
                    let param = field.text()?;
                    self.meter.charge_text(param.len())?;
                    result = Dim::from_param(param);
                }
                _ => {}
            }
        }
        Ok(result)
    }
}

/// The element type of this number; nothing for 0, which says that it is not known.
pub(crate) fn elem_type(number: i64) -> Result<Option<ElemType>, Error> {
    match ElemType::from_onnx(number) {
        None if number != 0 => Err(Error::unsupported(format!("the unknown element type {number}"))),
        known => Ok(known),
    }
}

/// The declared type of an attribute, or that of the one value it has: old files declare none.
fn attribute_kind(message: Message, number: i32) -> Result<AttributeKind, Error> {
    let counts = message.count(AttributeKind::FIELDS)?;
    let mut given = AttributeKind::ALL.iter().zip(counts).filter(|(_, count)| *count > 0);
    let (first, more) = (given.next().map(|(kind, _)| *kind), given.next().is_some());
    let declared = AttributeKind::from_onnx(number);
    match (declared, first) {
        (None, _) if number != 0 => Err(Error::unsupported(format!("the unknown attribute type {number}"))),
        (None, None) => Err(Error::malformed("neither a type nor a value")),
        _ if more => Err(Error::malformed("more than one value")),
        (Some(declared), Some(kind)) if declared != kind => {
            Err(Error::malformed(format!("declared as {}, but the value is of type {}", declared.name(), kind.name())))
        }
        (Some(kind), _) | (None, Some(kind)) => Ok(kind),
    }
}

/// The fields of one number in a message.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    pub(crate) message: Message<'a>,
    pub(crate) number: u32,
}

impl<'a> Fields<'a> {
    pub(crate) fn count(self) -> Result<usize, Error> {
        let [count] = self.message.count([self.number])?;
        Ok(count)
    }

    pub(crate) fn each(mut self, mut f: impl FnMut(Field<'a>) -> Result<(), Error>) -> Result<(), Error> {
        while let Some(field) = self.message.next()? {
            if field.number == self.number {
                f(field)?;
            }
        }
        Ok(())
    }

    /// The value that counts where a scalar is given several times.
    pub(crate) fn last(self) -> Result<Option<Field<'a>>, Error> {
        let mut last = None;
        self.each(|field| {
            last = Some(field);
            Ok(())
        })?;
        Ok(last)
    }

    /// The message of a field that must be there once.
    pub(crate) fn only(self) -> Result<&'a [u8], Error> {
        match (self.count()?, self.last()?) {
            (1, Some(field)) => field.bytes(),
            (count, _) => Err(Error::malformed(format!(
                "{count} values in field {} of {}, not one",
                self.number,
                self.message.name()
            ))),
        }
    }
}
