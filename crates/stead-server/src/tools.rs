//! Lookup of tools by name.

use stead_api::Parameters;
use stead_api::tool::Definition;
use stead_core::Resource;
use stead_core::tool::ToolName;

use crate::problem::{Code, Problem};

pub(crate) fn named(name: &str) -> Option<ToolName> {
    Definition::named(name).map(|tool| tool.name)
}

pub(crate) fn unknown(name: &str) -> Problem {
    let shown: String = name.chars().take(80).collect();
    Problem::new(Code::NotFound, format!("there is no tool '{shown}' (valid: {})", ToolName::valid()))
        .about(Parameters::of(Resource::Tool, shown))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use stead_fs::tools::{self as files, FileTool};
    use stead_fs::{Limits, MemoryFs};

    use super::*;

    #[test]
    fn a_tool_is_found_by_its_name_and_by_its_aliases() {
        assert_eq!(named("shell_execute"), Some(ToolName::Bash));
        assert_eq!(named("bash"), Some(ToolName::Bash));
        assert_eq!(named("ssh"), None);
    }

    #[test]
    fn every_schema_names_each_parameter_with_a_description() {
        for tool in Definition::all() {
            let schema = (tool.parameters)();
            assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
            assert!(schema.get("anyOf").is_none(), "model providers refuse a choice at the top");
            for (name, parameter) in schema["properties"].as_object().unwrap() {
                assert!(parameter["description"].is_string(), "{} {name}", tool.name);
            }
        }
    }

    /// Returns the error of the argument reader in `stead-fs`. That reader runs inside the box and
    /// cannot use the definitions.
    fn refusal(tool: ToolName, arguments: &Value) -> String {
        let tool: FileTool = tool.as_str().parse().unwrap();
        let call = files::Call { tool, arguments, limits: &Limits::default(), now_millis: 0 };
        files::call(&mut MemoryFs::new(), call).outcome.err().map(|error| error.message).unwrap_or_default()
    }

    #[test]
    fn the_reader_of_the_file_tools_takes_what_their_schemas_say() {
        for file_tool in FileTool::ALL {
            let tool = Definition::named(file_tool.name()).unwrap();
            let schema = (tool.parameters)();
            let properties = schema["properties"].as_object().unwrap();
            let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
            // A value of the wrong type gives an error that names the parameter. So the reader
            // knows it.
            for name in properties.keys() {
                let said = refusal(tool.name, &json!({ name: {"wrong": 1} }));
                assert!(!said.contains("Unknown argument") && !said.is_empty(), "{file_tool} {name}: {said}");
            }
            assert!(refusal(tool.name, &json!({"wrong": 1})).contains("Unknown argument"), "{file_tool}");
            // If one required parameter is missing, the error names it.
            for missing in &required {
                let given = required.iter().filter(|name| *name != missing);
                let given: Value = given.map(|name| (name.as_str().unwrap().to_owned(), json!("x"))).collect();
                let said = refusal(tool.name, &given);
                assert!(
                    said.contains("is required") && said.contains(missing.as_str().unwrap()),
                    "{file_tool}: {said}"
                );
            }
            let all: Value = required.iter().map(|name| (name.as_str().unwrap().to_owned(), json!("x"))).collect();
            assert!(!refusal(tool.name, &all).contains("is required"), "{file_tool}");
        }
    }
}
