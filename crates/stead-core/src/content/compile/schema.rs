//! The published JSON Schemas of content files, compiled in from `docs/reference/schemas`.

/// The name and text of each schema.
pub const SCHEMAS: &[(&str, &str)] = &[
    ("agent.workspace.schema.json", include_str!("../../../../../docs/reference/schemas/agent.workspace.schema.json")),
    ("prompt-pack.schema.json", include_str!("../../../../../docs/reference/schemas/prompt-pack.schema.json")),
    ("tool-catalog.schema.json", include_str!("../../../../../docs/reference/schemas/tool-catalog.schema.json")),
    ("tool-descriptor.schema.json", include_str!("../../../../../docs/reference/schemas/tool-descriptor.schema.json")),
];

pub fn find(name: &str) -> Option<&'static str> {
    SCHEMAS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
