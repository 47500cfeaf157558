//! Reading `TensorProto`: raw data is shared, data in typed fields becomes raw.

use bytes::Bytes;

use super::decode::{Decoder, Fields, elem_type};
use super::elem::ElemType;
use super::error::{Error, shape};
use super::external::Location;
use super::fields::{entry, tensor as field};
use super::tensor::{Tensor, TensorData, element_count};
use super::wire::Message;

/// The fields that can hold data, in the order of their numbers.
const DATA_FIELDS: [u32; 7] = [
    field::FLOAT_DATA,
    field::INT32_DATA,
    field::STRING_DATA,
    field::INT64_DATA,
    field::RAW_DATA,
    field::DOUBLE_DATA,
    field::UINT64_DATA,
];

/// Where a tensor's data is.
#[derive(Default)]
struct Source {
    external: bool,
    location: Location,
    /// The one field with data in it.
    number: Option<u32>,
}

impl Decoder {
    pub(crate) fn tensor(&mut self, bytes: &[u8]) -> Result<Tensor, Error> {
        let message = Message::new("TensorProto", bytes);
        let [_] = message.count([field::DIMS])?;
        let name = match (Fields { message, number: field::NAME }).last()? {
            Some(field) => self.text(&field)?,
            None => String::new(),
        };
        match self.tensor_parts(message) {
            Ok((dtype, dims, data)) => Ok(Tensor { name, dtype, dims, data }),
            Err(error) => Err(error.at_tensor(&name)),
        }
    }

    fn tensor_parts(&mut self, message: Message) -> Result<(ElemType, Vec<i64>, TensorData), Error> {
        let dims = self.ints(Fields { message, number: field::DIMS })?;
        let number = Fields { message, number: field::DATA_TYPE }.last()?;
        let number = number.map_or(Ok(0), |field| field.int())?;
        let dtype = elem_type(number)?.ok_or_else(|| Error::malformed("no element type"))?;
        let count = element_count(&dims)
            .ok_or_else(|| Error::invalid(format!("dims {} are negative or too large", shape(&dims))))?;
        let source = self.source(message)?;
        let data = if dtype == ElemType::String {
            TensorData::Strings(self.string_data(message, &source, count)?)
        } else {
            let size = dtype
                .packed_bytes(count)
                .ok_or_else(|| Error::invalid(format!("dims {} of {dtype} are too large", shape(&dims))))?;
            TensorData::Bytes(
                self.packed_data(message, &source, dtype, count, size)
                    .map_err(|error| error.within(format!("{dtype} data for dims {}", shape(&dims))))?,
            )
        };
        Ok((dtype, dims, data))
    }

    /// Finds the data, and refuses data in two places.
    fn source(&mut self, mut message: Message) -> Result<Source, Error> {
        let mut source = Source::default();
        while let Some(field) = message.next()? {
            match field.number {
                field::SEGMENT => {
                    return Err(Error::unsupported("a tensor in segments"));
                }
                field::DATA_LOCATION => source.external = field.int()? == 1,
                field::EXTERNAL_DATA => self.location(&mut source.location, field.bytes()?)?,
                number if DATA_FIELDS.contains(&number) => {
                    // An empty field of packed numbers is no data; an empty string is one.
                    if field.is_empty() && number != field::STRING_DATA {
                        continue;
                    }
                    if source.number.is_some_and(|other| other != number) {
                        return Err(Error::malformed("a tensor with data in two fields"));
                    }
                    source.number = Some(number);
                }
                _ => {}
            }
        }
        if source.external && source.number.is_some() {
            return Err(Error::malformed("a tensor with both inner and external data"));
        }
        Ok(source)
    }

    fn location(&mut self, location: &mut Location, bytes: &[u8]) -> Result<(), Error> {
        let (mut key, mut value) = (String::new(), String::new());
        let mut fields = Message::new("StringStringEntryProto", bytes);
        while let Some(field) = fields.next()? {
            match field.number {
                entry::KEY => key = self.text(&field)?,
                entry::VALUE => value = self.text(&field)?,
                _ => {}
            }
        }
        match key.as_str() {
            "location" => location.file = Some(value),
            "offset" => location.offset = Some(value),
            "length" => location.length = Some(value),
            _ => {}
        }
        Ok(())
    }

    fn string_data(&mut self, message: Message, source: &Source, count: u64) -> Result<Vec<Bytes>, Error> {
        let misplaced = source.number.is_some_and(|number| number != field::STRING_DATA);
        if source.external || misplaced {
            return Err(Error::malformed("strings that are not in string_data"));
        }
        let fields = Fields { message, number: field::STRING_DATA };
        let found = fields.count()?;
        if found as u64 != count {
            return Err(Error::invalid(format!("{found} strings where the dims ask for {count}")));
        }
        let mut list = self.meter().vec(found)?;
        fields.each(|field| {
            list.push(self.share(field.bytes()?));
            Ok(())
        })?;
        Ok(list)
    }

    fn packed_data(
        &mut self,
        message: Message,
        source: &Source,
        dtype: ElemType,
        count: u64,
        size: u64,
    ) -> Result<Bytes, Error> {
        let bytes = match source.number {
            _ if source.external => self.external().bytes(&source.location, size)?,
            None => Bytes::new(),
            Some(number) => {
                let fields = Fields { message, number };
                match (number, typed_field(dtype)) {
                    (field::RAW_DATA, _) => self.share(fields.only()?),
                    (number, Some(typed)) if number == typed => match number {
                        field::FLOAT_DATA => self.float_data::<4>(fields, size)?,
                        field::DOUBLE_DATA => self.float_data::<8>(fields, size)?,
                        _ => self.int_data(fields, dtype, count, size)?.into(),
                    },
                    _ => {
                        return Err(Error::malformed(format!(
                            "the data is in field {number}, which is for another type"
                        )));
                    }
                }
            }
        };
        if bytes.len() as u64 != size {
            return Err(Error::invalid(format!("{} bytes where {size} are needed", bytes.len())));
        }
        self.normalised(dtype, bytes)
    }

    /// Packed floats have the layout of raw data and are shared; others are gathered.
    fn float_data<const N: usize>(&mut self, fields: Fields, size: u64) -> Result<Bytes, Error> {
        if fields.count()? == 1 {
            let packed = fields.last()?.and_then(|field| field.packed());
            if let Some(packed) = packed {
                return Ok(self.share(packed));
            }
        }
        let mut length = 0u64;
        fields.each(|field| {
            length += field.fixed::<N>()?.len() as u64;
            Ok(())
        })?;
        if length != size {
            return Err(Error::invalid(format!("{length} bytes where {size} are needed")));
        }
        let mut data = self.meter().vec::<u8>(length as usize)?;
        fields.each(|field| {
            data.extend_from_slice(field.fixed::<N>()?);
            Ok(())
        })?;
        Ok(data.into())
    }

    /// Integers of variable length become elements of fixed size.
    fn int_data(&mut self, fields: Fields, dtype: ElemType, count: u64, size: u64) -> Result<Vec<u8>, Error> {
        let bits = dtype.bits().unwrap_or(8);
        // Elements smaller than a byte come packed, except those of 6 bits.
        let (values, width) = match bits {
            2 | 4 => (size, 1),
            6 => (count, 1),
            _ => (count, bits as usize / 8),
        };
        let mut found = 0u64;
        fields.each(|field| {
            found += field.int_count() as u64;
            Ok(())
        })?;
        if found != values {
            return Err(Error::invalid(format!("{found} numbers where {values} are needed")));
        }
        let length = usize::try_from(values).ok().and_then(|n| n.checked_mul(width));
        let length = length.ok_or_else(|| Error::invalid("too many numbers"))?;
        let mut data = self.meter().vec::<u8>(length)?;
        fields.each(|field| {
            field.each_int(|value| {
                data.extend(value.to_le_bytes().iter().take(width));
                Ok(())
            })
        })?;
        Ok(if bits == 6 { pack_six(&data) } else { data })
    }

    /// Booleans other than 0 and 1 become 1, so that every reader may rely on it.
    fn normalised(&mut self, dtype: ElemType, bytes: Bytes) -> Result<Bytes, Error> {
        if dtype != ElemType::Bool || bytes.iter().all(|byte| *byte <= 1) {
            return Ok(bytes);
        }
        self.meter().charge(bytes.len() as u64)?;
        Ok(bytes.iter().map(|byte| u8::from(*byte != 0)).collect::<Vec<u8>>().into())
    }
}

/// The field for data of this type that is not raw.
fn typed_field(dtype: ElemType) -> Option<u32> {
    Some(match dtype {
        ElemType::Float32 | ElemType::Complex64 => field::FLOAT_DATA,
        ElemType::Float64 | ElemType::Complex128 => field::DOUBLE_DATA,
        ElemType::Int64 => field::INT64_DATA,
        ElemType::UInt32 | ElemType::UInt64 => field::UINT64_DATA,
        ElemType::String => return None,
        _ => field::INT32_DATA,
    })
}

/// Packs numbers of 6 bits, four in three bytes, the first in the lowest bits.
fn pack_six(values: &[u8]) -> Vec<u8> {
    let mut packed = Vec::with_capacity((values.len() * 6).div_ceil(8));
    for group in values.chunks(4) {
        let bits = group.iter().rev().fold(0u32, |bits, value| bits << 6 | u32::from(value & 0x3f));
        let bytes = (group.len() * 6).div_ceil(8);
        packed.extend(bits.to_le_bytes().iter().take(bytes));
    }
    packed
}
