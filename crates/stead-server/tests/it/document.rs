use std::collections::BTreeSet;

use serde_json::Value;

use crate::harness::TestServer;

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            if let Some(target) = map.get("$ref").and_then(Value::as_str) {
                found.insert(target.to_owned());
            }
            map.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[tokio::test]
async fn the_document_is_served_whole_and_without_loose_ends() {
    let server = TestServer::start().await;
    let document = server.ask("GET", "/openapi.json").token(None).send().await.json();
    assert_eq!(document, stead_server::openapi());
    assert_eq!(document["openapi"], "3.1.0");
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    for target in &found {
        assert!(document.pointer(target.trim_start_matches('#')).is_some(), "{target}");
    }
    let named = document["components"]["schemas"].as_object().unwrap();
    for (name, schema) in named {
        assert_ne!(schema, &serde_json::json!({"type": "object"}), "{name} says nothing");
        assert!(found.contains(&format!("#/components/schemas/{name}")), "nobody refers to {name}");
    }
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            assert!(operation["summary"].is_string() && operation["operationId"].is_string(), "{method} {path}");
        }
    }
}

/// Generators copy descriptions and examples into clients.
#[test]
fn the_document_describes_every_field_parameter_and_body() {
    let document = stead_server::openapi();
    let described = |value: &Value| value["description"].as_str().is_some_and(|text| !text.is_empty());
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        for (field, property) in schema["properties"].as_object().into_iter().flatten() {
            assert!(described(property), "{name}.{field}: {property}");
        }
    }
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                assert!(described(parameter), "{method} {path}: {parameter}");
            }
            if let Some(body) = operation["requestBody"]["content"].get("application/json") {
                assert!(body["example"].is_object(), "{method} {path} has no example");
            }
        }
    }
}

/// Generators name the alternatives of a union after their schemas.
#[test]
fn alternatives_of_unions_that_are_objects_have_names() {
    fn unnamed(value: &Value, place: &str) {
        match value {
            Value::Object(map) => {
                for union in ["oneOf", "anyOf"] {
                    for one in map.get(union).and_then(Value::as_array).into_iter().flatten() {
                        assert!(one.get("properties").is_none(), "{place}: {one}");
                    }
                }
                map.iter().for_each(|(key, value)| unnamed(value, &format!("{place}/{key}")));
            }
            Value::Array(items) => items.iter().for_each(|value| unnamed(value, place)),
            _ => {}
        }
    }
    unnamed(&stead_server::openapi()["components"], "components");
}

#[test]
fn the_document_lists_problem_codes_as_they_are_sent() {
    let document = stead_server::openapi();
    let listed = &document["components"]["schemas"]["ProblemCode"]["enum"];
    let sent: Vec<&str> = stead_api::Code::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(listed, &serde_json::json!(sent));
}

/// Every request with a token may be rate-limited, and every write may find the disk full.
#[test]
fn the_document_names_refusals_that_any_route_can_give() {
    let document = stead_server::openapi();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let responses = &operation["responses"];
            // The control: open routes have no token to limit, and a GET writes nothing.
            let is_open = operation["security"].as_array().unwrap().is_empty();
            assert_eq!(responses["429"].is_object(), !is_open, "{method} {path}");
            assert_eq!(responses["507"].is_object(), method != "get", "{method} {path}");
            let retry = &responses["429"]["headers"]["Retry-After"]["schema"]["type"];
            assert!(is_open || retry == "integer", "{method} {path}: {responses}");
        }
    }
}

/// The page is public and loads its data with requests; session data cannot inject a script.
#[tokio::test]
async fn the_page_runs_its_own_scripts_and_no_other() {
    let server = TestServer::start().await;
    let page = server.ask("GET", "/").token(None).send().await;
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'self'"), "{policy}");
    assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{policy}");
    let assets: Vec<&str> = page.body.split('"').filter(|text| text.starts_with("/assets/")).collect();
    assert!(!assets.is_empty(), "{}", page.body);
    for asset in assets {
        let file = server.ask("GET", asset).token(None).send().await;
        assert_eq!((file.status, file.header("x-content-type-options")), (200, Some("nosniff")), "{asset}");
        assert!(file.header("cache-control").unwrap().contains("immutable"), "{asset}");
    }
    for missing in ["/assets/nothing.js", "/assets/..%2findex.html", "/assets/"] {
        assert_eq!(server.ask("GET", missing).token(None).send().await.status, 404, "{missing}");
    }
}
