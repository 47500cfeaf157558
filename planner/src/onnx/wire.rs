//! The protobuf wire format, read in place: no message is built that nobody asked for.

use super::error::Error;

/// The value of one field as the wire has it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(&'a [u8]),
    Fixed32([u8; 4]),
}

/// One field of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) number: u32,
    value: Value<'a>,
    message: &'static str,
}

/// Walks the fields of a message in the order of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    name: &'static str,
    rest: &'a [u8],
}

impl<'a> Message<'a> {
    pub(crate) fn new(name: &'static str, bytes: &'a [u8]) -> Self {
        Self { name, rest: bytes }
    }

    /// What messages call it.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// The next field, or nothing at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Field<'a>>, Error> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).unwrap_or(0);
        if number == 0 {
            return Err(self.broken("a field number out of range"));
        }
        let value = match key & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(self.array()?),
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Fixed32(self.array()?),
            other => return Err(self.broken(&format!("the unknown wire type {other}"))),
        };
        Ok(Some(Field { number, value, message: self.name }))
    }

    /// How often each of the fields occurs; checks the structure of the whole message on the way.
    pub(crate) fn count<const N: usize>(mut self, numbers: [u32; N]) -> Result<[usize; N], Error> {
        let mut counts = [0; N];
        while let Some(field) = self.next()? {
            for (number, count) in numbers.iter().zip(&mut counts) {
                if *number == field.number {
                    *count += 1;
                }
            }
        }
        Ok(counts)
    }

    fn varint(&mut self) -> Result<u64, Error> {
        match read_varint(self.rest) {
            Some((value, rest)) => {
                self.rest = rest;
                Ok(value)
            }
            None => Err(self.broken("a number that is cut off or too long")),
        }
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Error> {
        let split = usize::try_from(length).ok().and_then(|n| self.rest.split_at_checked(n));
        match split {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(head)
            }
            None => Err(self.broken(&format!("a field of {length} bytes where {} are left", self.rest.len()))),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        match self.rest.split_first_chunk() {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(*head)
            }
            None => Err(self.broken("a number that is cut off")),
        }
    }

    fn broken(&self, what: &str) -> Error {
        Error::malformed(format!("{} holds {what}", self.name)).remedy("the file is cut off, damaged, or no ONNX file")
    }
}

/// The number at the front and what follows it; nothing if it is cut off or longer than 64 bits.
fn read_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (index, byte) in bytes.iter().enumerate().take(10) {
        let bits = u64::from(byte & 0x7f);
        if index == 9 && bits > 1 {
            return None;
        }
        value |= bits << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(index + 1..)?));
        }
    }
    None
}

impl<'a> Field<'a> {
    /// A single integer.
    pub(crate) fn int(&self) -> Result<i64, Error> {
        match self.value {
            Value::Varint(value) => Ok(value.cast_signed()),
            _ => Err(self.mistyped("an integer")),
        }
    }

    /// A 32-bit integer, which protobuf cuts from a wider one.
    pub(crate) fn int32(&self) -> Result<i32, Error> {
        Ok(self.int()? as i32)
    }

    /// A single 32-bit float.
    pub(crate) fn float(&self) -> Result<f32, Error> {
        match self.value {
            Value::Fixed32(bytes) => Ok(f32::from_le_bytes(bytes)),
            _ => Err(self.mistyped("a float")),
        }
    }

    /// Bytes, or an inner message.
    pub(crate) fn bytes(&self) -> Result<&'a [u8], Error> {
        match self.value {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(self.mistyped("bytes")),
        }
    }

    /// A text, which must be UTF-8.
    pub(crate) fn text(&self) -> Result<&'a str, Error> {
        std::str::from_utf8(self.bytes()?).map_err(|_| {
            Error::malformed(format!("field {} of {} is a text that is not UTF-8", self.number, self.message))
        })
    }

    /// Each integer of a repeated field, packed or not.
    pub(crate) fn each_int(&self, mut f: impl FnMut(u64) -> Result<(), Error>) -> Result<(), Error> {
        match self.value {
            Value::Varint(value) => f(value),
            Value::Bytes(mut rest) => {
                while !rest.is_empty() {
                    let (value, next) = read_varint(rest).ok_or_else(|| self.mistyped("packed integers"))?;
                    rest = next;
                    f(value)?;
                }
                Ok(())
            }
            _ => Err(self.mistyped("integers")),
        }
    }

    /// How many integers a repeated field holds here, or an upper bound if it is broken.
    pub(crate) fn int_count(&self) -> usize {
        match self.value {
            Value::Bytes(bytes) => bytes.iter().filter(|byte| **byte & 0x80 == 0).count(),
            _ => 1,
        }
    }

    /// The little-endian bytes of a repeated field of `N`-byte numbers, packed or not.
    pub(crate) fn fixed<const N: usize>(&'a self) -> Result<&'a [u8], Error> {
        match &self.value {
            Value::Bytes(bytes) if bytes.len().is_multiple_of(N) => Ok(bytes),
            Value::Fixed32(bytes) if N == 4 => Ok(bytes),
            Value::Fixed64(bytes) if N == 8 => Ok(bytes),
            _ => Err(self.mistyped("floats")),
        }
    }

    /// Whether a repeated field holds nothing here.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self.value, Value::Bytes([]))
    }

    /// The packed bytes, where the field is packed.
    pub(crate) fn packed(&self) -> Option<&'a [u8]> {
        match self.value {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    fn mistyped(&self, wanted: &str) -> Error {
        Error::malformed(format!("field {} of {} is not {wanted}", self.number, self.message))
            .remedy("the file is damaged or no ONNX file")
    }
}
