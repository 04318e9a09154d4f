//! Compiles the files of a content tree into a form that a session can adopt.
//!
//! [`compile`] is a pure function of the texts it is given. If it needs more texts, it returns
//! their paths ([`Progress::Needs`]), and the caller calls it again with them. The code that reads
//! files thus makes no decisions, and the same tree always compiles to the same bytes or the same
//! faults.

pub mod catalog;
pub mod fault;
pub mod index;
pub mod json;
pub mod pack;
pub mod path;
pub mod schema;

use std::collections::BTreeMap;

use self::catalog::{Catalog, CatalogEntry, Descriptor};
use self::fault::{Fault, Stage};
use self::index::{INDEX, Index, ResourceEntry};
use self::json::Located;
use self::pack::{Context, Pack, Template, TemplateSource};
use self::path::ContentPath;
use crate::content::message::{IMAGES, Message, Part, Role};
use crate::content::options::{Options, ToolChoice};
use crate::content::part::{attribute, enclosed};
use crate::content::resource::{PackArgument, ResourceRef, is_template};
use crate::session::warning::WarningCode;

/// The properties of a file that are known without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFacts {
    pub digest: String,
    pub size: u64,
}

/// A tree, and the texts read so far.
#[derive(Debug, Clone, Default)]
pub struct Source {
    pub files: BTreeMap<ContentPath, FileFacts>,
    pub texts: BTreeMap<ContentPath, Text>,
}

/// The content of a file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Text {
    Utf8(String),
    /// The first bytes of a file that is not text, or that is too large to be one.
    Binary(Vec<u8>),
}

/// Number of bytes of a binary file that [`compile`] needs.
pub const HEAD_BYTES: usize = 16;

impl Text {
    fn head(&self) -> &[u8] {
        match self {
            Self::Utf8(text) => text.as_bytes(),
            Self::Binary(head) => head,
        }
    }
}

/// Returns true if a file that starts like this is an image of this type.
fn is_image(media_type: &str, head: &[u8]) -> bool {
    match media_type {
        "image/png" => head.starts_with(b"\x89PNG\r\n\x1a\n"),
        "image/jpeg" => head.starts_with(b"\xff\xd8\xff"),
        "image/gif" => head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a"),
        "image/webp" => head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP"),
        _ => false,
    }
}

/// The result of one compile pass.
#[derive(Debug, Clone)]
pub enum Progress {
    /// The caller must read these files and call again.
    Needs(Vec<ContentPath>),
    Done(Box<Compiled>),
    Faulty(Vec<(Stage, Fault)>),
}

/// The content of a tree with every reference resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compiled {
    pub index_digest: Option<String>,
    pub packs: BTreeMap<String, CompiledPack>,
    pub catalogs: BTreeMap<String, CompiledCatalog>,
    pub resources: BTreeMap<String, ResourceRef>,
    pub default_prompt_pack: Option<String>,
    pub default_tool_catalog: Option<String>,
    /// Remarks that are not faults, each with its code.
    pub warnings: Vec<(WarningCode, Fault)>,
}

/// Maximum length of a pack's description. It is recorded in the journal.
const DESCRIPTION_CHARS: usize = 1000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompiledPack {
    pub description: Option<String>,
    pub arguments: Vec<PackArgument>,
    pub messages: Vec<Message>,
    pub options: Options,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompiledCatalog {
    pub tools: Vec<CompiledTool>,
    pub tool_choice: Option<ToolChoice>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompiledTool {
    pub descriptor: Descriptor,
    /// The position of the description, for faults found by later checks.
    pub position: Fault,
}

/// Compiles as far as the available texts allow.
pub fn compile(source: &Source) -> Progress {
    let mut pass = Pass { source, needs: Vec::new(), faults: Vec::new(), compiled: Compiled::default() };
    match index_path() {
        Some(path) if source.files.contains_key(&path) => pass.indexed(&path),
        _ => pass.legacy(),
    }
    let Pass { needs, faults, compiled, .. } = pass;
    // Missing texts come first: faults are reported only when no more texts are needed.
    match (faults.is_empty(), needs.is_empty()) {
        (_, false) => Progress::Needs(needs),
        (false, true) => Progress::Faulty(faults),
        (true, true) => Progress::Done(Box::new(compiled)),
    }
}

fn index_path() -> Option<ContentPath> {
    INDEX.parse().ok()
}

struct Pass<'a> {
    source: &'a Source,
    needs: Vec<ContentPath>,
    faults: Vec<(Stage, Fault)>,
    compiled: Compiled,
}

/// The position of a reference to a file. A missing file is reported there.
struct Referrer<'a> {
    path: &'a ContentPath,
    located: &'a Located,
    stage: Stage,
}

impl Referrer<'_> {
    fn fault(&self, field: &str, message: impl Into<String>) -> (Stage, Fault) {
        (self.stage, self.located.fault(self.path.as_str(), field, message))
    }
}

impl<'a> Pass<'a> {
    /// Returns the text of an existing file. `None` if it must be read first.
    fn text(&mut self, path: &ContentPath) -> Option<&'a Text> {
        let found = self.source.texts.get(path);
        if found.is_none() && !self.needs.contains(path) {
            self.needs.push(path.clone());
        }
        found
    }

    /// Returns the text of a file that another file refers to.
    fn referred(&mut self, path: &ContentPath, by: &Referrer<'_>, field: &str) -> Option<&'a str> {
        if !self.source.files.contains_key(path) {
            self.faults.push(by.fault(field, format!("there is no file '{path}'")));
            return None;
        }
        match self.text(path)? {
            Text::Utf8(text) => Some(text),
            Text::Binary(_) => {
                self.faults.push(by.fault(field, format!("'{path}' is not UTF-8 text")));
                None
            }
        }
    }

    /// Parses a text as JSON.
    fn json(&mut self, path: &ContentPath, text: &str, stage: Stage) -> Option<Located> {
        json::parse(path.as_str(), text).map_err(|fault| self.faults.push((stage, fault))).ok()
    }

    fn read<T: crate::parse::Read>(&mut self, path: &ContentPath, located: &Located, stage: Stage) -> Option<T> {
        located
            .read(path.as_str())
            .map_err(|faults| self.faults.extend(faults.into_iter().map(|fault| (stage, fault))))
            .ok()
    }

    fn indexed(&mut self, path: &ContentPath) {
        let text = match self.text(path) {
            Some(Text::Utf8(text)) => text,
            Some(Text::Binary(_)) => return self.faults.push((Stage::Index, Fault::whole(path, "is not UTF-8 text"))),
            None => return,
        };
        let Some(located) = self.json(path, text, Stage::Index) else { return };
        let Some(index) = self.read::<Index>(path, &located, Stage::Index) else { return };
        self.compiled.index_digest = self.source.files.get(path).map(|file| file.digest.clone());
        for (name, pack) in &index.prompt_packs {
            let by = Referrer { path, located: &located, stage: Stage::Index };
            if let Some(pack) = self.pack(name, pack, &index, &by) {
                self.compiled.packs.insert(name.clone(), pack);
            }
        }
        for (name, catalog) in &index.tool_catalogs {
            let by = Referrer { path, located: &located, stage: Stage::Index };
            if let Some(catalog) = self.catalog(name, catalog, &by) {
                self.compiled.catalogs.insert(name.clone(), catalog);
            }
        }
        for (number, entry) in index.resources.iter().enumerate() {
            let by = Referrer { path, located: &located, stage: Stage::Index };
            if let Some(resource) = self.resource(entry, &by, &format!("resources[{number}]")) {
                self.compiled.resources.insert(entry.uri.clone(), resource);
            }
        }
        self.compiled.default_prompt_pack = index.default_prompt_pack;
        self.compiled.default_tool_catalog = index.default_tool_catalog;
    }

    fn resource(&mut self, entry: &ResourceEntry, by: &Referrer<'_>, field: &str) -> Option<ResourceRef> {
        let ResourceEntry { uri, path, name, description, media_type } = entry.clone();
        let Some(file) = self.source.files.get(&path) else {
            self.faults.push(by.fault(field, format!("there is no file '{path}'")));
            return None;
        };
        if is_template(&uri) {
            self.referred(&path, by, field)?;
        }
        let guess = match path.extension().as_deref() {
            Some("json") => Some("application/json"),
            Some("md") => Some("text/markdown"),
            Some("txt") => Some("text/plain"),
            ending => IMAGES.iter().find(|(known, _)| ending == Some(known)).map(|(_, kind)| *kind),
        };
        let media_type = media_type.or_else(|| guess.map(str::to_owned));
        Some(ResourceRef { digest: file.digest.clone(), bytes: file.size, name, description, media_type })
    }

    fn pack(&mut self, name: &str, path: &ContentPath, index: &Index, by: &Referrer<'_>) -> Option<CompiledPack> {
        let text = self.referred(path, by, &format!("prompt_packs.{name}"))?;
        let located = self.json(path, text, Stage::PromptPack)?;
        let pack = self.read::<Pack>(path, &located, Stage::PromptPack)?;
        let by = Referrer { path, located: &located, stage: Stage::PromptPack };
        if pack.id.as_ref().is_some_and(|id| id != name) {
            self.faults.push(by.fault("id", format!("the index calls this pack '{name}'")));
        }
        let mut messages = Vec::new();
        for (number, template) in pack.templates.iter().enumerate() {
            messages.extend(self.template(template, &by, &format!("templates[{number}]")));
        }
        messages.extend(self.context(&pack.context, index, &by));
        let description = pack.description.map(|text| text.chars().take(DESCRIPTION_CHARS).collect());
        Some(CompiledPack { description, arguments: pack.arguments, messages, options: pack.options })
    }

    fn template(&mut self, template: &Template, by: &Referrer<'_>, field: &str) -> Vec<Message> {
        match &template.source {
            TemplateSource::Text(text) => vec![Message::text(template.role, text)],
            TemplateSource::Path(path) if path.extension().as_deref() == Some("json") => {
                let Some(text) = self.referred(path, by, field) else { return Vec::new() };
                let Some(located) = self.json(path, text, by.stage) else { return Vec::new() };
                if located.value.is_array() {
                    self.read::<Vec<Message>>(path, &located, by.stage).unwrap_or_default()
                } else {
                    self.read::<Message>(path, &located, by.stage).into_iter().collect()
                }
            }
            TemplateSource::Path(path) => {
                let text = self.referred(path, by, field);
                text.map(|text| Message::text(template.role, text)).into_iter().collect()
            }
        }
    }

    /// Builds one message from all static context: texts below their titles, images unchanged.
    fn context(&mut self, entries: &[Context], index: &Index, by: &Referrer<'_>) -> Option<Message> {
        let mut content = Vec::new();
        for (number, entry) in entries.iter().enumerate() {
            let field = format!("context[{number}]");
            match entry {
                Context::File { path, title, media_type } => {
                    content.extend(self.context_file(path, title.as_deref(), media_type.as_deref(), by, &field));
                }
                Context::Group(group) => match index.context_groups.get(group) {
                    Some(paths) => {
                        for path in paths {
                            content.extend(self.context_file(path, None, None, by, &field));
                        }
                    }
                    None => self.faults.push(by.fault(&field, format!("the index has no context group '{group}'"))),
                },
            }
        }
        let message =
            Message { role: Role::User, content, tool_calls: Vec::new(), tool_call_id: None, is_error: false };
        (!message.content.is_empty()).then_some(message)
    }

    fn context_file(
        &mut self,
        path: &ContentPath,
        title: Option<&str>,
        media_type: Option<&str>,
        by: &Referrer<'_>,
        field: &str,
    ) -> Option<Part> {
        let ending = path.extension();
        let by_name = IMAGES.iter().find(|(known, _)| ending.as_deref() == Some(known)).map(|(_, kind)| *kind);
        match media_type.or(by_name).filter(|kind| kind.starts_with("image/")) {
            Some(kind) => {
                let Some(file) = self.source.files.get(path) else {
                    self.faults.push(by.fault(field, format!("there is no file '{path}'")));
                    return None;
                };
                let text = self.text(path)?;
                if !is_image(kind, text.head()) {
                    self.faults.push(by.fault(field, format!("'{path}' is not an image of type {kind}")));
                    return None;
                }
                Some(Part::Image { media_type: kind.to_owned(), digest: Some(file.digest.clone()), data: None })
            }
            None => {
                let text = self.referred(path, by, field)?;
                let title = title.unwrap_or(path.as_str());
                let (title, text) = (attribute(title), enclosed(text, "context"));
                Some(Part::Text { text: format!("<context title=\"{title}\">\n{text}\n</context>") })
            }
        }
    }

    fn catalog(&mut self, name: &str, path: &ContentPath, by: &Referrer<'_>) -> Option<CompiledCatalog> {
        let text = self.referred(path, by, &format!("tool_catalogs.{name}"))?;
        let located = self.json(path, text, Stage::ToolCatalog)?;
        let catalog = self.read::<Catalog>(path, &located, Stage::ToolCatalog)?;
        let by = Referrer { path, located: &located, stage: Stage::ToolCatalog };
        if catalog.id.as_ref().is_some_and(|id| id != name) {
            self.faults.push(by.fault("id", format!("the index calls this catalog '{name}'")));
        }
        let prefix = if located.value.is_array() { "" } else { "tools" };
        let mut tools: Vec<CompiledTool> = Vec::new();
        for (number, entry) in catalog.tools.into_iter().enumerate() {
            let field = format!("{prefix}[{number}]");
            let tool = match entry {
                CatalogEntry::Inline(descriptor) => {
                    Some(CompiledTool { descriptor: *descriptor, position: by.fault(&field, "").1 })
                }
                CatalogEntry::Path(path) => self.descriptor(&path, &by, &field),
            };
            let Some(tool) = tool else { continue };
            self.add_tool(&mut tools, tool, |message| by.fault(&field, message));
        }
        Some(CompiledCatalog { tools, tool_choice: catalog.tool_choice })
    }

    fn descriptor(&mut self, path: &ContentPath, by: &Referrer<'_>, field: &str) -> Option<CompiledTool> {
        let text = self.referred(path, by, field)?;
        let located = self.json(path, text, by.stage)?;
        let descriptor = self.read::<Descriptor>(path, &located, by.stage)?;
        Some(CompiledTool { descriptor, position: located.fault(path.as_str(), "", "") })
    }

    /// Adds a tool unless the catalog has one with the same vendor name, which a vendor could not
    /// tell apart.
    fn add_tool(
        &mut self,
        tools: &mut Vec<CompiledTool>,
        tool: CompiledTool,
        fault: impl FnOnce(String) -> (Stage, Fault),
    ) {
        let name = tool.descriptor.vendor_name();
        match tools.iter().find(|known| known.descriptor.vendor_name() == name) {
            Some(known) => {
                let message = format!("the catalog has a tool '{}' already", known.descriptor.name);
                self.faults.push(fault(message));
            }
            None => tools.push(tool),
        }
    }

    /// Compiles a tree without an index: every `tools/*.json` is a descriptor, sorted by name.
    fn legacy(&mut self) {
        let is_tool = |path: &&ContentPath| {
            path.as_str().strip_prefix("tools/").is_some_and(|name| !name.contains('/') && name.ends_with(".json"))
        };
        let paths: Vec<ContentPath> = self.source.files.keys().filter(is_tool).cloned().collect();
        if paths.is_empty() {
            let message = "is missing, and there are no tools/*.json to fall back to";
            self.faults.push((Stage::Index, Fault::whole(INDEX, message)));
            return;
        }
        let mut tools = Vec::new();
        for path in paths {
            let text = match self.text(&path) {
                Some(Text::Utf8(text)) => text,
                Some(Text::Binary(_)) => {
                    self.faults.push((Stage::ToolCatalog, Fault::whole(&path, "is not UTF-8 text")));
                    continue;
                }
                None => continue,
            };
            let Some(located) = self.json(&path, text, Stage::ToolCatalog) else { continue };
            let Some(descriptor) = self.read::<Descriptor>(&path, &located, Stage::ToolCatalog) else { continue };
            let tool = CompiledTool { descriptor, position: located.fault(path.as_str(), "", "") };
            self.add_tool(&mut tools, tool, |message| {
                (Stage::ToolCatalog, located.fault(path.as_str(), "name", message))
            });
        }
        self.compiled.catalogs.insert("default".to_owned(), CompiledCatalog { tools, tool_choice: None });
        self.compiled.default_tool_catalog = Some("default".to_owned());
        let message = "is missing: tools/*.json were read instead, which a later version may not do";
        self.compiled.warnings.push((WarningCode::LegacyToolsScan, Fault::whole(INDEX, message)));
    }
}
