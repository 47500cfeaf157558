//! Primitive parameters as Rust expressions: a serializer whose output is Rust.

use crate::exprs::Exprs;
use plan::{ExprId, Filler, Primitive};
use serde::{
    Serialize, Serializer,
    ser::{
        Impossible, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple, SerializeTupleStruct,
        SerializeTupleVariant,
    },
};

/// An extent among parameters, told apart from plain numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Extent(ExprId);

impl Filler for Extent {
    const FILL: Extent = Extent(ExprId(u32::MAX));
}

impl Serialize for Extent {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_newtype_struct("Extent", &self.0.0)
    }
}

/// The parameters of a primitive as a Rust expression over extents of `i64`.
pub(crate) fn parameters(prim: &Primitive<ExprId>, exprs: &Exprs<'_>) -> Result<String, crate::Error> {
    let marked = prim.map_extents(&mut Extent);
    marked.serialize(Printer { exprs, extent: false }).map_err(|e| crate::Error::Plan(e.0))
}

/// Why parameters have no text.
#[derive(Debug, thiserror::Error)]
#[error("parameters cannot be written: {0}")]
struct Unprintable(String);

impl serde::ser::Error for Unprintable {
    fn custom<T: std::fmt::Display>(msg: T) -> Self {
        Unprintable(msg.to_string())
    }
}

#[derive(Clone, Copy)]
struct Printer<'e> {
    exprs: &'e Exprs<'e>,
    /// The next number is the index of an extent.
    extent: bool,
}

/// A list, struct or call that is being written.
struct Items<'e> {
    printer: Printer<'e>,
    head: String,
    items: Vec<String>,
    tail: &'static str,
    /// Fields are written without their names.
    positional: bool,
}

impl Items<'_> {
    fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unprintable> {
        self.items.push(value.serialize(self.printer)?);
        Ok(())
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Unprintable> {
        let text = value.serialize(self.printer)?;
        self.items.push(if self.positional { text } else { format!("{name}: {text}") });
        Ok(())
    }

    fn finish(self) -> String {
        let space = if self.tail == "}" && !self.items.is_empty() { " " } else { "" };
        format!("{}{space}{}{space}{}", self.head, self.items.join(", "), self.tail)
    }
}

/// The path of a type of the plan.
fn path(name: &str) -> String {
    format!("prim::{name}")
}

impl<'e> Printer<'e> {
    fn items(self, head: impl Into<String>, tail: &'static str, positional: bool) -> Items<'e> {
        Items { printer: self, head: head.into(), items: Vec::new(), tail, positional }
    }

    fn number(self, value: i128) -> Result<String, Unprintable> {
        if !self.extent {
            return Ok(value.to_string());
        }
        let id = u32::try_from(value).map_err(|_| Unprintable(format!("extent {value}")))?;
        Ok(self.exprs.integer(ExprId(id)))
    }
}

macro_rules! numbers {
    ($($method:ident $t:ty),*) => { $(
        fn $method(self, v: $t) -> Result<String, Unprintable> { self.number(i128::from(v)) }
    )* };
}

impl<'e> Serializer for Printer<'e> {
    type Ok = String;
    type Error = Unprintable;
    type SerializeSeq = Items<'e>;
    type SerializeTuple = Items<'e>;
    type SerializeTupleStruct = Items<'e>;
    type SerializeTupleVariant = Items<'e>;
    type SerializeMap = Impossible<String, Unprintable>;
    type SerializeStruct = Items<'e>;
    type SerializeStructVariant = Items<'e>;

    numbers!(serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64, serialize_u8 u8, serialize_u16 u16,
        serialize_u32 u32, serialize_u64 u64);

    fn serialize_bool(self, v: bool) -> Result<String, Unprintable> {
        Ok(v.to_string())
    }
    fn serialize_f32(self, v: f32) -> Result<String, Unprintable> {
        Ok(if v.is_finite() { format!("{v:?}") } else { format!("f32::from_bits({:#x})", v.to_bits()) })
    }
    fn serialize_f64(self, v: f64) -> Result<String, Unprintable> {
        Ok(if v.is_finite() { format!("{v:?}") } else { format!("f64::from_bits({:#x})", v.to_bits()) })
    }
    fn serialize_char(self, v: char) -> Result<String, Unprintable> {
        Ok(format!("{v:?}"))
    }
    fn serialize_str(self, v: &str) -> Result<String, Unprintable> {
        Ok(crate::names::quoted(v))
    }
    fn serialize_bytes(self, v: &[u8]) -> Result<String, Unprintable> {
        Ok(format!("{v:?}"))
    }
    fn serialize_none(self) -> Result<String, Unprintable> {
        Ok(String::from("None"))
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<String, Unprintable> {
        Ok(format!("Some({})", value.serialize(self)?))
    }
    fn serialize_unit(self) -> Result<String, Unprintable> {
        Ok(String::from("()"))
    }
    fn serialize_unit_struct(self, name: &'static str) -> Result<String, Unprintable> {
        Ok(path(name))
    }
    fn serialize_unit_variant(self, name: &'static str, _: u32, variant: &'static str) -> Result<String, Unprintable> {
        Ok(if name == "DType" { format!("DType::{variant}") } else { format!("{}::{variant}", path(name)) })
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<String, Unprintable> {
        value.serialize(Printer { extent: name == "Extent", ..self })
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<String, Unprintable> {
        let inner = value.serialize(self)?;
        Ok(if name == "Primitive" { inner } else { format!("{}::{variant}({inner})", path(name)) })
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<Items<'e>, Unprintable> {
        Ok(self.items("List::of([", "])", false))
    }
    fn serialize_tuple(self, _: usize) -> Result<Items<'e>, Unprintable> {
        Ok(self.items("[", "]", false))
    }
    fn serialize_tuple_struct(self, name: &'static str, _: usize) -> Result<Items<'e>, Unprintable> {
        Ok(self.items(format!("{}(", path(name)), ")", false))
    }
    fn serialize_tuple_variant(
        self,
        name: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Items<'e>, Unprintable> {
        Ok(self.items(format!("{}::{variant}(", path(name)), ")", false))
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Unprintable> {
        Err(Unprintable(String::from("a map")))
    }
    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Items<'e>, Unprintable> {
        // Programs are long: their instructions are calls of a constructor.
        if name == "MapInstr" {
            return Ok(self.items("prim::MapInstr::new(", ")", true));
        }
        Ok(self.items(format!("{} {{", path(name)), "}", false))
    }
    fn serialize_struct_variant(
        self,
        name: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Items<'e>, Unprintable> {
        Ok(self.items(format!("{}::{variant} {{", path(name)), "}", false))
    }
}

macro_rules! sequences {
    ($($name:ident $method:ident),*) => { $(
        impl $name for Items<'_> {
            type Ok = String;
            type Error = Unprintable;
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unprintable> { self.push(value) }
            fn end(self) -> Result<String, Unprintable> { Ok(self.finish()) }
        }
    )* };
}
sequences!(SerializeSeq serialize_element, SerializeTuple serialize_element, SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field);

macro_rules! structs {
    ($($name:ident),*) => { $(
        impl $name for Items<'_> {
            type Ok = String;
            type Error = Unprintable;
            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Unprintable> {
                self.field(key, value)
            }
            fn end(self) -> Result<String, Unprintable> { Ok(self.finish()) }
        }
    )* };
}
structs!(SerializeStruct, SerializeStructVariant);
