//! Builds the OpenAPI 3.1 document. It combines the handlers' annotations with the hand-written
//! schemas, and adds the responses that every route can give.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use stead_api::Problem;
use utoipa::ToSchema;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, OpenApi, OpenApiBuilder};

use crate::auth;
use crate::download::OCTETS;
use crate::problem::MEDIA_TYPE;
use crate::router;
use stead_api::schema;

/// Returns the OpenAPI document. It needs no running server.
pub fn openapi() -> Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(build);
    DOCUMENT.clone()
}

/// Returns the document without paths: its title, version, security scheme and error schema.
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
    // No handler names the problem type, because `complete` adds it to every error response.
    let mut parts = Vec::new();
    <Problem as ToSchema>::schemas(&mut parts);
    let components = ComponentsBuilder::new().schema_from::<Problem>().schemas_from_iter(parts);
    let components = components.security_scheme("bearer", bearer).build();
    OpenApiBuilder::new().info(info).components(Some(components)).build()
}

fn build() -> Value {
    let (_, generated) = router::table().split_for_parts();
    let mut document = serde_json::to_value(generated).unwrap_or_default();
    for (name, schema) in schema::all() {
        document["components"]["schemas"][name.as_ref()] = schema;
    }
    if let Some(schemas) = document["components"]["schemas"].as_object_mut() {
        for (name, list) in schemas.iter_mut() {
            // utoipa inlines the item schema into each list. Use a reference instead, so that the
            // document defines it once.
            if let Some(item) = name.strip_prefix("List_") {
                list["properties"]["items"]["items"] = json!({"$ref": format!("#/components/schemas/{item}")});
            }
        }
    }
    if let Some(paths) = document["paths"].as_object_mut() {
        // The router marks a parameter that may contain slashes with `*`. OpenAPI has no such mark.
        *paths = std::mem::take(paths).into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
        for (path, methods) in paths {
            for (method, operation) in methods.as_object_mut().into_iter().flatten() {
                complete(path, method, operation);
            }
        }
    }
    link(&mut document, "/api/v1/sessions");
    link(&mut document, "/api/v1/agent-types");
    document
}

/// Adds links that connect the id in a create response with the `{id}` of the paths below it.
fn link(document: &mut Value, created_at: &str) {
    let below = format!("{created_at}/{{id}}");
    let mut links = Map::new();
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        for (_, operation) in methods.as_object().into_iter().flatten().filter(|_| path.starts_with(&below)) {
            let id = operation["operationId"].as_str().unwrap_or_default();
            let target = json!({"operationId": id, "parameters": {"id": "$response.body#/id"}});
            links.insert(id.to_owned(), target);
        }
    }
    if created_at.ends_with("agent-types") {
        let body = json!({"agent_type": "$response.body#/id"});
        links.insert("create_session".to_owned(), json!({"operationId": "create_session", "requestBody": body}));
    }
    document["paths"][created_at]["post"]["responses"]["201"]["links"] = links.into();
}

/// Adds the parts of an operation that follow from its path and method instead of its handler.
fn complete(path: &str, method: &str, operation: &mut Value) {
    let open = auth::OPEN.contains(&path);
    operation["security"] = if open { json!([]) } else { json!([{"bearer": []}]) };
    for parameter in operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten() {
        without_null(parameter);
    }
    let mut statuses = vec!["400", "403", "500", "503"];
    if !open {
        // Every request with a token counts against the quota of that token.
        statuses.extend(["401", "429"]);
    }
    if method != "get" {
        statuses.push("507");
    }
    if path.contains('{') {
        statuses.push("404");
    }
    if let Some(body) = operation.get_mut("requestBody") {
        if body["content"].get(OCTETS).is_some() {
            // An empty body is a valid upload.
            body["required"] = false.into();
        }
        statuses.extend(["408", "413", "415"]);
    }
    if !operation["responses"].is_object() {
        operation["responses"] = json!({});
    }
    let Some(responses) = operation["responses"].as_object_mut() else { return };
    for status in statuses {
        responses.entry(status).or_insert_with(|| json!({}));
    }
    for (status, response) in responses.iter_mut() {
        let refused = status.starts_with(['4', '5']);
        if response["description"].as_str().is_none_or(str::is_empty) {
            response["description"] = if refused { "Refused; the code says why." } else { "Done." }.into();
        }
        if refused {
            response["content"] = json!({MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}});
        }
    }
    if let Some(limited) = responses.get_mut("429") {
        limited["headers"]["Retry-After"] = json!({"schema": {"type": "integer", "minimum": 0}});
    }
    responses.sort_keys();
}

/// Removes `null` from the types of a parameter. `Option` in a handler's type means that the
/// parameter may be absent, not that it may be `null`.
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
