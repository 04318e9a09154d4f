//! Builds the OpenAPI 3.1 document. It combines the handlers' annotations with the hand-written
//! schemas, and adds the responses that every route can give.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use stead_api::Problem;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, OpenApi, OpenApiBuilder};
use utoipa::{OpenApi as _, ToSchema};

use crate::auth;
use crate::problem::MEDIA_TYPE;
use crate::respond::download::OCTETS;
use crate::router;
use stead_api::schema;

/// Operations whose handlers take an absent body for an empty object.
const OPTIONAL_BODIES: &[&str] = &[
    "start_run",
    "start_step",
    "complete_run",
    "fail_run",
    "cancel_run",
    "session_token",
    "rotate_token",
    "pause_session",
    "open_port",
];

/// Routes whose last parameter has a suffix, which the router cannot express.
#[derive(utoipa::OpenApi)]
#[openapi(paths(crate::routes::sessions::ports::open, crate::routes::sessions::ports::connect))]
struct Suffixed;

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
    let generated = generated.nest("/api/v1", Suffixed::openapi());
    let mut document = serde_json::to_value(generated).unwrap_or_default();
    for (name, schema) in schema::all() {
        document["components"]["schemas"][name.as_ref()] = schema;
    }
    if let Some(schemas) = document["components"]["schemas"].as_object_mut() {
        schemas.values_mut().for_each(lift_descriptions);
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

/// Moves the description of a property that may be `null` from its alternative to the property,
/// where readers and generators look for it.
fn lift_descriptions(schema: &mut Value) {
    for (_, property) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        let alternatives = property.get_mut("oneOf").and_then(Value::as_array_mut).into_iter().flatten();
        let lifted = alternatives.filter_map(Value::as_object_mut).find_map(|one| one.remove("description"));
        if let (Some(description), Some(property)) = (lifted, property.as_object_mut()) {
            property.entry("description").or_insert(description);
        }
    }
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
        describe(path, parameter);
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
    let may_lack_body = OPTIONAL_BODIES.iter().any(|id| operation["operationId"] == *id);
    if let Some(body) = operation.get_mut("requestBody") {
        if may_lack_body {
            body["required"] = false.into();
        }
        if body["content"].get(OCTETS).is_some() {
            // An empty body is a valid upload.
            body["required"] = false.into();
            // The other uploads are archives, which text cannot show.
            if path.ends_with("/files/{path}") || path.ends_with("/blobs") {
                body["content"][OCTETS]["example"] = "print('hello')\n".into();
            }
        }
        if let Some(json) = body["content"].get_mut("application/json") {
            let name = json["schema"]["$ref"].as_str().and_then(|place| place.rsplit('/').next());
            if let Some(example) = name.and_then(schema::example) {
                json["example"] = example;
            }
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

/// Describes a parameter whose meaning follows from its name and its place in the path.
fn describe(path: &str, parameter: &mut Value) {
    if parameter["description"].as_str().is_some_and(|text| !text.is_empty()) {
        return;
    }
    let described = match parameter["name"].as_str().unwrap_or_default() {
        "id" if path.starts_with("/api/v1/sessions") => "Id of the session.",
        "id" if path.starts_with("/api/v1/agent-types") => "Id of the agent type.",
        "id" => "Id of the project.",
        "exec" => "Id of the exec.",
        "port" => "Number of the port in the box.",
        "run" => "Id of the run.",
        "step" => "Number of the step, counted from 1.",
        "snap" => "Id of the snapshot.",
        "tool" => "Name of the tool.",
        "digest" => "Hash of the blob.",
        "schema" => "Name of the schema.",
        "name" if path.starts_with("/api/v1/images") => "Name of the image.",
        "name" if path.starts_with("/api/v1/secrets") => "Name of the secret.",
        "name" => "Name of the content.",
        "v" => "Version of the content.",
        "path" if path.starts_with("/api/v1/content") => "Path of the file in the content.",
        "path" => "Path below the workspace's root; slashes need no percent-encoding.",
        "Range" => "Part of the bytes to return, such as `bytes=0-1023`.",
        "If-Range" => "Hash of the version that `Range` refers to. For another version the whole file is returned.",
        "If-Match" => "Hash that the file must have, in quotes. Otherwise the response is 412.",
        "If-None-Match" if matches!(parameter["schema"]["$ref"].as_str(), Some("#/components/schemas/AnyTag")) => {
            "`*` to write only if there is no file. Otherwise the response is 412."
        }
        "If-None-Match" => "Hash of a version that the client has. If it is current, the response is 304.",
        "Idempotency-Key" => "The same key and body again get the same result.",
        _ => return,
    };
    parameter["description"] = described.into();
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
