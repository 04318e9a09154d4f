//! One definition of a tool's parameters, used for both the reader and the JSON Schema.
//!
//! A model sends the arguments, and the server answers each error with one sentence that names the
//! argument. For this reason tools do not use `stead_core::parse`, which lists all errors of a body
//! at once.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// A type of an argument.
pub trait Parameter: Sized {
    fn schema() -> Value;

    /// Returns the value of an absent argument, or `None` if the argument is required.
    fn absent() -> Option<Self> {
        None
    }

    /// Reads a given argument. The error completes the sentence "NAME must be …".
    fn read(value: &Value) -> Result<Self, &'static str>;
}

impl Parameter for String {
    fn schema() -> Value {
        json!({"type": "string"})
    }

    fn read(value: &Value) -> Result<Self, &'static str> {
        value.as_str().map(str::to_owned).ok_or("a string")
    }
}

impl Parameter for bool {
    fn schema() -> Value {
        json!({"type": "boolean"})
    }

    fn read(value: &Value) -> Result<Self, &'static str> {
        value.as_bool().ok_or("true or false")
    }
}

impl Parameter for u64 {
    fn schema() -> Value {
        json!({"type": "integer", "minimum": 0})
    }

    fn read(value: &Value) -> Result<Self, &'static str> {
        value.as_u64().ok_or("an integer of 0 or more")
    }
}

/// A number of results, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count(pub u64);

impl From<u64> for Count {
    fn from(count: u64) -> Self {
        Self(count)
    }
}

impl Parameter for Count {
    fn schema() -> Value {
        json!({"type": "integer", "minimum": 1})
    }

    fn read(value: &Value) -> Result<Self, &'static str> {
        value.as_u64().filter(|count| *count > 0).map(Self).ok_or("a positive integer")
    }
}

/// A number of a range. Without an upper bound, `MOST` is the largest number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Within<const LEAST: u64, const MOST: u64>(pub u64);

impl<const LEAST: u64, const MOST: u64> From<u32> for Within<LEAST, MOST> {
    fn from(number: u32) -> Self {
        Self(number.into())
    }
}

impl<const LEAST: u64, const MOST: u64> Parameter for Within<LEAST, MOST> {
    fn schema() -> Value {
        let mut schema = json!({"type": "integer", "minimum": LEAST});
        if MOST < u64::MAX {
            schema["maximum"] = MOST.into();
        }
        schema
    }

    fn read(value: &Value) -> Result<Self, &'static str> {
        let number = value.as_u64().filter(|number| (LEAST..=MOST).contains(number));
        number.map(Self).ok_or("an integer within its range")
    }
}

/// Defines a time limit in whole seconds, from 1 to a maximum.
macro_rules! seconds {
    ($(#[$meta:meta])* $name:ident, $most:literal) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name(u64);

        impl $name {
            pub const MOST: u64 = $most;

            pub const fn millis(self) -> u64 {
                self.0 * 1_000
            }
        }

        impl From<u32> for $name {
            fn from(seconds: u32) -> Self {
                Self(seconds.into())
            }
        }

        impl Parameter for $name {
            fn schema() -> Value {
                json!({"type": "integer", "minimum": 1, "maximum": $most})
            }

            fn read(value: &Value) -> Result<Self, &'static str> {
                // JSON Schema counts 2.0 as an integer.
                let whole = value.as_f64().filter(|seconds| seconds.fract() == 0.0);
                let seconds = whole.filter(|seconds| (1.0..=f64::from($most)).contains(seconds));
                let expected = concat!("a whole number of seconds from 1 to ", stringify!($most));
                seconds.map(|seconds| Self(seconds as u64)).ok_or(expected)
            }
        }
    };
}

seconds!(
    /// Time limit of a command.
    CommandSeconds, 120
);
seconds!(
    /// Time limit of a Python program.
    PythonSeconds, 5
);

impl<T: Parameter> Parameter for Option<T> {
    fn schema() -> Value {
        T::schema()
    }

    fn absent() -> Option<Self> {
        Some(None)
    }

    fn read(value: &Value) -> Result<Self, &'static str> {
        T::read(value).map(Some)
    }
}

impl Parameter for Vec<String> {
    fn schema() -> Value {
        json!({"type": "array", "items": {"type": "string"}})
    }

    fn absent() -> Option<Self> {
        Some(Self::new())
    }

    fn read(value: &Value) -> Result<Self, &'static str> {
        let words = value.as_array().and_then(|words| words.iter().map(|word| String::read(word).ok()).collect());
        words.ok_or("a list of strings")
    }
}

/// Environment variables by name. The engine has replaced references to secrets by placeholders, so
/// only texts are read here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Variables(pub BTreeMap<String, String>);

const MAX_VARIABLES: usize = 64;

impl Parameter for Variables {
    fn schema() -> Value {
        let secret = json!({
            "type": "object", "properties": {"secret": {"type": "string"}}, "required": ["secret"],
            "additionalProperties": false,
        });
        let value = json!({"anyOf": [{"type": "string"}, secret]});
        json!({"type": "object", "maxProperties": MAX_VARIABLES, "additionalProperties": value})
    }

    fn absent() -> Option<Self> {
        Some(Self::default())
    }

    fn read(value: &Value) -> Result<Self, &'static str> {
        let variable = |(name, value): (&String, &Value)| {
            let plain = !name.is_empty() && !name.contains(['=', '\0']) && name.len() <= 128;
            let value = value.as_str().filter(|value| !value.contains('\0') && value.len() <= 8_192);
            value.filter(|_| plain).map(|value| (name.clone(), value.to_owned()))
        };
        let values = value.as_object().filter(|values| values.len() <= MAX_VARIABLES);
        let read: Option<_> = values.and_then(|values| values.iter().map(variable).collect());
        read.map(Self).ok_or("an object of at most 64 short strings")
    }
}

/// The arguments of one call by name. `null` means the same as an absent argument.
pub struct Given<'a>(Option<&'a Map<String, Value>>);

impl<'a> Given<'a> {
    /// Returns an error if the arguments are not an object, or contain an unknown name.
    pub fn of(arguments: &'a Value, names: &[&str]) -> Result<Self, String> {
        let values = match arguments {
            Value::Null => None,
            Value::Object(values) => Some(values),
            _ => return Err("arguments must be a JSON object.".to_owned()),
        };
        match values.into_iter().flat_map(Map::keys).find(|name| !names.contains(&name.as_str())) {
            Some(unknown) => {
                let unknown: String = unknown.chars().take(80).collect();
                Err(format!("Unknown argument '{unknown}'; the arguments are {}.", names.join(", ")))
            }
            None => Ok(Self(values)),
        }
    }

    pub fn read<T: Parameter>(&self, name: &str, default: Option<T>) -> Result<T, String> {
        match self.0.and_then(|values| values.get(name)).filter(|value| !value.is_null()) {
            Some(value) => T::read(value).map_err(|expected| format!("{name} must be {expected}.")),
            None => default.or_else(T::absent).ok_or_else(|| format!("{name} is required.")),
        }
    }
}

/// Returns the schema of one parameter, and true if the parameter is required.
pub fn property<T: Parameter>(description: &str, default: Option<Value>) -> (Value, bool) {
    let required = default.is_none() && T::absent().is_none();
    let mut schema = T::schema();
    if let Some(fields) = schema.as_object_mut() {
        fields.extend(default.map(|default| ("default".to_owned(), default)));
        fields.insert("description".to_owned(), description.trim().into());
    }
    (schema, required)
}

/// Returns the schema of an object with these properties and no others.
pub fn object(properties: Vec<(&str, (Value, bool))>) -> Value {
    let required: Vec<&str> = properties.iter().filter(|(_, (_, required))| *required).map(|(name, _)| *name).collect();
    let properties: Map<String, Value> =
        properties.into_iter().map(|(name, (schema, _))| (name.to_owned(), schema)).collect();
    let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if let (Some(fields), false) = (schema.as_object_mut(), required.is_empty()) {
        fields.insert("required".to_owned(), json!(required));
    }
    schema
}

/// The name of a parameter whose field is a raw identifier, such as `r#type`.
pub const fn plain(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', rest @ ..] => match std::str::from_utf8(rest) {
            Ok(plain) => plain,
            Err(_) => name,
        },
        _ => name,
    }
}

/// Defines the parameters of a tool: a struct, its reader and its JSON Schema. A default value
/// follows `=`.
macro_rules! parameters {
    ($(#[$meta:meta])* $name:ident { $($(#[doc = $doc:literal])+ $field:ident: $kind:ty $(= $default:expr)?,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name { $($(#[doc = $doc])+ pub $field: $kind,)+ }

        impl $name {
            pub const NAMES: &'static [&'static str] = &[$($crate::tool::parameters::plain(stringify!($field))),+];

            pub fn read(arguments: &serde_json::Value) -> Result<Self, String> {
                let given = $crate::tool::parameters::Given::of(arguments, Self::NAMES)?;
                Ok(Self { $($field: {
                    let default: Option<$kind> = None$(.or(Some(<$kind>::from($default))))?;
                    given.read($crate::tool::parameters::plain(stringify!($field)), default)?
                },)+ })
            }

            pub fn schema() -> serde_json::Value {
                use $crate::tool::parameters::{object, plain, property};
                object(vec![$((plain(stringify!($field)), {
                    let default: Option<serde_json::Value> = None$(.or(Some(serde_json::json!($default))))?;
                    property::<$kind>(concat!($($doc),+), default)
                }),)+])
            }
        }
    };
}
pub(super) use parameters;
