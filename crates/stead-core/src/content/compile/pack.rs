//! Prompt packs: the texts and the context that a model gets, in order.

use serde_json::Value;

use crate::config::Bounded;
use crate::content::message::{IMAGES, Role};
use crate::content::options::{Options, ResponseFormat};
use crate::content::path::ContentPath;
use crate::content::resource::PackArgument;
use crate::parse::{FieldPath, Fields, Read};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pack {
    pub id: Option<String>,
    /// For people who choose a pack. No model receives it.
    pub description: Option<String>,
    /// Arguments that a client gives with the pack as a prompt. A text has their values at
    /// `{{name}}`.
    pub arguments: Vec<PackArgument>,
    pub templates: Vec<Template>,
    pub context: Vec<Context>,
    pub options: Options,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pub role: Role,
    pub source: TemplateSource,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateSource {
    /// A text file, or a file with messages if its name ends in `.json`.
    Path(ContentPath),
    Text(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Context {
    File {
        path: ContentPath,
        title: Option<String>,
        media_type: Option<String>,
    },
    /// The files of one of the index's context groups.
    Group(String),
}

impl Read for Pack {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let _: Option<String> = fields.optional("$schema");
        let (id, description) = (fields.optional("id"), fields.optional("description"));
        let arguments = fields.or("arguments", Vec::<PackArgument>::new());
        if arguments.len() > MAX_ARGUMENTS {
            fields.fail("arguments", format!("at most {MAX_ARGUMENTS} entries"));
        }
        let templates = fields.required("templates");
        let context = fields.or("context", Vec::new());
        let mut options = fields.or("options", Options::default());
        if let Some(format) = fields.optional::<ResponseFormat>("response_format") {
            if options.response_format.is_some() {
                fields.fail("response_format", "is given in options, too");
            }
            options.response_format = Some(format);
        }
        fields.done();
        templates.map(|templates| Self { id, description, arguments, templates, context, options })
    }
}

/// Maximum number of arguments of a pack. The journal records them.
const MAX_ARGUMENTS: usize = 64;

impl Read for PackArgument {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let name = fields.required::<Bounded<1, 64>>("name").map(|name| name.0);
        let plain = |name: &String| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        if name.as_ref().is_some_and(|name| !plain(name)) {
            fields.fail("name", "has ASCII letters, digits, _ and -");
        }
        let description = fields.optional::<Bounded<1, 1000>>("description").map(|text| text.0);
        let required = fields.or("required", false);
        fields.done();
        name.map(|name| Self { name, description, required })
    }
}

impl Read for Template {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        if value.is_string() {
            return ContentPath::read(value, at)
                .map(|path| Self { role: Role::System, source: TemplateSource::Path(path) });
        }
        let mut fields = Fields::of(value, at)?;
        let role = fields.or("role", Role::System);
        let (path, text) = (fields.optional::<ContentPath>("path"), fields.optional::<String>("text"));
        if role == Role::Tool {
            fields.fail("role", "a template is a system, user or assistant message");
        }
        let source = match (path, text) {
            (Some(path), None) => Some(TemplateSource::Path(path)),
            (None, Some(text)) => Some(TemplateSource::Text(text)),
            _ => {
                fields.fail("path", "give either path or text");
                None
            }
        };
        fields.done();
        source.map(|source| Self { role, source })
    }
}

impl Read for Context {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        if value.is_string() {
            return ContentPath::read(value, at).map(|path| Self::File { path, title: None, media_type: None });
        }
        let mut fields = Fields::of(value, at)?;
        let (path, group) = (fields.optional::<ContentPath>("path"), fields.optional::<String>("group"));
        let (title, media_type) = (fields.optional::<String>("title"), fields.optional::<String>("media_type"));
        let known = |kind: &String| kind.starts_with("text/") || IMAGES.iter().any(|(_, known)| known == kind);
        if media_type.as_ref().is_some_and(|kind| !known(kind)) {
            fields.fail("media_type", "expected text/… or image/png, image/jpeg, image/gif, image/webp");
        }
        let context = match (path, group) {
            (Some(path), None) => Some(Self::File { path, title, media_type }),
            (None, Some(group)) => Some(Self::Group(group)),
            _ => {
                fields.fail("path", "give either path or group");
                None
            }
        };
        fields.done();
        context
    }
}
