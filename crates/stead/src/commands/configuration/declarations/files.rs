//! Reads the files of a directory and checks all of them.

use std::collections::BTreeMap;
use std::fs::{FileType, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::Serialize;
use serde_json::Value;
use stead_api::{AgentType, FieldError};
use stead_core::identity::Tenant;
use stead_core::parse::{self, Invalid};
use stead_core::quota::Quotas;
use stead_core::registry::{AgentTypeDeclaration, Platform, Project};
use stead_core::{Name, Timestamp};

use super::{Declaration, Subject};
use crate::failure::Failure;
use crate::render::counted;

/// Most bytes of one file.
const MOST: u64 = 1 << 20;
const NOT_REGULAR: &str = "is neither a regular file nor a directory; symbolic links are not followed";

/// Everything that a directory declares.
#[derive(Debug, Default)]
pub(in super::super) struct Directory {
    /// Sorted, so that a project comes before its quotas and agent types.
    pub(super) declarations: BTreeMap<Subject, Declaration>,
    /// The folder `projects` exists, so a project without a file is not wanted.
    pub(super) has_projects: bool,
    /// The tenants with a folder `agent-types`.
    pub(super) with_agent_types: Vec<Option<Name>>,
    errors: Vec<FieldError>,
}

impl Directory {
    pub(in super::super) fn read(path: &Path) -> Result<Self, Failure> {
        let mut found = Self::default();
        for entry in found.entries(path, None)? {
            match (entry.name.as_str(), entry.is_folder) {
                ("projects", true) => found.projects(&entry)?,
                ("agent-types", true) => found.agent_types(&entry, None)?,
                _ if !entry.is_folder && entry.stem() == Some("platform") => found.platform(&entry)?,
                _ => found.fail(&entry.shown, "is neither platform.toml, agent-types/ nor projects/"),
            }
        }
        let Self { errors, .. } = &mut found;
        if errors.is_empty() {
            return Ok(found);
        }
        let errors = std::mem::take(errors);
        let sentence = format!("{} has {}", path.display(), counted(errors.len(), "mistake", "mistakes"));
        let hint = "nothing was changed; correct the files and try again";
        Err(Failure::new(sentence).coded("invalid", None).fields(errors).hint(hint))
    }

    fn fail(&mut self, place: &str, message: impl Into<String>) {
        self.errors.push(FieldError { field: place.to_owned(), message: message.into() });
    }

    fn platform(&mut self, file: &Entry) -> Result<(), Failure> {
        if let Some(body) = self.parse(file)? {
            self.add(file, Subject::Platform, body.clone(), parse::read::<Platform>(body).map(|read| json_of(&read)));
        }
        Ok(())
    }

    fn projects(&mut self, folder: &Entry) -> Result<(), Failure> {
        self.has_projects = true;
        let (folders, files): (Vec<Entry>, Vec<Entry>) =
            self.entries(&folder.path, Some(folder))?.into_iter().partition(|entry| entry.is_folder);
        for file in &files {
            self.project(file)?;
        }
        for folder in &folders {
            let Some(id) = self.name(&folder.shown, &folder.name) else { continue };
            if !self.declarations.contains_key(&Subject::Project(id.clone())) {
                self.fail(&folder.shown, format!("there is no file projects/{id}.toml or projects/{id}.json for it"));
            }
            for entry in self.entries(&folder.path, Some(folder))? {
                match (entry.name.as_str(), entry.is_folder) {
                    ("agent-types", true) => self.agent_types(&entry, Some(&id))?,
                    _ => self.fail(&entry.shown, "is not the folder agent-types/"),
                }
            }
        }
        Ok(())
    }

    /// A file of a project has the fields of the project, and `quotas`.
    fn project(&mut self, file: &Entry) -> Result<(), Failure> {
        let Some(id) = self.stem(file) else { return Ok(()) };
        let Some(mut body) = self.parse(file)? else { return Ok(()) };
        let quotas = body.as_object_mut().and_then(|fields| fields.remove("quotas"));
        let read = parse::read::<Project>(body.clone()).map(|read| json_of(&read));
        self.add(file, Subject::Project(id.clone()), body, read);
        if let Some(body) = quotas {
            let read = parse::read::<Quotas>(body.clone()).map(|read| json_of(&read));
            let read = read.map_err(|invalid| Invalid {
                errors: invalid.errors.into_iter().map(|error| error_in("quotas", error)).collect(),
            });
            self.add(file, Subject::Quotas(id), body, read);
        }
        Ok(())
    }

    fn agent_types(&mut self, folder: &Entry, project: Option<&Name>) -> Result<(), Failure> {
        self.with_agent_types.push(project.cloned());
        for file in self.entries(&folder.path, Some(folder))? {
            let Some(id) = self.stem(&file) else { continue };
            let Some(mut body) = self.parse(&file)? else { continue };
            if let Some(fields) = body.as_object_mut() {
                fields.entry("id").or_insert_with(|| id.as_str().into());
            }
            let tenant = Tenant::of(project);
            let read = parse::read::<AgentTypeDeclaration>(body.clone());
            if read.as_ref().is_ok_and(|read| read.id != id) {
                self.fail(&format!("{}: id", file.shown), "must be the name of the file, or absent");
            }
            // The times are not compared.
            let read = read.map(|read| compared(&read.at(&tenant, Timestamp::from_millis(0)).into()));
            self.add(&file, Subject::AgentType { project: project.cloned(), id }, body, read);
        }
        Ok(())
    }

    fn add(&mut self, file: &Entry, subject: Subject, body: Value, value: Result<Value, Invalid>) {
        let value = match value {
            Ok(value) => value,
            Err(Invalid { errors }) => {
                let place = |field: &str| {
                    if field.is_empty() { file.shown.clone() } else { format!("{}: {field}", file.shown) }
                };
                return errors.into_iter().for_each(|error| self.fail(&place(&error.field), error.message));
            }
        };
        if let Some(before) = self.declarations.get(&subject) {
            let message = format!("{} declares the same", before.file);
            return self.fail(&file.shown, message);
        }
        self.declarations.insert(subject.clone(), Declaration { subject, file: file.shown.clone(), body, value });
    }

    /// Returns the entries of a folder, sorted. Those that are neither files nor folders are noted
    /// and left out.
    fn entries(&mut self, path: &Path, within: Option<&Entry>) -> Result<Vec<Entry>, Failure> {
        let mut usable = Vec::new();
        for (mut entry, kind) in entries(path)? {
            if let Some(folder) = within {
                entry.shown = format!("{}/{}", folder.shown, entry.name);
            }
            if kind.is_file() || kind.is_dir() {
                usable.push(entry);
            } else {
                self.fail(&entry.shown, NOT_REGULAR);
            }
        }
        Ok(usable)
    }

    /// Reads the text of a file. `None` if it cannot be used, which is noted.
    fn text(&mut self, file: &Entry) -> Result<Option<String>, Failure> {
        let failed =
            |error: std::io::Error| Failure::new(format!("cannot read {}", file.path.display())).because(&error);
        // Another file may have taken the place of the one in the list of the folder.
        let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or(0);
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(&file.path).map_err(failed)?;
        if !opened.metadata().map_err(failed)?.is_file() {
            self.fail(&file.shown, NOT_REGULAR);
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let read = opened.take(MOST + 1).read_to_end(&mut bytes).map_err(failed)?;
        if read as u64 > MOST {
            self.fail(&file.shown, "is larger than 1 MiB");
            return Ok(None);
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => {
                self.fail(&file.shown, "is not UTF-8 text");
                Ok(None)
            }
        }
    }

    /// Reads a file as JSON or TOML. `None` if it is wrong, which is noted.
    fn parse(&mut self, file: &Entry) -> Result<Option<Value>, Failure> {
        let Some(text) = self.text(file)? else { return Ok(None) };
        // The full text of an error quotes the file, which may have secrets, so it is not used. The
        // message of a TOML error has no values of the file.
        let read: Result<Value, String> = match file.path.extension().and_then(|end| end.to_str()) {
            Some("json") => serde_json::from_str(&text)
                .map_err(|error| format!("line {}: is not JSON ({:?} error)", error.line(), error.classify())),
            Some("toml") => toml::from_str(&text).map_err(|error| {
                let before = error.span().map_or(0, |span| span.start);
                let line = text.bytes().take(before).filter(|byte| *byte == b'\n').count() + 1;
                format!("line {line}: {}", error.message())
            }),
            _ => Err("is neither a .toml nor a .json file".to_owned()),
        };
        match read {
            Ok(value) => Ok(Some(value)),
            Err(message) => {
                self.fail(&file.shown, message);
                Ok(None)
            }
        }
    }

    /// The name of the thing that a file declares.
    fn stem(&mut self, file: &Entry) -> Option<Name> {
        match file.stem().filter(|_| !file.is_folder) {
            Some(stem) => self.name(&file.shown, stem),
            None => {
                self.fail(&file.shown, "is neither a .toml nor a .json file");
                None
            }
        }
    }

    fn name(&mut self, place: &str, text: &str) -> Option<Name> {
        text.parse().map_err(|error| self.fail(place, format!("its name cannot be used: {error}"))).ok()
    }
}

fn error_in(field: &str, error: parse::FieldError) -> parse::FieldError {
    let field = if error.field.is_empty() { field.to_owned() } else { format!("{field}.{}", error.field) };
    parse::FieldError { field, ..error }
}

pub(super) fn json_of(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// The declared part of an agent type.
pub(super) fn compared(agent_type: &AgentType) -> Value {
    let mut value = json_of(agent_type);
    for field in ["project", "created_at", "updated_at"] {
        value.as_object_mut().and_then(|fields| fields.remove(field));
    }
    value
}

/// A file or a folder of the directory.
struct Entry {
    path: PathBuf,
    name: String,
    /// Path below the directory.
    shown: String,
    is_folder: bool,
}

impl Entry {
    fn stem(&self) -> Option<&str> {
        self.name.strip_suffix(".toml").or_else(|| self.name.strip_suffix(".json"))
    }
}

/// The entries of a folder with their kinds, sorted. Hidden files and Markdown are for people and
/// editors.
fn entries(folder: &Path) -> Result<Vec<(Entry, FileType)>, Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("cannot read {}", folder.display())).because(&error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || name.ends_with(".md") {
            continue;
        }
        let kind = std::fs::symlink_metadata(entry.path()).map_err(failed)?.file_type();
        found.push((Entry { path: entry.path(), shown: name.clone(), name, is_folder: kind.is_dir() }, kind));
    }
    found.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
    Ok(found)
}
