//! `package.json` scripts, at the root and in workspace members.

use serde_json::Value;

use super::{Found, Role, inside};
use crate::survey::{File, Survey};

const MOST_PACKAGES: usize = 12;
const MOST_SCRIPTS: usize = 40;

pub(super) fn find(survey: &Survey, found: &mut Vec<Found>) {
    let runner = runner(survey);
    if survey.has("package.json") {
        found.push(Found::new(Role::Setup, format!("{runner} install"), "package.json"));
    }
    for file in survey.named("package.json").into_iter().filter(|file| file.depth() <= 2).take(MOST_PACKAGES) {
        scripts(file, runner, found);
    }
    if let Some(deno) = survey.text("deno.json").and_then(|text| serde_json::from_str::<Value>(text).ok()) {
        for name in deno["tasks"].as_object().into_iter().flat_map(|tasks| tasks.keys()).take(MOST_SCRIPTS) {
            found.push(Found::new(Role::of_name(name), format!("deno task {name}"), "deno.json"));
        }
    }
}

/// The package manager whose lock file exists; npm otherwise.
fn runner(survey: &Survey) -> &'static str {
    let locks = [("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"), ("bun.lock", "bun"), ("bun.lockb", "bun")];
    locks.into_iter().find(|(lock, _)| survey.has(lock)).map_or("npm", |(_, runner)| runner)
}

fn scripts(file: &File, runner: &str, found: &mut Vec<Found>) {
    let Some(package) = file.text().and_then(|text| serde_json::from_str::<Value>(text).ok()) else { return };
    let scripts = package["scripts"].as_object().into_iter().flatten();
    for (name, script) in scripts.filter_map(|(name, script)| Some((name, script.as_str()?))).take(MOST_SCRIPTS) {
        let role = match Role::of_name(name) {
            Role::Other => Role::of_command(script),
            role => role,
        };
        let command = inside(file.directory(), &format!("{runner} run {name}"));
        found.push(Found::new(role, command, &file.path).meaning(script));
    }
}
