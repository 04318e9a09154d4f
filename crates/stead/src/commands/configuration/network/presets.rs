//! `stead network presets`

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use stead_core::network::{NetworkRule, Presets, preset};

use super::preset_hosts::{self, Found};
use crate::config::Config;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Mark, Table};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: stead network presets --write")]
pub(crate) struct PresetsCommand {
    /// Ask the package managers of this machine for their hosts, and add missing presets to
    /// stead.toml
    #[arg(long)]
    write: bool,
}

#[derive(Serialize)]
struct Listing {
    items: Vec<Listed>,
}

#[derive(Serialize)]
struct Listed {
    name: String,
    rules: Vec<NetworkRule>,
}

impl PresetsCommand {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let presets = context.config.network_presets()?;
        let presets = if self.write { fill(context, &presets)? } else { presets };
        let listed = Listing { items: listed(&presets) };
        context.out.either(&listed, || {
            let mut table = Table::new(&["preset", "hosts"]);
            for preset in &listed.items {
                let hosts: Vec<String> = preset.rules.iter().map(shown).collect();
                let hosts = if hosts.is_empty() { "– (not in stead.toml)".to_owned() } else { hosts.join(", ") };
                table.row(&[&preset.name, &hosts]);
            }
            context.out.table(&table)
        })
    }
}

/// The presets of the file, and the usual ones that it does not have.
fn listed(presets: &Presets) -> Vec<Listed> {
    let own = presets.iter().map(|(name, _)| name.as_str());
    let names: BTreeSet<&str> = own.chain(preset::USUAL.iter().copied()).collect();
    names.into_iter().map(|name| Listed { name: name.to_owned(), rules: presets.rules(name).to_vec() }).collect()
}

fn shown(rule: &NetworkRule) -> String {
    match rule {
        NetworkRule::Name(name) => name.clone(),
        NetworkRule::Detailed(rule) => {
            let ports: Vec<String> = rule.ports.iter().flatten().map(ToString::to_string).collect();
            format!("{}:{}", rule.host, ports.join(","))
        }
    }
}

/// Adds the presets that the file does not have.
fn fill(context: &Context, presets: &Presets) -> Result<Presets, Failure> {
    let mut added = String::new();
    for name in preset::USUAL.iter().filter(|name| presets.rules(name).is_empty()) {
        match preset_hosts::ask(name) {
            Ok(Found { rules, from }) => {
                let list = rules.iter().map(toml_value).collect::<Result<Vec<_>, _>>()?.join(", ");
                let _ = writeln!(added, "# {from}\n{name} = [{list}]");
            }
            Err(why) => context.out.note(&format!("{name}: {why}")),
        }
    }
    if added.is_empty() {
        return Ok(presets.clone());
    }
    let path = context.config.file_path();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(Failure::new(format!("cannot read {}", path.display())).because(&error)),
    };
    let text = with_presets(&text, &added);
    let read = Config::presets_of(&text, path)?;
    write(path, &text)?;
    if !context.out.is_json() {
        context.out.marked(Mark::Good, &format!("wrote {}", path.display()))?;
        context.out.note("a running server reads the file when it starts: stead stop, then stead serve or stead up");
    }
    Ok(read)
}

fn toml_value(rule: &NetworkRule) -> Result<String, Failure> {
    let value = toml::Value::try_from(rule).map_err(|error| Failure::new("cannot write a rule").because(&error))?;
    // The display form of a table has lines of its own. An inline table is one line.
    Ok(match value {
        toml::Value::Table(table) => {
            let fields: Vec<String> = table.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        other => other.to_string(),
    })
}

/// Returns the text of the file with further lines in `[network.presets]`. The rest of the file
/// does not change, also its comments.
fn with_presets(text: &str, added: &str) -> String {
    const HEADER: &str = "[network.presets]";
    let mut lines: Vec<&str> = text.lines().collect();
    match lines.iter().position(|line| line.trim() == HEADER) {
        Some(at) => {
            lines.insert(at + 1, added.trim_end());
            lines.join("\n") + "\n"
        }
        None => {
            let gap = if text.is_empty() || text.ends_with("\n\n") { "" } else { "\n" };
            let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            format!("{text}{end}{gap}{HEADER}\n{added}")
        }
    }
}

/// Replaces the file in one step.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: &std::io::Error| Failure::new(format!("cannot write {}", path.display())).because(error);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    }
    let beside = path.with_extension("toml.new");
    std::fs::write(&beside, text).map_err(|error| failed(&error))?;
    if let Ok(before) = std::fs::metadata(path) {
        std::fs::set_permissions(&beside, before.permissions()).map_err(|error| failed(&error))?;
    }
    std::fs::rename(&beside, path).map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stanza_is_added_once_and_the_rest_stays() {
        assert_eq!(with_presets("", "a = [\"x.example\"]\n"), "[network.presets]\na = [\"x.example\"]\n");
        let file = "# mine\nlisten = \"127.0.0.1:1\"\n";
        let once = with_presets(file, "a = [\"x.example\"]\n");
        assert_eq!(once, format!("{file}\n[network.presets]\na = [\"x.example\"]\n"));
        let twice = with_presets(&once, "b = [\"y.example\"]\n");
        assert_eq!(twice, format!("{file}\n[network.presets]\nb = [\"y.example\"]\na = [\"x.example\"]\n"));
        let path = Path::new("stead.toml");
        assert_eq!(Config::presets_of(&twice, path).unwrap().iter().count(), 2);
    }
}
