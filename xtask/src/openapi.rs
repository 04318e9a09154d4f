//! `cargo xtask openapi`: the API document is generated from the code and committed, so that a change of the outside
//! is a change a reviewer sees. The `openapi` step of the tests only compares.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::process::{cargo, command, output, root, run as run_command};
use crate::server;

fn committed() -> PathBuf {
    root().join("docs/api/openapi.json")
}

pub(crate) fn run(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bail!("usage: cargo xtask openapi");
    }
    run_command(cargo().args(["build", "--package", "stead"]))?;
    let document = generated()?;
    let file = committed();
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&file, &document)?;
    println!("wrote {} ({} lines)", file.display(), document.lines().count());
    Ok(())
}

pub(crate) fn check() -> Result<()> {
    let generated = generated()?;
    let committed = std::fs::read_to_string(committed())
        .context("cannot read docs/api/openapi.json; write it with `cargo xtask openapi`")?;
    match first_difference(&committed, &generated) {
        None => Ok(()),
        Some(difference) => bail!("docs/api/openapi.json is out of date; run `cargo xtask openapi`\n{difference}"),
    }
}

fn generated() -> Result<String> {
    let text = output(command(server::binary()?).arg("openapi"))?;
    serde_json::from_str::<serde_json::Value>(&text).context("`stead openapi` did not print JSON")?;
    Ok(text)
}

fn first_difference(committed: &str, generated: &str) -> Option<String> {
    if committed == generated {
        return None;
    }
    let (mut old, mut new) = (committed.lines(), generated.lines());
    let mut number = 0;
    loop {
        number += 1;
        match (old.next(), new.next()) {
            (None, None) => return Some("only line endings differ".to_owned()),
            (left, right) if left == right => {}
            (left, right) => {
                let show = |line: Option<&str>| line.unwrap_or("(end of file)").trim().to_owned();
                return Some(format!("line {number}\n  committed: {}\n  generated: {}", show(left), show(right)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_named() {
        assert_eq!(first_difference("{\n}\n", "{\n}\n"), None);
        assert_eq!(
            first_difference("{\n  \"a\": 1\n}\n", "{\n  \"a\": 2\n}\n").unwrap(),
            "line 2\n  committed: \"a\": 1\n  generated: \"a\": 2"
        );
        assert!(first_difference("{", "{\n}").unwrap().contains("(end of file)"));
        assert!(first_difference("{}", "{}\n").is_some());
    }
}
