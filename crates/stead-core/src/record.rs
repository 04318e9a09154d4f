//! Request bodies. One definition gives the struct, its parser and its JSON Schema, so that the
//! three cannot disagree.
//!
//! [`record!`] defines a struct. Each field has a *kind*: a type that reads a value from untrusted
//! JSON and has the schema of what it accepts ([`Kind`]). The field's own type is the kind's
//! [`Kind::Value`], so `Bounded<1, 64>` is a kind whose value is a `String`. The JSON form of a
//! struct is that of serde, with the attributes in the definition.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::Name;
use crate::parse::{FieldPath, Fields, Read};
use crate::schema;

/// A parser and the schema of what it accepts.
pub trait Kind {
    /// The value that the parser returns.
    type Value;

    /// Reads the value. `None` means that at least one error was reported.
    fn parse(value: Value, at: &mut FieldPath<'_>) -> Option<Self::Value>;

    fn schema() -> Value;
}

/// Rules between the fields of a record, or about one field's whole value. [`Rules::check`] and
/// [`Rules::restrict`] state the same rules, one for the parser and one for the schema.
pub trait Rules {
    /// Reports violations. `_given` names the fields that the body has. One of them may have an
    /// invalid value, which is reported already, and is then absent in `self` or has its default.
    fn check(&self, _: &mut Fields<'_, '_>, _given: &[&str]) {}

    fn restrict(_: &mut Value) {}
}

/// Adapts a kind to [`Read`].
pub(crate) struct Given<K: Kind>(pub(crate) K::Value);

impl<K: Kind> Read for Given<K> {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        K::parse(value, at).map(Self)
    }
}

/// Defines a record: its traits to derive, its name, and the name of its schema. Each field is
/// `required`, `optional` or has a `default(value)`. `null` means the same as an absent field,
/// except for a required one. A field with `flatten` is a record whose fields are in the same
/// object. The doc comments become the descriptions in the schema. A record with `defaults` has no
/// required field and implements `Default`.
macro_rules! record {
    ($(#[doc = $about:literal])+ [$($derive:ident),+] defaults $name:ident as $schema:literal {
        $($(#[doc = $doc:literal])+ $rule:ident $(($default:expr))? $(#[$attribute:meta])* $field:ident: $kind:ty,)+
    }) => {
        $crate::record::record! {
            $(#[doc = $about])+ [$($derive),+] $name as $schema {
                $($(#[doc = $doc])+ $rule $(($default))? $(#[$attribute])* $field: $kind,)+
            }
        }

        impl Default for $name {
            /// The values of absent fields.
            fn default() -> Self {
                Self { $($field: $crate::record::record!(@default $rule $($default)?)),+ }
            }
        }
    };

    ($(#[doc = $about:literal])+ [$($derive:ident),+] $name:ident as $schema:literal {
        $($(#[doc = $doc:literal])+ $rule:ident $(($default:expr))? $(#[$attribute:meta])* $field:ident: $kind:ty,)+
    }) => {
        $(#[doc = $about])+
        #[derive($($derive),+)]
        pub struct $name {
            $($(#[doc = $doc])+ $(#[$attribute])* pub $field: $crate::record::record!(@type $rule $kind),)+
        }

        impl $crate::parse::Read for $name {
            fn read(value: serde_json::Value, at: &mut $crate::parse::FieldPath<'_>) -> Option<Self> {
                let mut fields = $crate::parse::Fields::of(value, at)?;
                let record = Self::take(&mut fields);
                fields.done();
                record
            }
        }

        impl $crate::record::Kind for $name {
            type Value = Self;

            fn parse(value: serde_json::Value, at: &mut $crate::parse::FieldPath<'_>) -> Option<Self> {
                $crate::parse::Read::read(value, at)
            }

            fn schema() -> serde_json::Value {
                $crate::schema::named($schema)
            }
        }

        impl $name {
            /// Reads the fields of the record from an object that may have others.
            pub(crate) fn take(fields: &mut $crate::parse::Fields<'_, '_>) -> Option<Self> {
                let mut given: Vec<&str> = Vec::new();
                $(
                    if fields.has($crate::record::wire(stringify!($field))) {
                        given.push(stringify!($field));
                    }
                    let $field = $crate::record::record!(@read $rule fields, $field, $kind);
                )+
                let record = match ($($crate::record::record!(@value $rule $field $(, $default)?),)+) {
                    ($(Some($field),)+) => Some(Self { $($field),+ }),
                    _ => None,
                };
                if let Some(record) = &record {
                    $crate::record::Rules::check(record, fields, &given);
                }
                record
            }

            /// Returns the JSON Schema.
            pub fn json_schema() -> serde_json::Value {
                let mut properties = serde_json::Map::new();
                $(
                    let about = concat!($($doc),+);
                    $crate::record::record!(@property $rule properties, about, $field, $kind $(, $default)?);
                )+
                let required = [$($crate::record::record!(@required $rule $field)),+];
                let required: Vec<&str> = required.into_iter().flatten().collect();
                let mut schema = $crate::schema::object(&required, properties.into());
                schema["description"] = $crate::schema::sentence(concat!($($about),+)).into();
                <Self as $crate::record::Rules>::restrict(&mut schema);
                schema
            }
        }
    };

    (@type optional $kind:ty) => { Option<<$kind as $crate::record::Kind>::Value> };
    (@type $rule:ident $kind:ty) => { <$kind as $crate::record::Kind>::Value };

    (@read flatten $fields:ident, $field:ident, $kind:ty) => { <$kind>::take($fields) };
    (@read required $fields:ident, $field:ident, $kind:ty) => {
        $fields.required::<$crate::record::Given<$kind>>($crate::record::wire(stringify!($field))).map(|given| given.0)
    };
    (@read $rule:ident $fields:ident, $field:ident, $kind:ty) => {
        $fields.optional::<$crate::record::Given<$kind>>($crate::record::wire(stringify!($field))).map(|given| given.0)
    };

    (@value required $field:ident) => { $field };
    (@value flatten $field:ident) => { $field };
    (@value optional $field:ident) => { Some($field) };
    (@value default $field:ident, $default:expr) => { Some($field.unwrap_or_else(|| $default)) };

    (@default optional) => { None };
    (@default flatten) => { Default::default() };
    (@default default $default:expr) => { $default };

    (@property flatten $properties:ident, $about:ident, $field:ident, $kind:ty) => {
        // The fields of the inner record are fields of this one.
        let _ = $about;
        if let Some(serde_json::Value::Object(inner)) = <$kind>::json_schema().get("properties") {
            $properties.extend(inner.clone());
        }
    };
    (@property $rule:ident $properties:ident, $about:ident, $field:ident, $kind:ty $(, $default:expr)?) => {
        let property = $crate::record::record!(@schema $rule $kind $(, $default)?);
        let name = $crate::record::wire(stringify!($field)).to_owned();
        $properties.insert(name, $crate::schema::described($about, property));
    };

    (@schema required $kind:ty) => { <$kind as $crate::record::Kind>::schema() };
    (@schema optional $kind:ty) => { $crate::schema::or_null(<$kind as $crate::record::Kind>::schema()) };
    (@schema default $kind:ty, $default:expr) => {{
        let default: <$kind as $crate::record::Kind>::Value = $default;
        $crate::schema::defaulted($crate::record::record!(@schema optional $kind), &default)
    }};

    (@required required $field:ident) => { Some($crate::record::wire(stringify!($field))) };
    (@required $rule:ident $field:ident) => { None };
}
pub(crate) use record;

/// The name of a field in JSON. `kind` is `type` and `written_as` is `as` there, which are keywords
/// of Rust.
pub(crate) const fn wire(field: &'static str) -> &'static str {
    match field.as_bytes() {
        b"kind" => "type",
        b"written_as" => "as",
        _ => field,
    }
}

/// Implements [`Kind`] for types whose parser is [`Read`], each with its schema.
macro_rules! kinds {
    ($($kind:ty = $schema:expr;)+) => {
        $(impl Kind for $kind {
            type Value = Self;

            fn parse(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
                Read::read(value, at)
            }

            fn schema() -> Value {
                $schema
            }
        })+
    };
}

kinds! {
    bool = schema::flag();
    String = schema::free_text(0, None);
    u64 = schema::whole(0, schema::MAX_WHOLE);
    crate::Name = schema::named("Name");
    crate::identity::Permission = schema::named("Permission");
    crate::identity::Roles = schema::named("Roles");
    crate::env::Env = schema::named("Env");
    crate::repository::RepositoryUrl = schema::named("RepositoryUrl");
    crate::repository::GitRef = schema::named("GitRef");
    crate::policy::WorkspacePolicy = schema::named("WorkspacePolicy");
    crate::tool::ToolSet = json!({"type": "array", "items": schema::named("ToolName"), "uniqueItems": true});
    crate::quantity::Cpu = json!({"type": "string", "pattern": Self::PATTERN});
    // The record of a size states its pattern, because that depends on the smallest size.
    crate::quantity::ByteSize = json!({"type": "string"});
    crate::quantity::CpuTotal = json!({"type": "string", "pattern": Self::PATTERN});
    crate::quantity::ByteTotal = json!({"type": "string", "pattern": Self::PATTERN});
    crate::config::ProviderName = schema::named("ProviderName");
    crate::config::OnSetupFailure = schema::named("OnSetupFailure");
    crate::setup_cache::SetupUser = schema::words(Self::ALL.iter().map(|word| word.as_str()));
    crate::config::RepoSourceType = schema::words(Self::ALL.iter().map(|word| word.as_str()));
    crate::config::LimitsConfig = schema::named("ToolLimits");
    crate::rewind::CheckpointCost = schema::named("Points");
    crate::network::NetworkPhase = schema::named("NetworkPhase");
    crate::network::NetworkRule = schema::named("NetworkRule");
    crate::network::RuleProtocol = schema::named("RuleProtocol");
    crate::registry::Side = schema::named("Side");
    crate::content::binding::ContentOperation = schema::named("ContentOperation");
    crate::content::event::ApplyMode = schema::named("ApplyMode");
    crate::content::message::Role = schema::named("MessageRole");
    crate::content::options::ReasoningEffort = schema::named("ReasoningEffort");
    crate::content::options::ResponseFormat = schema::named("ResponseFormat");
    crate::content::options::ToolChoice = schema::named("ToolChoice");
    crate::content::options::Decimal = json!({"type": "number", "minimum": 0});
}

impl<K: Kind> Kind for Vec<K> {
    type Value = Vec<K::Value>;

    fn parse(value: Value, at: &mut FieldPath<'_>) -> Option<Self::Value> {
        let items = Vec::<Given<K>>::read(value, at)?;
        Some(items.into_iter().map(|item| item.0).collect())
    }

    fn schema() -> Value {
        schema::list(K::schema())
    }
}

impl<K: Kind> Kind for BTreeMap<Name, K> {
    type Value = BTreeMap<Name, K::Value>;

    fn parse(value: Value, at: &mut FieldPath<'_>) -> Option<Self::Value> {
        let given = BTreeMap::<String, Given<K>>::read(value, at)?;
        let mut named = BTreeMap::new();
        for (name, item) in given {
            match name.parse::<Name>() {
                Ok(name) => named.insert(name, item.0),
                Err(error) => return at.fail(error.to_string()),
            };
        }
        Some(named)
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "propertyNames": {"pattern": Name::PATTERN},
            "additionalProperties": K::schema(),
        })
    }
}

/// A string of `MIN` to `MAX` characters without NUL, as JSON Schema counts them.
pub struct Bounded<const MIN: usize, const MAX: usize>(pub String);

impl<const MIN: usize, const MAX: usize> Read for Bounded<MIN, MAX> {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let text = String::read(value, at)?;
        let length = text.chars().count();
        if (MIN..=MAX).contains(&length) {
            Some(Self(text))
        } else {
            at.fail(format!("must have {MIN} to {MAX} characters, not {length}"))
        }
    }
}

impl<const MIN: usize, const MAX: usize> Kind for Bounded<MIN, MAX> {
    type Value = String;

    fn parse(value: Value, at: &mut FieldPath<'_>) -> Option<String> {
        Self::read(value, at).map(|text| text.0)
    }

    fn schema() -> Value {
        schema::free_text(MIN as u64, Some(MAX as u64))
    }
}

/// An integer from `MIN` to `MAX`.
pub struct Whole<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Kind for Whole<MIN, MAX> {
    type Value = u64;

    fn parse(value: Value, at: &mut FieldPath<'_>) -> Option<u64> {
        let number = u64::read(value, at)?;
        if (MIN..=MAX).contains(&number) {
            return Some(number);
        }
        at.fail(format!("must be between {MIN} and {MAX}, not {number}"))
    }

    fn schema() -> Value {
        schema::whole(MIN, MAX)
    }
}

/// An integer of 1 or more. Zero and negative numbers get the same message.
pub struct Positive;

impl Kind for Positive {
    type Value = u64;

    fn parse(value: Value, at: &mut FieldPath<'_>) -> Option<u64> {
        if value.as_f64().is_some_and(|number| number < 1.0) {
            return at.fail("must be 1 or more");
        }
        u64::read(value, at)
    }

    fn schema() -> Value {
        schema::whole(1, schema::MAX_WHOLE)
    }
}

/// One value, or a list of them.
pub struct OneOrMore<K>(K);

impl<K: Kind> Kind for OneOrMore<K> {
    type Value = Vec<K::Value>;

    fn parse(value: Value, at: &mut FieldPath<'_>) -> Option<Self::Value> {
        if value.is_array() { <Vec<K> as Kind>::parse(value, at) } else { K::parse(value, at).map(|one| vec![one]) }
    }

    fn schema() -> Value {
        json!({"anyOf": [K::schema(), schema::list(K::schema())]})
    }
}
