//! The repository's commands for build, test, lint and format, read from its own files.
//!
//! One module per kind of source file. The generator runs no command and invents none: each command
//! names its source file.

mod ci;
mod javascript;
mod make;
mod python;
mod tools;

use crate::survey::Survey;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Setup,
    Build,
    Test,
    Lint,
    Format,
    Run,
    Other,
}

impl Role {
    pub(crate) const ALL: [Self; 7] =
        [Self::Setup, Self::Build, Self::Test, Self::Lint, Self::Format, Self::Run, Self::Other];

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Setup => "Set up",
            Self::Build => "Build",
            Self::Test => "Test",
            Self::Lint => "Lint",
            Self::Format => "Format",
            Self::Run => "Run",
            Self::Other => "Other",
        }
    }

    /// Returns the role of a script or target with this name.
    fn of_name(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let first = name.split([':', '-', '_', '.', '/']).next().unwrap_or_default();
        match first {
            "test" | "tests" | "unittest" | "e2e" | "spec" | "pytest" | "coverage" => Self::Test,
            "lint" | "check" | "typecheck" | "tsc" | "clippy" | "vet" | "mypy" | "types" | "style" => Self::Lint,
            "fmt" | "format" | "prettier" | "fix" => Self::Format,
            "build" | "compile" | "all" | "dist" | "bundle" | "package" => Self::Build,
            "start" | "dev" | "serve" | "run" | "watch" => Self::Run,
            "install" | "setup" | "bootstrap" | "deps" | "prepare" => Self::Setup,
            _ => Self::Other,
        }
    }

    /// Returns the role of a command line, judged by its words.
    fn of_command(command: &str) -> Self {
        let has = |words: &[&str]| words.iter().any(|word| command.contains(word));
        if has(&["fmt", "prettier", "black ", "ruff format", "gofmt", "format"]) {
            Self::Format
        } else if has(&["clippy", "lint", "mypy", "ruff", "flake8", "vet", "pyright", "tsc", "shellcheck", "deny"]) {
            Self::Lint
        } else if has(&["test", "pytest", "tox", "nox", "ctest", "rspec", "jest", "mocha"]) {
            Self::Test
        } else if has(&["build", "make", "compile", "bundle"]) {
            Self::Build
        } else if has(&["install", "npm ci", "sync", "setup"]) {
            Self::Setup
        } else {
            Self::Other
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) role: Role,
    pub(crate) command: String,
    /// The command line behind a script name, if the name alone does not explain it.
    pub(crate) means: Option<String>,
    pub(crate) source: String,
}

impl Found {
    fn new(role: Role, command: impl Into<String>, source: &str) -> Self {
        Self { role, command: command.into(), means: None, source: source.to_owned() }
    }

    fn meaning(mut self, means: impl Into<String>) -> Self {
        self.means = Some(means.into());
        self
    }
}

/// Maximum number of commands shown per role.
pub(crate) const MOST_PER_ROLE: usize = 12;

/// Finds commands, sorted by role and without duplicates; the repository's own manifests come
/// before its CI.
pub(crate) fn find(survey: &Survey) -> Vec<Found> {
    let mut found = Vec::new();
    make::find(survey, &mut found);
    tools::cargo(survey, &mut found);
    javascript::find(survey, &mut found);
    python::find(survey, &mut found);
    tools::find(survey, &mut found);
    ci::find(survey, &mut found);
    let mut seen = std::collections::HashSet::new();
    found.retain(|one| seen.insert(one.command.clone()));
    found.sort_by_key(|one| one.role);
    found
}

/// Prefixes a command with the directory it belongs to.
fn inside(directory: &str, command: &str) -> String {
    if directory.is_empty() { command.to_owned() } else { format!("cd {directory} && {command}") }
}
