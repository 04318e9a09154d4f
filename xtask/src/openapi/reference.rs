//! The API document as a page for people: `docs/api/reference.md`, generated from the JSON
//! document.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

const METHODS: [&str; 5] = ["get", "put", "post", "delete", "head"];

/// Returns the whole page.
pub(super) fn page(document: &Value) -> String {
    let mut page = format!(
        "# API reference\n\nMade by `cargo xtask openapi` from `docs/api/openapi.json` ({} {}); edit neither. Conventions: JSON in and out; `Authorization: Bearer TOKEN`; errors are \
         `application/problem+json` with a stable `code` ([Problem](#schema-problem)); lists answer `{{items, next_cursor}}`.\n",
        text(&document["info"]["title"]),
        text(&document["info"]["version"]),
    );
    let operations = operations(document);
    page.push('\n');
    for (tag, operations) in &operations {
        let _ = writeln!(page, "* [{tag}](#{}): {}", anchor(tag), operations.len());
    }
    page.push_str("* [schemas](#schemas)\n");
    for (tag, operations) in &operations {
        let _ = write!(page, "\n## {tag}\n");
        for operation in operations {
            operation.write(&mut page);
        }
    }
    page.push_str("\n## schemas\n");
    let schemas = document["components"]["schemas"].as_object();
    let sorted: BTreeMap<&String, &Value> = schemas.into_iter().flatten().collect();
    for (name, schema) in sorted {
        write_schema(&mut page, name, schema);
    }
    page
}

struct Operation<'a> {
    method: &'a str,
    path: &'a str,
    body: &'a Value,
}

/// Returns all operations, grouped by their first tag.
fn operations(document: &Value) -> BTreeMap<String, Vec<Operation<'_>>> {
    let mut found: BTreeMap<String, Vec<Operation<'_>>> = BTreeMap::new();
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        for method in METHODS {
            let body = &methods[method];
            if body.is_object() {
                let tag = body["tags"][0].as_str().unwrap_or("other").to_owned();
                found.entry(tag).or_default().push(Operation { method, path, body });
            }
        }
    }
    found
}

impl Operation<'_> {
    fn write(&self, page: &mut String) {
        let _ = write!(page, "\n### {} `{}`\n\n", self.method.to_uppercase(), self.path);
        for part in ["summary", "description"] {
            if let Some(description) = self.body[part].as_str() {
                let _ = writeln!(page, "{}", description.trim());
            }
        }
        if self.body["security"].as_array().is_none_or(Vec::is_empty) {
            page.push_str("Needs no token.\n");
        }
        self.write_parameters(page);
        if let Some(content) = self.body["requestBody"]["content"].as_object() {
            let _ = write!(page, "\nBody: {}\n", forms(content));
            if let Some(example) = content.get("application/json").and_then(|form| form.get("example")) {
                let _ = write!(page, "\n```json\n{example}\n```\n");
            }
        }
        page.push_str("\n| status | |\n|---|---|\n");
        // All errors have the same form, so they share one row.
        let responses = self.body["responses"].as_object();
        let (refused, given): (Vec<_>, Vec<_>) =
            responses.into_iter().flatten().partition(|(status, _)| status.starts_with(['4', '5']));
        for (status, response) in given {
            let body = response["content"].as_object().map(forms).unwrap_or_default();
            let _ = writeln!(page, "| {status} | {} |", cell(&format!("{} {body}", text(&response["description"]))));
        }
        let statuses: Vec<&str> = refused.iter().map(|(status, _)| status.as_str()).collect();
        if !statuses.is_empty() {
            let _ = writeln!(page, "| {} | [Problem](#schema-problem) |", statuses.join(", "));
        }
    }

    fn write_parameters(&self, page: &mut String) {
        let parameters: Vec<&Value> = self.body["parameters"].as_array().into_iter().flatten().collect();
        if parameters.is_empty() {
            return;
        }
        page.push_str("\n| parameter | in | type | |\n|---|---|---|---|\n");
        for parameter in parameters {
            let star = if parameter["required"] == true { "" } else { "?" };
            let _ = writeln!(
                page,
                "| `{}`{star} | {} | {} | {} |",
                text(&parameter["name"]),
                text(&parameter["in"]),
                cell(&kind(&parameter["schema"])),
                cell(text(&parameter["description"])),
            );
        }
    }
}

fn write_schema(page: &mut String, name: &str, schema: &Value) {
    let _ = write!(page, "\n<a id=\"schema-{}\"></a>\n\n### {name}\n\n", anchor(name));
    if let Some(description) = schema["description"].as_str() {
        let _ = writeln!(page, "{}\n", description.trim());
    }
    let Some(fields) = schema["properties"].as_object().filter(|fields| !fields.is_empty()) else {
        let _ = writeln!(page, "{}", kind(schema));
        return;
    };
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    page.push_str("| field | type | |\n|---|---|---|\n");
    for (field, schema) in fields {
        let star = if required.contains(&field.as_str()) { "" } else { "?" };
        let mut said = text(&schema["description"]).to_owned();
        if let Some(default) = schema.get("default") {
            let _ = write!(said, " Default: `{default}`.");
        }
        let _ = writeln!(page, "| `{field}`{star} | {} | {} |", cell(&kind(schema)), cell(&said));
    }
}

/// Returns the schema of a body, with its media type unless it is JSON.
fn forms(content: &Map<String, Value>) -> String {
    let form = |(media, form): (&String, &Value)| match media.as_str() {
        "application/json" => kind(&form["schema"]),
        _ => format!("{} (`{media}`)", kind(&form["schema"])),
    };
    content.iter().map(form).collect::<Vec<_>>().join(" or ")
}

/// Returns a short description of a schema.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next()) {
        return format!("[{name}](#schema-{})", anchor(name));
    }
    if let Some(value) = schema.get("const") {
        return format!("`{value}`");
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().map(|word| format!("`{}`", text(word))).collect::<Vec<_>>().join(", ");
    }
    for several in ["oneOf", "anyOf", "allOf"] {
        if let Some(parts) = schema[several].as_array() {
            let kinds: Vec<String> = parts.iter().filter(|part| part["type"] != "null").map(kind).collect();
            return kinds.join(if several == "allOf" { " and " } else { " or " });
        }
    }
    let types = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).filter(|name| *name != "null").collect(),
        Value::String(name) => vec![name.as_str()],
        _ => vec!["any"],
    };
    types.into_iter().map(|name| plain(name, schema)).collect::<Vec<_>>().join(" or ")
}

fn plain(name: &str, schema: &Value) -> String {
    match name {
        "array" => format!("list of {}", kind(&schema["items"])),
        "object" => match schema["properties"].as_object().filter(|fields| !fields.is_empty()) {
            Some(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(field, schema)| format!("`{field}`: {}", kind(schema))).collect();
                format!("{{{}}}", fields.join(", "))
            }
            None => "object".to_owned(),
        },
        "integer" | "number" => match (schema["minimum"].as_i64(), schema["maximum"].as_i64()) {
            (Some(least), Some(most)) if most < i64::from(u32::MAX) => format!("{name} {least} to {most}"),
            _ => name.to_owned(),
        },
        _ => name.to_owned(),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Formats text as a table cell on one line.
fn cell(text: &str) -> String {
    text.trim().replace('\n', " ").replace('|', "\\|")
}

/// Returns the anchor of a heading, as forges generate it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_document_becomes_a_page() {
        let document = json!({
            "info": {"title": "Stead", "version": "1"},
            "paths": {"/x/{id}": {"get": {
                "tags": ["things"], "summary": "Shows it.", "security": [{"bearer": []}],
                "requestBody": {"content": {"application/json": {"schema": {"type": "object"}, "example": {"a": 1}}}},
                "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"$ref": "#/components/schemas/Id"}}],
                "responses": {"200": {"description": "Done.", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}},
                    "404": {"description": "no"}},
            }}},
            "components": {"schemas": {
                "Thing": {"type": "object", "required": ["id"], "properties": {
                    "id": {"$ref": "#/components/schemas/Id"},
                    "tags": {"type": ["array", "null"], "items": {"type": "string"}, "description": "a | b", "default": ["x"]}}},
                "Id": {"type": "string", "description": "Its name."},
            }},
        });
        let page = page(&document);
        for line in [
            "* [things](#things): 1",
            "### GET `/x/{id}`",
            "Shows it.",
            "Body: object",
            "{\"a\":1}",
            "| `id` | path | [Id](#schema-id) |  |",
            "| 200 | Done. [Thing](#schema-thing) |",
            "| 404 | [Problem](#schema-problem) |",
            "### Thing",
            "| `id` | [Id](#schema-id) |  |",
            "| `tags`? | list of string | a \\| b Default: `[\"x\"]`. |",
        ] {
            assert!(page.lines().any(|other| other == line), "{line}\n{page}");
        }
    }
}
