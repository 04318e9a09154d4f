//! Request bodies. One definition gives the struct, its parser, its JSON form and its JSON Schema.

use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use stead_core::env::Env;
use stead_core::parse::{FieldPath, Fields, Read};

use crate::schema;

/// A type of a field: a parser and the schema of what it accepts.
pub trait Kind: Read + Serialize {
    fn schema() -> Value;
}

/// Rules between the fields of a request. [`Rules::check`] and [`Rules::restrict`] state the same
/// rules, one for the parser and one for the schema.
pub trait Rules {
    /// Reports violations. A field in `_failed` has an invalid value, which is reported already. In
    /// `self` it is absent or has its default.
    fn check(&self, _: &mut Fields<'_, '_>, _failed: &[&str]) {}

    fn restrict(_: &mut Value) {}
}

/// Defines a request. Each field is `required`, `optional` or has a `default(value)`. `null` means
/// the same as an absent field, except for a required one. The doc comments become the descriptions
/// in the schema.
macro_rules! request {
    ($(#[doc = $about:literal])+ $name:ident {
        $($(#[doc = $doc:literal])+ $rule:ident $(($default:expr))? $field:ident: $kind:ty,)+
    }) => {
        // No `Debug`: a request may contain secrets, such as variables or standard input.
        $(#[doc = $about])+
        #[derive(Clone, PartialEq)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: $crate::request::request!(@type $rule $kind),)+
        }

        impl stead_core::parse::Read for $name {
            fn read(value: serde_json::Value, at: &mut stead_core::parse::FieldPath<'_>) -> Option<Self> {
                let mut fields = stead_core::parse::Fields::of(value, at)?;
                let mut failed: Vec<&str> = Vec::new();
                $(
                    let given = fields.has(stringify!($field));
                    let $field = $crate::request::request!(@read $rule fields, $field, $kind);
                    if given && $field.is_none() {
                        failed.push(stringify!($field));
                    }
                )+
                let request = match ($($crate::request::request!(@value $rule $field $(, $default)?),)+) {
                    ($(Some($field),)+) => Some(Self { $($field),+ }),
                    _ => None,
                };
                if let Some(request) = &request {
                    $crate::request::Rules::check(request, &mut fields, &failed);
                }
                fields.done();
                request
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let fields = [$((stringify!($field), serde_json::to_value(&self.$field)),)+];
                $crate::request::serialize_given(fields, serializer)
            }
        }

        impl $name {
            /// Returns the JSON Schema.
            pub fn json_schema() -> serde_json::Value {
                let mut properties = serde_json::Map::new();
                $(
                    let property = $crate::request::request!(@schema $rule $kind $(, $default)?);
                    let described = $crate::schema::described(concat!($($doc),+), property);
                    properties.insert(stringify!($field).to_owned(), described);
                )+
                let required = [$($crate::request::request!(@required $rule $field)),+];
                let required: Vec<&str> = required.into_iter().flatten().collect();
                let mut schema = $crate::schema::object(&required, properties.into());
                schema["description"] = $crate::schema::sentence(concat!($($about),+)).into();
                <Self as $crate::request::Rules>::restrict(&mut schema);
                schema
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                // The document builder replaces this schema, see `crate::schema::all`.
                utoipa::openapi::RefOr::T(utoipa::openapi::schema::Schema::default())
            }
        }

        impl utoipa::ToSchema for $name {
            fn name() -> std::borrow::Cow<'static, str> {
                std::borrow::Cow::Borrowed(stringify!($name))
            }
        }
    };

    (@type optional $kind:ty) => { Option<$kind> };
    (@type $rule:ident $kind:ty) => { $kind };

    (@read required $fields:ident, $field:ident, $kind:ty) => { $fields.required::<$kind>(stringify!($field)) };
    (@read $rule:ident $fields:ident, $field:ident, $kind:ty) => { $fields.optional::<$kind>(stringify!($field)) };

    (@value required $field:ident) => { $field };
    (@value optional $field:ident) => { Some($field) };
    (@value default $field:ident, $default:expr) => { Some($field.unwrap_or_else(|| $default)) };

    (@schema required $kind:ty) => { <$kind as $crate::request::Kind>::schema() };
    (@schema optional $kind:ty) => { $crate::schema::or_null(<$kind as $crate::request::Kind>::schema()) };
    (@schema default $kind:ty, $default:expr) => {{
        let default: $kind = $default;
        $crate::schema::defaulted($crate::request::request!(@schema optional $kind), &default)
    }};

    (@required required $field:ident) => { Some(stringify!($field)) };
    (@required $rule:ident $field:ident) => { None };
}
pub(crate) use request;

/// Serializes an object without its `null` fields.
pub(crate) fn serialize_given<S: Serializer, const N: usize>(
    fields: [(&'static str, serde_json::Result<Value>); N],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut given = serde_json::Map::new();
    for (name, value) in fields {
        let value = value.map_err(serde::ser::Error::custom)?;
        if !value.is_null() {
            given.insert(name.to_owned(), value);
        }
    }
    given.serialize(serializer)
}

impl Kind for bool {
    fn schema() -> Value {
        schema::flag()
    }
}

impl Kind for String {
    fn schema() -> Value {
        schema::free_text(0, None)
    }
}

impl Kind for Env {
    fn schema() -> Value {
        schema::named("Env")
    }
}

impl Kind for stead_core::exec::FullBuffer {
    fn schema() -> Value {
        schema::named("UnreadOutput")
    }
}

impl Kind for stead_core::digest::DigestScope {
    fn schema() -> Value {
        schema::named("DigestScope")
    }
}

/// An integer from `MIN` to `MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Whole<const MIN: u64, const MAX: u64>(pub u64);

impl<const MIN: u64, const MAX: u64> Read for Whole<MIN, MAX> {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let number = u64::read(value, at)?;
        if (MIN..=MAX).contains(&number) {
            return Some(Self(number));
        }
        at.fail(format!("must be between {MIN} and {MAX}, not {number}"))
    }
}

impl<const MIN: u64, const MAX: u64> Kind for Whole<MIN, MAX> {
    fn schema() -> Value {
        schema::whole(MIN, MAX)
    }
}

/// Sequence number of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Sequence(pub u64);

impl Read for Sequence {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        match u64::read(value, at)? {
            0 => at.fail("events are counted from 1"),
            number => Some(Self(number)),
        }
    }
}

impl Kind for Sequence {
    fn schema() -> Value {
        schema::whole(1, schema::MAX_WHOLE)
    }
}

/// Text of `MIN` to `MAX` characters without NUL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Text<const MIN: usize, const MAX: usize>(pub String);

impl<const MIN: usize, const MAX: usize> Read for Text<MIN, MAX> {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        stead_core::config::Bounded::<MIN, MAX>::read(value, at).map(|text| Self(text.0))
    }
}

impl<const MIN: usize, const MAX: usize> Kind for Text<MIN, MAX> {
    fn schema() -> Value {
        schema::free_text(MIN as u64, Some(MAX as u64))
    }
}

/// A string that may contain any character, including NUL.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct AnyText(pub String);

impl Read for AnyText {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self(text)),
            _ => at.fail("expected a string"),
        }
    }
}

impl Kind for AnyText {
    fn schema() -> Value {
        json!({"type": "string"})
    }
}
