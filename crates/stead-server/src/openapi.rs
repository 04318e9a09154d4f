//! The OpenAPI 3.1 document: what the handlers say of themselves, with the hand-written schemas laid over it and the answers every route can give added.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, OpenApi, OpenApiBuilder};

use crate::auth;
use crate::problem::MEDIA_TYPE;
use crate::router;
use crate::schema;

/// The document as it is served, without a server.
pub fn openapi() -> Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(build);
    DOCUMENT.clone()
}

/// What is true of the whole.
pub(crate) fn head() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Stead")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Workspaces for agents: sessions that resolve their policy, provision themselves and journal everything.",
        ))
        .license(Some(utoipa::openapi::License::new("Apache-2.0")))
        .build();
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    let components = ComponentsBuilder::new().security_scheme("bearer", bearer).build();
    OpenApiBuilder::new().info(info).components(Some(components)).build()
}

fn build() -> Value {
    let (_, generated) = router::table().split_for_parts();
    let mut document = serde_json::to_value(generated).unwrap_or_default();
    for (name, schema) in schema::all() {
        document["components"]["schemas"][name.as_ref()] = schema;
    }
    if let Some(paths) = document["paths"].as_object_mut() {
        for (path, methods) in paths {
            for (_, operation) in methods.as_object_mut().into_iter().flatten() {
                complete(path, operation);
            }
        }
    }
    document
}

/// Adds to one operation what follows from its place rather than from its handler.
fn complete(path: &str, operation: &mut Value) {
    let open = auth::OPEN.contains(&path);
    operation["security"] = if open { json!([]) } else { json!([{"bearer": []}]) };
    for parameter in operation["parameters"].as_array_mut().into_iter().flatten() {
        without_null(parameter);
    }
    let mut statuses = vec!["400", "403", "500", "503"];
    if !open {
        statuses.push("401");
    }
    if path.contains('{') {
        statuses.push("404");
    }
    if operation.get("requestBody").is_some() {
        statuses.extend(["408", "413", "415"]);
    }
    if !operation["responses"].is_object() {
        operation["responses"] = json!({});
    }
    let Some(responses) = operation["responses"].as_object_mut() else { return };
    for status in statuses {
        responses.entry(status).or_insert_with(|| json!({"description": "See the problem's code."}));
    }
    for (status, response) in responses.iter_mut() {
        if status.starts_with(['4', '5']) {
            response["content"] = json!({MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}});
        }
    }
    responses.sort_keys();
}

/// A parameter is there or it is not: `Option` in a handler's type does not mean that `null` can be sent.
fn without_null(parameter: &mut Value) {
    let Some(schema) = parameter.get_mut("schema").and_then(Value::as_object_mut) else { return };
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    for key in ["oneOf", "anyOf"] {
        let Some(Value::Array(variants)) = schema.get_mut(key) else { continue };
        variants.retain(|variant| variant["type"] != "null");
        if let [Value::Object(only)] = &variants[..] {
            let only: Map<String, Value> = only.clone();
            *schema = only;
        }
    }
}
