//! `agent.workspace.json`, the index of a content tree.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::config::Bounded;
use crate::content::path::ContentPath;
use crate::parse::{FieldPath, Fields, Read};

/// Path of the index file.
pub const INDEX: &str = "agent.workspace.json";

/// The only supported schema version.
pub const SCHEMA_VERSION: u64 = 1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    pub prompt_packs: BTreeMap<String, ContentPath>,
    pub tool_catalogs: BTreeMap<String, ContentPath>,
    pub context_groups: BTreeMap<String, Vec<ContentPath>>,
    /// Files that clients can read, by their addresses.
    pub resources: Vec<ResourceEntry>,
    pub default_prompt_pack: Option<String>,
    pub default_tool_catalog: Option<String>,
}

impl Read for Index {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let _: Option<String> = fields.optional("$schema");
        let _: Option<String> = fields.optional("description");
        let version = fields.required::<u64>("schema_version");
        if version.is_some_and(|version| version != SCHEMA_VERSION) {
            fields.fail("schema_version", format!("must be {SCHEMA_VERSION}"));
        }
        let prompt_packs = fields.or("prompt_packs", Named(BTreeMap::new())).0;
        let tool_catalogs = fields.or("tool_catalogs", Named(BTreeMap::new())).0;
        let context_groups = fields.or("context_groups", Named(BTreeMap::new())).0;
        let resources = fields.or("resources", Vec::<ResourceEntry>::new());
        let mut addresses: Vec<&String> = resources.iter().map(|entry| &entry.uri).collect();
        addresses.sort_unstable();
        if let Some(twice) = addresses.windows(2).find(|pair| pair[0] == pair[1]) {
            fields.fail("resources", format!("the address '{}' occurs twice", twice[0]));
        }
        if resources.len() > MAX_RESOURCES {
            fields.fail("resources", format!("at most {MAX_RESOURCES} entries"));
        }
        let defaults = fields.or("defaults", Defaults { prompt_pack: None, tool_catalog: None });
        let Defaults { prompt_pack, tool_catalog } = defaults;
        if let Some(missing) = prompt_pack.as_ref().filter(|name| !prompt_packs.contains_key(*name)) {
            fields.fail("defaults.prompt_pack", format!("there is no prompt pack '{missing}' in prompt_packs"));
        }
        let known = |name: &String| tool_catalogs.contains_key(name) || crate::content::profile::find(name).is_some();
        if let Some(missing) = tool_catalog.as_ref().filter(|name| !known(name)) {
            fields.fail("defaults.tool_catalog", format!("there is no tool catalog '{missing}' in tool_catalogs"));
        }
        fields.done();
        version.map(|_| Self {
            prompt_packs,
            tool_catalogs,
            context_groups,
            resources,
            default_prompt_pack: prompt_pack,
            default_tool_catalog: tool_catalog,
        })
    }
}

/// Maximum number of resources. The journal records them.
const MAX_RESOURCES: usize = 256;

/// A file under an address. An address with `{name}` is a template, and the file has the values at
/// `{{name}}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceEntry {
    pub uri: String,
    pub path: ContentPath,
    pub name: Option<String>,
    pub description: Option<String>,
    pub media_type: Option<String>,
}

impl Read for ResourceEntry {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let (uri, path) = (fields.required::<Bounded<3, 1024>>("uri"), fields.required::<ContentPath>("path"));
        if uri.as_ref().is_some_and(|uri| !is_address(&uri.0)) {
            fields.fail("uri", "expected a scheme other than stead, a colon and printable ASCII, with closed braces");
        }
        let text = |fields: &mut Fields<'_, '_>, key: &'static str| {
            fields.optional::<Bounded<1, 1000>>(key).map(|text| text.0)
        };
        let (name, description) = (text(&mut fields, "name"), text(&mut fields, "description"));
        let media_type = text(&mut fields, "media_type");
        fields.done();
        uri.zip(path).map(|(uri, path)| Self { uri: uri.0, path, name, description, media_type })
    }
}

fn is_address(uri: &str) -> bool {
    let Some((scheme, rest)) = uri.split_once(':') else { return false };
    let named = scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+.-".contains(&byte));
    let mut parts = rest.split('{');
    let plain = parts.next().is_some_and(|part| !part.contains('}'));
    let closed = |part: &str| part.split_once('}').is_some_and(|(name, rest)| !name.is_empty() && !rest.contains('}'));
    let variables = plain && parts.all(closed);
    named && scheme != "stead" && variables && !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_graphic())
}

struct Defaults {
    prompt_pack: Option<String>,
    tool_catalog: Option<String>,
}

impl Read for Defaults {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let defaults =
            Self { prompt_pack: fields.optional("prompt_pack"), tool_catalog: fields.optional("tool_catalog") };
        fields.done();
        Some(defaults)
    }
}

/// Maximum length of the name of a pack, a catalog or a group.
pub const NAME_CHARS: usize = 128;

/// Values by the names of packs, catalogs or groups.
struct Named<T>(BTreeMap<String, T>);

impl<T: Read> Read for Named<T> {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let named = BTreeMap::<String, T>::read(value, at)?;
        match named.keys().find(|name| name.is_empty() || name.chars().count() > NAME_CHARS) {
            Some(name) => {
                let shown: String = name.chars().take(NAME_CHARS).collect();
                at.child(&shown).fail(format!("a name has 1 to {NAME_CHARS} characters"))
            }
            None => Some(Self(named)),
        }
    }
}
