//! The examples of request bodies are valid, and the defaults are the parsers'.

use serde_json::{Value, json};
use stead_core::config::WorkspaceConfig;
use stead_core::content::event::EventRequest;
use stead_core::content::run::{RunRequest, StepRequest};
use stead_core::parse::{self, Read};
use stead_core::quota::Quotas;
use stead_core::registry::{AgentTypeDeclaration, Platform, Project};
use stead_core::request::SessionRequest;
use stead_core::secret::SecretRequest;

use super::check;
use crate::digest::{DigestRequest, GenerateRequest};
use crate::exec::{ExecRequest, ResizeRequest, SignalRequest, StdinRequest};
use crate::port::OpenPortRequest;
use crate::run::{CallRequest, EndRequest};
use crate::schema::{all, example};
use crate::session::rewind::RewindRequest;
use crate::session::snapshot::{CloneRequest, SnapshotRequest};
use crate::session::update::{PauseRequest, SessionUpdateRequest};

fn example_fits<T: Read>(schema: &str) {
    check::<T>(schema, example(schema).unwrap(), true);
}

#[test]
fn every_example_is_accepted() {
    example_fits::<AgentTypeDeclaration>("AgentTypeDeclaration");
    example_fits::<WorkspaceConfig>("WorkspaceConfig");
    example_fits::<Project>("Project");
    example_fits::<Quotas>("Quotas");
    example_fits::<Platform>("Platform");
    example_fits::<SecretRequest>("SecretRequest");
    example_fits::<SessionRequest>("SessionRequest");
    example_fits::<EventRequest>("EventRequest");
    example_fits::<RunRequest>("RunRequest");
    example_fits::<StepRequest>("StepRequest");
    example_fits::<EndRequest>("EndRequest");
    example_fits::<CallRequest>("CallRequest");
    example_fits::<DigestRequest>("DigestRequest");
    example_fits::<GenerateRequest>("GenerateRequest");
    example_fits::<ExecRequest>("ExecRequest");
    example_fits::<StdinRequest>("StdinRequest");
    example_fits::<SignalRequest>("SignalRequest");
    example_fits::<ResizeRequest>("ResizeRequest");
    example_fits::<SnapshotRequest>("SnapshotRequest");
    example_fits::<CloneRequest>("CloneRequest");
    example_fits::<RewindRequest>("RewindRequest");
    example_fits::<PauseRequest>("PauseRequest");
    example_fits::<OpenPortRequest>("OpenPortRequest");
    example_fits::<SessionUpdateRequest>("SessionUpdateRequest");
}

fn defaults(schema: &str) -> Value {
    let (_, found) = all().into_iter().find(|(name, _)| name == schema).unwrap();
    let properties = found["properties"].as_object().unwrap();
    let given = properties.iter().filter_map(|(name, property)| Some((name.clone(), property.get("default")?.clone())));
    Value::Object(given.collect())
}

/// A request that states every default means the same as one that states none.
#[test]
fn defaults_are_the_parsers() {
    fn same<T: Read + PartialEq>(schema: &str, required: Value) {
        let mut stated = defaults(schema);
        stated.as_object_mut().unwrap().extend(required.as_object().unwrap().clone());
        let read = |value| parse::read::<T>(value).unwrap_or_else(|error| panic!("{schema}: {error}"));
        assert!(read(stated.clone()) == read(required), "{schema}: {stated}");
    }
    same::<WorkspaceConfig>("WorkspaceConfig", json!({}));
    same::<Platform>("Platform", json!({}));
    same::<DigestRequest>("DigestRequest", json!({"body": "x"}));
    same::<EventRequest>("WorkspaceApplyRequest", json!({"type": "WorkspaceApplyRequested"}));
    same::<StepRequest>("StepRequest", json!({}));
    same::<GenerateRequest>("GenerateRequest", json!({}));
    same::<ExecRequest>("ExecRequest", json!({"command": "x"}));
    same::<StdinRequest>("StdinRequest", json!({}));
    same::<CloneRequest>("CloneRequest", json!({"isolation": "full"}));
    same::<PauseRequest>("PauseRequest", json!({}));
    same::<OpenPortRequest>("OpenPortRequest", json!({}));
}

/// A rule between fields is reported together with invalid fields, but not because of them.
#[test]
fn all_errors_of_a_request_are_reported_together() {
    let errors = |value: Value| match parse::read::<ExecRequest>(value) {
        Ok(_) => String::new(),
        Err(invalid) => invalid.to_string(),
    };
    assert_eq!(errors(json!({"command": 5})), "command: expected a string, found 5");
    assert_eq!(errors(json!({})), "command: is required unless argv is given");
    let both = errors(json!({"command": "a", "argv": ["b"], "background": 1, "x": 2}));
    assert!(
        both.starts_with(
            "background: expected true or false, found 1; argv: give command or argv, not both; x: unknown field"
        ),
        "{both}"
    );
}

/// A client writes a request with the type that the server reads it with.
#[test]
fn a_request_reads_back_what_it_writes() {
    for request in [
        ExecRequest::command("ls"),
        ExecRequest {
            background: true,
            env: Some(parse::read(json!({"A": "b"})).unwrap()),
            ..ExecRequest::argv(vec!["ls".to_owned()])
        },
    ] {
        let written = serde_json::to_value(&request).unwrap();
        assert!(parse::read::<ExecRequest>(written.clone()).unwrap() == request, "{written}");
    }
}
