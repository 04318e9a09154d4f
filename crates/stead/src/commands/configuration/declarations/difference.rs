//! Compares the declarations with the server.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Value, json};
use stead_api::AgentType;
use stead_api::project::{ProjectEntry, ProjectStatus, ProjectView};
use stead_api::token::Whoami;
use stead_core::Name;
use stead_core::quota::Quotas;
use stead_core::registry::{Platform, Project};

use super::files::{Directory, compared, json_of};
use super::{Action, Declaration, Subject, in_project};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::counted;

/// More than any server has of one kind.
const ALL: u32 = 1_000_000;
const HIDDEN: &str = "(hidden)";
/// Stands for a `null` that removes a binding.
const REMOVED: &str = "(removed)";

/// Says if things without a declaration are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Undeclared {
    Keep,
    Remove,
}

/// One difference between the directory and the server.
#[derive(Debug, Serialize)]
pub(in super::super) struct Change {
    pub(super) action: Action,
    kind: &'static str,
    id: String,
    /// The file that declares it. Absent for a removal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<String>,
    /// The fields that differ, for a change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fields: Vec<FieldChange>,
    #[serde(skip)]
    pub(super) subject: Subject,
    /// The body to send. `null` for a removal.
    #[serde(skip)]
    pub(super) body: Value,
}

/// A field that differs. `null` stands for an absent value.
#[derive(Debug, PartialEq, Serialize)]
struct FieldChange {
    field: String,
    before: Value,
    after: Value,
}

impl Change {
    fn new(action: Action, subject: Subject) -> Self {
        let (kind, id) = (subject.kind(), subject.id());
        Self { action, kind, id, file: None, fields: Vec::new(), subject, body: Value::Null }
    }

    pub(in super::super) fn title(&self) -> String {
        format!("{} {}", self.kind, self.id).trim_end().to_owned()
    }

    pub(in super::super) fn deletes_project(&self) -> bool {
        self.action == Action::Remove && matches!(self.subject, Subject::Project(_))
    }
}

/// The state of the server, as far as the directory concerns it.
struct Server {
    values: BTreeMap<Subject, Value>,
    /// Things of the declared kinds that exist.
    projects: BTreeSet<Name>,
}

/// Returns the changes that make the server equal to the directory, in the order of their
/// execution.
pub(in super::super) fn changes(
    client: &Client,
    directory: &Directory,
    undeclared: Undeclared,
) -> Result<Vec<Change>, Failure> {
    let caller: Whoami = client.get("/whoami")?;
    check_reach(directory, caller.project.as_ref())?;
    let server = Server::read(client, directory, undeclared, caller.project.as_ref())?;
    let mut changes: Vec<Change> =
        directory.declarations.values().filter_map(|declared| compare(declared, &server)).collect();
    if undeclared == Undeclared::Remove {
        let unknown = |subject: &&Subject| !directory.declarations.contains_key(subject);
        let removable = server.values.keys().filter(unknown).filter(|subject| removable(directory, subject));
        let mut removals: Vec<Change> = removable.map(|one| Change::new(Action::Remove, one.clone())).collect();
        // Agent types first: those of a project that goes too are removed with it.
        removals.reverse();
        changes.extend(removals);
    }
    Ok(changes)
}

/// A token of a project cannot change anything outside it.
fn check_reach(directory: &Directory, own: Option<&Name>) -> Result<(), Failure> {
    let Some(own) = own else { return Ok(()) };
    let outside = directory.declarations.values().find(|declared| declared.subject.project() != Some(own));
    match outside {
        Some(declared) => Err(Failure::new(format!(
            "{}: the token belongs to project {own} and cannot change the {} {}",
            declared.file,
            declared.subject.kind(),
            declared.subject.id()
        ))
        .hint("use a token with the role admin, or remove the file")),
        None => Ok(()),
    }
}

fn removable(directory: &Directory, subject: &Subject) -> bool {
    match subject {
        Subject::Platform | Subject::Quotas(_) => false,
        Subject::Project(_) => directory.has_projects,
        Subject::AgentType { project, .. } => directory.with_agent_types.contains(project),
    }
}

fn compare(declared: &Declaration, server: &Server) -> Option<Change> {
    let subject = declared.subject.clone();
    let (file, body) = (Some(declared.file.clone()), declared.body.clone());
    let Some(before) = server.values.get(&subject) else {
        return Some(Change { file, body, ..Change::new(Action::Create, subject) });
    };
    let fields = differences(before, &declared.value);
    (!fields.is_empty()).then(|| Change { file, body, fields, ..Change::new(Action::Change, subject) })
}

impl Server {
    fn read(
        client: &Client,
        directory: &Directory,
        undeclared: Undeclared,
        own: Option<&Name>,
    ) -> Result<Self, Failure> {
        let mut server = Self { values: BTreeMap::new(), projects: BTreeSet::new() };
        let listed = client.list::<ProjectEntry>("/projects", ALL)?;
        for entry in listed.items {
            let Ok(id) = entry.id.parse::<Name>() else { continue };
            if entry.status == ProjectStatus::Active {
                server.projects.insert(id);
            } else if directory.declarations.contains_key(&Subject::Project(id.clone())) {
                return Err(Failure::new(format!("projects/{id}: the project is being deleted"))
                    .hint("the name of a deleted project cannot be used again"));
            }
        }
        let declared = directory.declarations.keys();
        for subject in declared.filter(|subject| !matches!(subject, Subject::AgentType { .. })) {
            server.show(client, subject)?;
        }
        for tenant in &directory.with_agent_types {
            server.agent_types(client, tenant.as_ref())?;
        }
        if undeclared == Undeclared::Remove && own.is_none() {
            for project in server.projects.clone() {
                server.values.entry(Subject::Project(project)).or_default();
            }
        }
        Ok(server)
    }

    fn show(&mut self, client: &Client, subject: &Subject) -> Result<(), Failure> {
        let path = subject.path();
        let value = match subject {
            Subject::Platform => json_of(&client.get::<Platform>(&path)?),
            Subject::Project(id) if self.projects.contains(id) => {
                let view: ProjectView = client.get(&path)?;
                let ProjectView { workspace_policy, repository_url, default_branch, env, network, .. } = view;
                json_of(&Project { workspace_policy, repository_url, default_branch, env, network })
            }
            Subject::Quotas(id) if self.projects.contains(id) => json_of(&client.get::<Quotas>(&path)?),
            // A new project has no quotas.
            Subject::Quotas(_) => json!({}),
            Subject::Project(_) | Subject::AgentType { .. } => return Ok(()),
        };
        self.values.insert(subject.clone(), value);
        Ok(())
    }

    fn agent_types(&mut self, client: &Client, project: Option<&Name>) -> Result<(), Failure> {
        if project.is_some_and(|project| !self.projects.contains(project)) {
            return Ok(());
        }
        let path = format!("/agent-types{}", in_project(project));
        // The list also has those of the platform that the project can use.
        for one in client.list::<AgentType>(&path, ALL)?.items.iter().filter(|one| one.project.as_ref() == project) {
            let subject = Subject::AgentType { project: project.cloned(), id: one.id.clone() };
            self.values.insert(subject, compared(one));
        }
        Ok(())
    }
}

/// Returns the fields that differ, by their path.
fn differences(before: &Value, after: &Value) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    compare_at(&mut Vec::new(), Some(before), Some(after), &mut changes);
    changes
}

/// Adds the differences of the values at a path. Both values are written by the same type, so an
/// empty object differs from an absent one. An absent field and `null` are the same, except for
/// bindings.
fn compare_at<'a>(
    path: &mut Vec<&'a str>,
    before: Option<&'a Value>,
    after: Option<&'a Value>,
    changes: &mut Vec<FieldChange>,
) {
    let is_binding = is_binding(path);
    let [before, after] = [before, after].map(|value| value.filter(|value| is_binding || !value.is_null()));
    if before == after {
        return;
    }
    // A binding is one value.
    let fields = |value: Option<&'a Value>| value.filter(|_| !is_binding).and_then(Value::as_object);
    let (old, new) = (fields(before), fields(after));
    let (known, names) = (changes.len(), old.into_iter().chain(new).flat_map(|fields| fields.keys()));
    for name in names.collect::<BTreeSet<&'a String>>() {
        path.push(name);
        let of = |fields: Option<&'a serde_json::Map<String, Value>>| fields.and_then(|fields| fields.get(name));
        compare_at(path, of(old), of(new), changes);
        path.pop();
    }
    if old.is_some() && new.is_some() {
        return;
    }
    // An object whose fields are listed is not listed itself.
    let is_listed = changes.len() > known;
    let own = |value: Option<&'a Value>| value.filter(|value| !is_listed || !value.is_object());
    let (before, after) = (own(before), own(after));
    if before.is_some() || after.is_some() {
        let field = path.join(".");
        let (before, after) = (shown(before, &field), shown(after, &field));
        changes.push(FieldChange { field, before, after });
    }
}

/// Returns true for the path of one binding, where `null` removes the binding of the server.
fn is_binding(path: &[&str]) -> bool {
    matches!(path, ["content", "bindings", _])
}

fn shown(value: Option<&Value>, field: &str) -> Value {
    match value {
        None => Value::Null,
        Some(_) if is_secret(field) => HIDDEN.into(),
        Some(Value::Null) => REMOVED.into(),
        Some(value) => value.clone(),
    }
}

/// Values of variables and headers may be secrets, and a plan is often in a log.
fn is_secret(field: &str) -> bool {
    let mut parts = field.split('.');
    parts.any(|part| part == "env" || part == "headers")
}

/// Prints the changes for people.
pub(in super::super) fn print(out: &Output, changes: &[Change]) -> Result<(), Failure> {
    for change in changes {
        let file = change.file.as_ref().map(|file| format!("  ({file})")).unwrap_or_default();
        out.line(&format!("{} {}{file}", change.action.mark(), change.title()))?;
        for FieldChange { field, before, after } in &change.fields {
            let shown = |value: &Value| if value.is_null() { "(none)".to_owned() } else { value.to_string() };
            out.line(&format!("    {field}: {} → {}", shown(before), shown(after)))?;
        }
    }
    let count = |action| changes.iter().filter(|change| change.action == action).count();
    let [create, change, remove] = [Action::Create, Action::Change, Action::Remove].map(count);
    match changes.is_empty() {
        true => out.line("the server is as declared"),
        false => out.line(&format!(
            "{}: {create} to create, {change} to change, {remove} to remove",
            counted(changes.len(), "difference", "differences")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_compared_by_their_path_and_secrets_are_hidden() {
        let before = json!({"a": {"b": 1, "c": null}, "env": {"KEY": "one", "OLD": "x"}, "list": [1]});
        let after = json!({"a": {"b": 2}, "env": {"KEY": "two"}, "list": [1]});
        let change = |field: &str, before: Value, after: Value| FieldChange { field: field.to_owned(), before, after };
        assert_eq!(
            differences(&before, &after),
            [
                change("a.b", json!(1), json!(2)),
                change("env.KEY", HIDDEN.into(), HIDDEN.into()),
                change("env.OLD", HIDDEN.into(), Value::Null),
            ]
        );
        assert!(differences(&after, &after).is_empty());
    }

    #[test]
    fn a_null_that_removes_a_binding_and_an_empty_object_are_differences() {
        let content = |bindings: Value| json!({"content": {"bindings": bindings}});
        let fields = |before: &Value, after: &Value| {
            let found = differences(before, after).into_iter();
            found.map(|one| (one.field, one.before, one.after)).collect::<Vec<_>>()
        };
        let field = || "content.bindings.deploy".to_owned();
        let (none, removed) = (content(json!({"x.y": null})), content(json!({"x.y": null, "deploy": null})));
        let bound = content(json!({"x.y": null, "deploy": {"kind": "tool", "tool": "read"}}));
        let tool = &bound["content"]["bindings"]["deploy"];
        assert_eq!(fields(&none, &removed), [(field(), Value::Null, json!(REMOVED))]);
        assert_eq!(fields(&removed, &none), [(field(), json!(REMOVED), Value::Null)]);
        assert_eq!(fields(&removed, &bound), [(field(), json!(REMOVED), tool.clone())]);
        assert_eq!(fields(&bound, &none), [(field(), tool.clone(), Value::Null)]);
        // The same without any content before.
        let first = content(json!({"deploy": null}));
        assert_eq!(fields(&json!({"content": null}), &first), [(field(), Value::Null, json!(REMOVED))]);
        assert_eq!(fields(&json!({}), &json!({"content": {}})), [("content".to_owned(), Value::Null, json!({}))]);
        assert_eq!(
            fields(&json!({"content": {}}), &json!({"content": {"workspace": "w"}})),
            [("content.workspace".to_owned(), Value::Null, json!("w"))]
        );
        for (before, after) in [
            (json!({"content": null, "name": null}), json!({})),
            (json!({"content": {"version": null}}), json!({"content": {}})),
            (removed.clone(), removed),
        ] {
            assert!(fields(&before, &after).is_empty() && fields(&after, &before).is_empty(), "{before} {after}");
        }
    }
}
