//! The inputs and outputs of ONNX test cases (`input_0.pb` and the like).

use std::path::Path;

use bytes::Bytes;

use super::decode::{Decoder, Fields};
use super::error::{Error, quote};
use super::external::{External, map_file};
use super::fields::{map, optional, sequence};
use super::model::Type;
use super::tensor::Tensor;
use super::wire::Message;

/// A value of a test case.
#[derive(Clone, Debug, PartialEq)]
pub enum TestValue {
    /// A tensor.
    Tensor(Tensor),
    /// A list.
    Sequence(Vec<TestValue>),
    /// A value or none.
    Optional(Option<Box<TestValue>>),
    /// A map; as many keys as values.
    Map {
        /// The keys, a vector of integers or strings.
        keys: Tensor,
        /// The values, in the order of the keys.
        values: Vec<TestValue>,
    },
}

impl TestValue {
    /// The name that the file gives a tensor, empty for anything else.
    pub fn name(&self) -> &str {
        match self {
            Self::Tensor(tensor) => &tensor.name,
            _ => "",
        }
    }
}

/// Reads the value in a file. The declared type says which message the file holds: these have no
/// mark of their own. Of an unknown type it is taken to be a tensor.
///
/// # Errors
/// If the file cannot be mapped or holds no such value.
pub fn read_value(path: &Path, ty: &Type) -> Result<TestValue, Error> {
    map_file(path)
        .map_err(|cause| Error::io("cannot open the file", cause))
        .and_then(|bytes| read_value_bytes(bytes, ty))
        .map_err(|error| error.within(quote(&path.to_string_lossy())))
}

/// Reads the value in these bytes; see [`read_value`].
///
/// # Errors
/// If the bytes hold no such value.
pub fn read_value_bytes(bytes: Bytes, ty: &Type) -> Result<TestValue, Error> {
    let mut decoder = Decoder::new(bytes, External::new(None));
    let whole = decoder.whole();
    match ty {
        Type::Unknown | Type::Tensor { .. } => decoder.tensor(&whole).map(TestValue::Tensor),
        Type::Sequence(_) => decoder.sequence(&whole).map(TestValue::Sequence),
        Type::Optional(_) => decoder.optional(&whole),
        Type::Map { .. } => decoder.map(&whole),
        Type::SparseTensor { .. } => Err(Error::unsupported("a sparse tensor as test data")),
        Type::Opaque => Err(Error::unsupported("an opaque value as test data")),
    }
}

/// How to read a value of one kind.
type Read = fn(&mut Decoder, &[u8]) -> Result<TestValue, Error>;

impl Decoder {
    fn value(&mut self, bytes: &[u8]) -> Result<TestValue, Error> {
        self.tensor(bytes).map(TestValue::Tensor)
    }

    fn inner(&mut self, bytes: &[u8]) -> Result<TestValue, Error> {
        self.sequence(bytes).map(TestValue::Sequence)
    }

    fn sequence(&mut self, bytes: &[u8]) -> Result<Vec<TestValue>, Error> {
        self.nested(|this| {
            let message = Message::new("SequenceProto", bytes);
            let fields = |number| Fields { message, number };
            let kind = fields(sequence::ELEM_TYPE).last()?.map_or(Ok(0), |field| field.int())?;
            match kind {
                0 => Ok(Vec::new()),
                1 => this.list(fields(sequence::TENSORS), Self::value),
                3 => this.list(fields(sequence::SEQUENCES), Self::inner),
                4 => this.list(fields(sequence::MAPS), Self::map),
                5 => this.list(fields(sequence::OPTIONALS), Self::optional),
                other => Err(Error::unsupported(format!("a sequence of elements of kind {other}"))),
            }
        })
    }

    fn optional(&mut self, bytes: &[u8]) -> Result<TestValue, Error> {
        self.nested(|this| {
            let message = Message::new("OptionalProto", bytes);
            let fields = |number| Fields { message, number };
            let kind = fields(optional::ELEM_TYPE).last()?.map_or(Ok(0), |field| field.int())?;
            let (number, read): (_, Read) = match kind {
                0 => return Ok(TestValue::Optional(None)),
                1 => (optional::TENSOR, Self::value),
                3 => (optional::SEQUENCE, Self::inner),
                4 => (optional::MAP, Self::map),
                5 => (optional::OPTIONAL, Self::optional),
                other => {
                    return Err(Error::unsupported(format!("an optional of kind {other}")));
                }
            };
            let value = match fields(number).last()? {
                Some(field) => Some(Box::new(read(this, field.bytes()?)?)),
                None => None,
            };
            Ok(TestValue::Optional(value))
        })
    }

    fn map(&mut self, bytes: &[u8]) -> Result<TestValue, Error> {
        self.nested(|this| {
            let message = Message::new("MapProto", bytes);
            let fields = |number| Fields { message, number };
            let values = this.sequence(fields(map::VALUES).only()?)?;
            let texts = fields(map::STRING_KEYS);
            let count = texts.count()?;
            let keys = if count > 0 {
                let mut list = this.meter().vec(count)?;
                texts.each(|field| {
                    list.push(this.share(field.bytes()?));
                    Ok(())
                })?;
                Tensor::from_strings("", vec![count as i64], list)?
            } else {
                let keys = this.ints(fields(map::KEYS))?;
                this.meter().charge(keys.len() as u64 * 16)?;
                Tensor::from_ints("", vec![keys.len() as i64], &keys)?
            };
            if keys.len() != values.len() as u64 {
                return Err(Error::malformed("a map with not as many keys as values"));
            }
            Ok(TestValue::Map { keys, values })
        })
    }
}
