//! The TypeScript client, made by @hey-api/openapi-ts.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::{DOCUMENT, LIMIT, Operation, Program, copy, expect_all};
use crate::prerequisites::node::Packages;
use crate::process::{command, output, root, run_within};

pub(in crate::third_party) const PACKAGES: Packages =
    Packages { folder: "clients/typescript", source: "tests/clients" };

/// Generates and compiles the client, and returns the program that uses it.
pub(super) fn generate(folder: &Path, operations: &[Operation]) -> Result<Program> {
    let modules = PACKAGES.ensure()?;
    let project = folder.join("typescript");
    copy("tsconfig.json", &project)?;
    copy("use.ts", &project)?;
    let node = |script: &str| {
        let mut node = command(modules.join(".bin/node"));
        node.current_dir(&project).arg(modules.join(".bin").join(script));
        node
    };
    let said = output(
        node("openapi-ts")
            .args(["--client", "@hey-api/client-fetch", "--output", "stead_client", "--input"])
            .arg(root().join(DOCUMENT))
            .env("NO_COLOR", "1"),
    )?;
    if said.to_lowercase().contains("warn") || said.contains('⚠') {
        bail!("openapi-ts warns about {DOCUMENT}:\n{said}");
    }
    let sdk = project.join("stead_client/sdk.gen.ts");
    let sdk = std::fs::read_to_string(&sdk).with_context(|| format!("cannot read {}", sdk.display()))?;
    expect_all("TypeScript", operations, |operation| {
        sdk.contains(&format!("export const {} = ", camel_case(&operation.id)))
    })?;
    run_within(node("tsc").args(["--project", "."]), LIMIT)?;

    let mut program = command(modules.join(".bin/node"));
    program.current_dir(&project).arg("compiled/use.js");
    Ok(Program(program))
}

/// Returns the function name that the generator makes of an operation id.
fn camel_case(id: &str) -> String {
    let mut words = id.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (initial, rest) = word.split_at(word.len().min(1));
        name + &initial.to_uppercase() + rest
    })
}

#[cfg(test)]
mod tests {
    use super::camel_case;

    #[test]
    fn operation_ids_become_function_names() {
        assert_eq!(camel_case("create_session"), "createSession");
        assert_eq!(camel_case("healthz"), "healthz");
    }
}
