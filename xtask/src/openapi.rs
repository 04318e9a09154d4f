//! `cargo xtask openapi`: generates the API document and the reference page from the code, and the
//! types of the Python package from the document. All are committed, so that reviewers see changes
//! of the API. The `openapi` step of the tests only compares.

mod reference;

use anyhow::{Context, Result, bail};

use crate::process::{cargo, command, output, root, run as run_command};
use crate::{sdk_python, server};

const DOCUMENT: &str = "docs/api/openapi.json";
const REFERENCE: &str = "docs/api/reference.md";

pub(crate) fn run(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bail!("usage: cargo xtask openapi");
    }
    // Uses the features of the whole workspace, as the tests do, so that nothing is compiled twice.
    run_command(cargo().args(["build", "--workspace", "--bins"]))?;
    for (name, text) in generated()? {
        let file = root().join(name);
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&file, &text)?;
        println!("wrote {} ({} lines)", file.display(), text.lines().count());
    }
    sdk_python::generate()
}

pub(crate) fn check() -> Result<()> {
    for (name, generated) in generated()? {
        let committed = std::fs::read_to_string(root().join(name))
            .with_context(|| format!("cannot read {name}; write it with `cargo xtask openapi`"))?;
        if let Some(difference) = first_difference(&committed, &generated) {
            bail!("{name} is out of date; run `cargo xtask openapi`\n{difference}");
        }
    }
    sdk_python::check_generated()
}

/// Returns each file with its generated content.
fn generated() -> Result<[(&'static str, String); 2]> {
    let text = output(command(server::binary()?).arg("openapi"))?;
    let document = serde_json::from_str(&text).context("`stead openapi` did not print JSON")?;
    Ok([(REFERENCE, reference::page(&document)), (DOCUMENT, text)])
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
