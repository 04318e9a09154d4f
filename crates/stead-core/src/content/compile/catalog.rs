//! Tool catalogs: the tools that a model sees, and their descriptions. A description grants no
//! permission.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::content::options::ToolChoice;
use crate::content::path::ContentPath;
use crate::parse::{FieldPath, Fields, MAX_DEPTH, Read, within_depth};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalog {
    pub id: Option<String>,
    pub tools: Vec<CatalogEntry>,
    pub tool_choice: Option<ToolChoice>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CatalogEntry {
    /// The file of the descriptor.
    Path(ContentPath),
    Inline(Box<Descriptor>),
}

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    pub name: String,
    pub description: String,
    /// A JSON Schema of an object.
    pub parameters: Value,
    /// Hints for clients and vendors. They grant no permission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
}

impl Descriptor {
    /// The pattern for names: the characters that vendors accept, and the dot.
    pub const NAME_PATTERN: &'static str = "^[A-Za-z0-9_.-]{1,64}$";

    /// The name in the form that vendors accept, without dots.
    pub fn vendor_name(&self) -> String {
        vendor_name(&self.name)
    }

    pub fn hash(&self) -> String {
        crate::canonical::hash(self)
    }
}

pub fn vendor_name(name: &str) -> String {
    name.replace('.', "_")
}

impl Read for Catalog {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        if value.is_array() {
            return Vec::read(value, at).map(|tools| Self { id: None, tools, tool_choice: None });
        }
        let mut fields = Fields::of(value, at)?;
        let _: Option<String> = fields.optional("$schema");
        let _: Option<String> = fields.optional("description");
        let (id, tools) = (fields.optional("id"), fields.required("tools"));
        let tool_choice = fields.optional("tool_choice");
        fields.done();
        tools.map(|tools| Self { id, tools, tool_choice })
    }
}

impl Read for CatalogEntry {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        if value.is_string() {
            return ContentPath::read(value, at).map(Self::Path);
        }
        Descriptor::read(value, at).map(|descriptor| Self::Inline(Box::new(descriptor)))
    }
}

impl Read for Descriptor {
    /// Reads the plain form, and the form that wraps it in `{"type": "function", "function": …}`.
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        if fields.has("function") {
            let kind = fields.or("type", "function".to_owned());
            if kind != "function" {
                fields.fail("type", "expected function");
            }
            let wrapped = fields.required::<Descriptor>("function");
            fields.done();
            return wrapped;
        }
        let _: Option<String> = fields.optional("$schema");
        let name = fields.required::<String>("name");
        let right = |name: &String| {
            let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
            plain && (1..=64).contains(&name.len())
        };
        if name.as_ref().is_some_and(|name| !right(name)) {
            fields.fail("name", "a tool's name has 1 to 64 ASCII letters, digits, '_', '.' and '-'");
        }
        let description = fields.or("description", String::new());
        let (parameters, input) = (fields.optional::<Value>("parameters"), fields.optional::<Value>("input_schema"));
        if parameters.is_some() && input.is_some() {
            fields.fail("input_schema", "says the same as parameters: give one of them");
        }
        let field = if input.is_some() { "input_schema" } else { "parameters" };
        let parameters = parameters.or(input).unwrap_or_else(|| json!({"type": "object", "properties": {}}));
        if parameters.get("type") != Some(&json!("object")) || !within_depth(&parameters, MAX_DEPTH) {
            fields.fail(
                field,
                format!("expected a JSON Schema with \"type\": \"object\", at most {MAX_DEPTH} levels deep"),
            );
        }
        let annotations = fields.optional::<Value>("annotations");
        if annotations.as_ref().is_some_and(|given| !given.is_object() || !within_depth(given, MAX_DEPTH)) {
            fields.fail("annotations", "expected an object");
        }
        fields.done();
        name.map(|name| Self { name, description, parameters, annotations })
    }
}
