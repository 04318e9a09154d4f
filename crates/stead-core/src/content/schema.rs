//! The published JSON Schemas of content files. `docs/spec/schemas` is where they live; this is how programs get at them.

/// Name and text of each.
pub const SCHEMAS: &[(&str, &str)] = &[
    ("agent.workspace.schema.json", include_str!("../../../../docs/spec/schemas/agent.workspace.schema.json")),
    ("prompt-pack.schema.json", include_str!("../../../../docs/spec/schemas/prompt-pack.schema.json")),
    ("tool-catalog.schema.json", include_str!("../../../../docs/spec/schemas/tool-catalog.schema.json")),
    ("tool-descriptor.schema.json", include_str!("../../../../docs/spec/schemas/tool-descriptor.schema.json")),
];

pub fn find(name: &str) -> Option<&'static str> {
    SCHEMAS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
