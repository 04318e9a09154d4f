//! `stead mcp install CLIENT`: adds Stead to an agent's settings. The command writes only with
//! `--write`, and keeps all existing settings.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::failure::Failure;

const NAME: &str = "stead";

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Client {
    ClaudeCode,
    Codex,
    Cursor,
    Vscode,
    Zed,
}

#[derive(Debug, clap::Args)]
pub(super) struct Install {
    /// The agent to set up
    client: Client,
    /// Write the change instead of showing it
    #[arg(long)]
    write: bool,
    /// Settings file, if it is not at the agent's default path
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Let the agent change the project's directory itself, with checkpoints, instead of a copy
    #[arg(long, conflicts_with = "args")]
    live: bool,
    /// Arguments of `stead` when the agent starts it [default: mcp --dir .]
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,
}

impl Install {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let path = match &self.file {
            Some(path) => path.clone(),
            None => self.client.settings()?,
        };
        let before = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Failure::new(format!("cannot read {}", path.display())).because(&error)),
        };
        let after = self.client.with_stead(&before, &self.arguments()).map_err(|why| self.refusal(&path, &why))?;
        let changed = after != before;
        if self.write && changed {
            write(&path, &after)?;
        }
        let answer = json!({"client": self.client.name(), "file": path, "changed": changed, "written": self.write && changed, "settings": after});
        context.out.either(&answer, || self.show(context, &path, &before, &after))
    }

    fn show(&self, context: &Context, path: &Path, before: &str, after: &str) -> Result<(), Failure> {
        if before == after {
            return context.out.line(&format!("{} already contains these settings", path.display()));
        }
        let name = path.display().to_string();
        let patch = similar::TextDiff::from_lines(before, after).unified_diff().header(&name, &name).to_string();
        context.out.content(&patch)?;
        context.out.note(if self.write { "written" } else { "nothing was written; --write writes the change" });
        Ok(())
    }

    fn arguments(&self) -> Vec<String> {
        if !self.args.is_empty() {
            return self.args.clone();
        }
        let live = self.live.then_some("--live");
        ["mcp", "--dir", "."].into_iter().chain(live).map(str::to_owned).collect()
    }

    fn refusal(&self, path: &Path, why: &str) -> Failure {
        let wanted = self.client.with_stead("", &self.arguments()).unwrap_or_default();
        Failure::new(format!("cannot change {}: {why}", path.display())).hint(format!("add this yourself:\n{wanted}"))
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("cannot write {}", path.display())).because(&error);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(failed)?;
    // Replace the file atomically, because it holds the user's settings.
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(failed)?;
    if let Ok(metadata) = std::fs::metadata(path) {
        file.as_file().set_permissions(metadata.permissions()).map_err(failed)?;
    }
    file.as_file().sync_all().map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

impl Client {
    fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
            Self::Zed => "zed",
        }
    }

    /// The project's settings file if the agent has one, else the user's.
    fn settings(self) -> Result<PathBuf, Failure> {
        let home = || {
            std::env::var_os("HOME")
                .map(PathBuf::from)
                .ok_or_else(|| Failure::usage("HOME is not set; name the file with --file"))
        };
        Ok(match self {
            Self::ClaudeCode => ".mcp.json".into(),
            Self::Cursor => ".cursor/mcp.json".into(),
            Self::Vscode => ".vscode/mcp.json".into(),
            Self::Codex => home()?.join(".codex/config.toml"),
            Self::Zed => match std::env::var_os("XDG_CONFIG_HOME") {
                Some(folder) => PathBuf::from(folder).join("zed/settings.json"),
                None => home()?.join(".config/zed/settings.json"),
            },
        })
    }

    /// Adds Stead to the agent's servers and keeps all other settings.
    fn with_stead(self, before: &str, args: &[String]) -> Result<String, String> {
        let command = json!({"command": "stead", "args": args});
        match self {
            Self::Codex => toml_with(before, args),
            Self::ClaudeCode | Self::Cursor => json_with(before, "mcpServers", command),
            Self::Vscode => json_with(before, "servers", json!({"type": "stdio", "command": "stead", "args": args})),
            Self::Zed => json_with(
                before,
                "context_servers",
                json!({"source": "custom", "command": "stead", "args": args, "env": {}}),
            ),
        }
    }
}

fn json_with(before: &str, list: &str, entry: Value) -> Result<String, String> {
    let mut settings = if before.trim().is_empty() {
        Map::new()
    } else {
        let parsed =
            serde_json::from_str::<Value>(before).map_err(|error| format!("it is not plain JSON ({error})"))?;
        parsed.as_object().cloned().ok_or("it does not hold a JSON object")?
    };
    let servers = settings.entry(list.to_owned()).or_insert_with(|| json!({}));
    let servers = servers.as_object_mut().ok_or_else(|| format!("its {list} is not an object"))?;
    if servers.get(NAME) == Some(&entry) {
        return Ok(before.to_owned());
    }
    servers.insert(NAME.to_owned(), entry);
    Ok(format!("{:#}\n", Value::Object(settings)))
}

/// Appends the entry, so that every comment stays in place.
fn toml_with(before: &str, args: &[String]) -> Result<String, String> {
    let parsed: toml::Table =
        before.parse().map_err(|error: toml::de::Error| format!("it is not TOML ({})", error.message()))?;
    let wanted =
        toml::Table::from_iter([("command".to_owned(), "stead".into()), ("args".to_owned(), args.to_vec().into())]);
    let there = parsed.get("mcp_servers").and_then(|servers| servers.get(NAME));
    match there {
        Some(toml::Value::Table(there)) if *there == wanted => return Ok(before.to_owned()),
        Some(_) => return Err(format!("it has other settings under [mcp_servers.{NAME}]")),
        None => {}
    }
    let gap = match before {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    let after = format!("{before}{gap}[mcp_servers.{NAME}]\n{wanted}");
    // An inline table elsewhere in the file would make the appended table invalid.
    let _: toml::Table = after.parse().map_err(|_| "no table can be added to its [mcp_servers]".to_owned())?;
    Ok(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> Vec<String> {
        vec!["mcp".into(), "--dir".into(), ".".into()]
    }

    #[test]
    fn each_agent_finds_stead_where_it_looks() {
        let json = |client: Client, before: &str| -> Value {
            serde_json::from_str(&client.with_stead(before, &args()).unwrap()).unwrap()
        };
        assert_eq!(json(Client::ClaudeCode, "")["mcpServers"]["stead"]["command"], "stead");
        assert_eq!(json(Client::Vscode, "{}")["servers"]["stead"]["args"], json!(["mcp", "--dir", "."]));
        assert_eq!(json(Client::Zed, "")["context_servers"]["stead"]["source"], "custom");
        let kept = json(Client::Cursor, r#"{"mcpServers":{"other":{"url":"x"}},"y":1}"#);
        assert_eq!((&kept["mcpServers"]["other"]["url"], &kept["y"]), (&json!("x"), &json!(1)));
        let text = Client::Codex.with_stead("# mine\nmodel = \"m\"\n", &args()).unwrap();
        assert!(text.starts_with("# mine\nmodel = \"m\"\n"), "{text}");
        let table: toml::Table = text.parse().unwrap();
        assert_eq!(table["mcp_servers"]["stead"]["args"][2].as_str(), Some("."));
    }

    #[test]
    fn twice_is_once_and_what_cannot_be_kept_is_refused() {
        for client in [Client::ClaudeCode, Client::Codex, Client::Cursor, Client::Vscode, Client::Zed] {
            let once = client.with_stead("", &args()).unwrap();
            assert_eq!(client.with_stead(&once, &args()).unwrap(), once);
        }
        assert!(Client::Zed.with_stead("// a comment\n{}", &args()).unwrap_err().contains("plain JSON"));
        assert!(Client::Cursor.with_stead(r#"{"mcpServers":[]}"#, &args()).is_err());
        assert!(
            Client::Codex
                .with_stead("[mcp_servers.stead]\ncommand = \"x\"\n", &args())
                .unwrap_err()
                .contains("other settings")
        );
        assert!(Client::Codex.with_stead("mcp_servers = {}\n", &args()).is_err());
    }
}
