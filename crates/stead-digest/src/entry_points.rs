//! Entry points of programs, found by file names and manifests.

use serde_json::Value;

use crate::language;
use crate::survey::Survey;

const MOST: usize = 20;

/// Returns each path or name with the reason why it is an entry point.
pub(crate) fn find(survey: &Survey) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for file in survey.own().filter(|file| !language::is_test(&file.path)) {
        if let Some(what) = by_name(&file.path) {
            found.push((file.path.clone(), what.to_owned()));
        }
    }
    found.sort_by_key(|(path, _)| (path.matches('/').count(), path.clone()));
    let mut declared = manifests(survey);
    declared.extend(found);
    declared.dedup();
    declared.truncate(MOST);
    declared
}

fn by_name(path: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let depth = path.matches('/').count();
    let example = path.split('/').any(|part| matches!(part, "examples" | "example" | "samples" | "docs" | "benches"));
    if example {
        return None;
    }
    Some(match name {
        "main.rs" => "Rust binary",
        "lib.rs" if path == "src/lib.rs" => "Rust library",
        _ if name.ends_with(".rs") && path.contains("src/bin/") => "Rust binary",
        "main.go" => "Go program",
        "__main__.py" => "Python module run by `python -m`",
        "manage.py" if depth == 0 => "Django management",
        "Main.java" | "Application.java" => "Java program",
        "main.c" | "main.cc" | "main.cpp" => "program",
        "Dockerfile" if depth <= 1 => "container image",
        _ => return None,
    })
}

fn manifests(survey: &Survey) -> Vec<(String, String)> {
    let mut found = Vec::new();
    if let Some(package) = survey.text("package.json").and_then(|text| serde_json::from_str::<Value>(text).ok()) {
        for field in ["main", "module", "types"] {
            if let Some(path) = package[field].as_str() {
                found.push((path.to_owned(), format!("package.json, {field}")));
            }
        }
        match &package["bin"] {
            Value::String(path) => found.push((path.clone(), "package.json, bin".to_owned())),
            Value::Object(commands) => {
                let mut commands: Vec<_> =
                    commands.iter().filter_map(|(name, path)| Some((name, path.as_str()?))).collect();
                commands.sort();
                found.extend(
                    commands.into_iter().map(|(name, path)| (path.to_owned(), format!("package.json, command {name}"))),
                );
            }
            _ => {}
        }
    }
    if let Some(project) = survey.text("pyproject.toml").and_then(|text| text.parse::<toml::Table>().ok()) {
        let scripts = |table: Option<&toml::Value>| -> Vec<(String, String)> {
            let entries = table.and_then(toml::Value::as_table).into_iter().flatten();
            let mut entries: Vec<_> = entries
                .filter_map(|(name, target)| {
                    Some((target.as_str()?.to_owned(), format!("pyproject.toml, command {name}")))
                })
                .collect();
            entries.sort();
            entries
        };
        found.extend(scripts(project.get("project").and_then(|project| project.get("scripts"))));
        let poetry = project.get("tool").and_then(|tool| tool.get("poetry")).and_then(|poetry| poetry.get("scripts"));
        found.extend(scripts(poetry));
    }
    found
}
