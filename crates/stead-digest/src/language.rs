//! Classification of paths: programming language, generated directories, and files that describe a
//! repository.

/// A language and, if there is one, its grammar.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Language {
    pub(crate) name: &'static str,
    pub(crate) grammar: Option<Grammar>,
    extensions: &'static [&'static str],
}

/// A grammar. Its number is part of the worker protocol and is never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Grammar {
    Rust = 1,
    Python = 2,
    JavaScript = 3,
    TypeScript = 4,
    Tsx = 5,
    Go = 6,
    Java = 7,
    C = 8,
    Cpp = 9,
    Ruby = 10,
}

impl Grammar {
    const ALL: [Self; 10] = [
        Self::Rust,
        Self::Python,
        Self::JavaScript,
        Self::TypeScript,
        Self::Tsx,
        Self::Go,
        Self::Java,
        Self::C,
        Self::Cpp,
        Self::Ruby,
    ];

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|grammar| *grammar as u8 == number)
    }
}

const fn parsed(name: &'static str, grammar: Grammar, extensions: &'static [&'static str]) -> Language {
    Language { name, grammar: Some(grammar), extensions }
}

const fn known(name: &'static str, extensions: &'static [&'static str]) -> Language {
    Language { name, grammar: None, extensions }
}

static LANGUAGES: &[Language] = &[
    parsed("Rust", Grammar::Rust, &["rs"]),
    parsed("Python", Grammar::Python, &["py", "pyi"]),
    parsed("JavaScript", Grammar::JavaScript, &["js", "mjs", "cjs", "jsx"]),
    parsed("TypeScript", Grammar::TypeScript, &["ts", "mts", "cts"]),
    parsed("TypeScript", Grammar::Tsx, &["tsx"]),
    parsed("Go", Grammar::Go, &["go"]),
    parsed("Java", Grammar::Java, &["java"]),
    parsed("C", Grammar::C, &["c", "h"]),
    parsed("C++", Grammar::Cpp, &["cc", "cpp", "cxx", "hpp", "hh", "hxx"]),
    parsed("Ruby", Grammar::Ruby, &["rb", "rake", "gemspec"]),
    known("C#", &["cs"]),
    known("Kotlin", &["kt", "kts"]),
    known("Swift", &["swift"]),
    known("Scala", &["scala"]),
    known("PHP", &["php"]),
    known("Elixir", &["ex", "exs"]),
    known("Haskell", &["hs"]),
    known("OCaml", &["ml", "mli"]),
    known("Lua", &["lua"]),
    known("Zig", &["zig"]),
    known("Dart", &["dart"]),
    known("R", &["r"]),
    known("Shell", &["sh", "bash", "zsh", "fish"]),
    known("Assembly", &["s", "asm"]),
    known("SQL", &["sql"]),
    known("HTML", &["html", "htm"]),
    known("CSS", &["css", "scss", "sass", "less"]),
    known("Vue", &["vue"]),
    known("Svelte", &["svelte"]),
    known("Protocol Buffers", &["proto"]),
    known("Nix", &["nix"]),
    known("Terraform", &["tf"]),
    known("CMake", &["cmake"]),
    known("Markdown", &["md", "markdown"]),
    known("reStructuredText", &["rst"]),
    known("YAML", &["yml", "yaml"]),
    known("TOML", &["toml"]),
    known("JSON", &["json", "jsonc"]),
];

pub(crate) fn of(path: &str) -> Option<&'static Language> {
    let name = path.rsplit('/').next()?;
    let (stem, extension) = name.rsplit_once('.')?;
    let extension = extension.to_ascii_lowercase();
    let locked = matches!(name, "package-lock.json" | "composer.lock" | "pnpm-lock.yaml");
    let minified = stem.ends_with(".min") || stem.ends_with(".bundle");
    if locked || minified {
        return None;
    }
    LANGUAGES.iter().find(|language| language.extensions.contains(&extension.as_str()))
}

/// Prose and data are counted, but are never the main language.
pub(crate) fn is_prose(name: &str) -> bool {
    matches!(name, "Markdown" | "reStructuredText" | "YAML" | "TOML" | "JSON" | "HTML" | "CSS")
}

/// Directories with generated or third-party files.
const VENDORED_DIRECTORIES: &[&str] = &[
    "node_modules",
    "bower_components",
    "vendor",
    "third_party",
    "target",
    "dist",
    "build",
    "out",
    ".next",
    ".nuxt",
    ".venv",
    "venv",
    ".tox",
    ".nox",
    "__pycache__",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".gradle",
    ".idea",
    ".cache",
    "coverage",
    "site-packages",
    ".terraform",
    "Pods",
    "DerivedData",
];

/// The outermost generated or third-party directory that contains a file.
pub(crate) fn vendored_directory(path: &str) -> Option<&str> {
    let mut end = 0;
    for name in path.split('/') {
        let start = end;
        end += name.len();
        let last = end == path.len();
        if !last && (VENDORED_DIRECTORIES.contains(&name) || name.ends_with(".egg-info")) {
            return Some(&path[..start + name.len()]);
        }
        end += 1;
    }
    None
}

/// Returns whether a path looks like a test file.
pub(crate) fn is_test(path: &str) -> bool {
    let in_tests = path
        .split('/')
        .any(|name| matches!(name, "test" | "tests" | "spec" | "specs" | "__tests__" | "testdata" | "fixtures"));
    let name = path.rsplit('/').next().unwrap_or_default();
    in_tests
        || name.starts_with("test_")
        || name.contains("_test.")
        || name.contains(".test.")
        || name.contains(".spec.")
}

/// Files that say how a repository is built, tested and used.
const TELLING: &[&str] = &[
    "package.json",
    "Cargo.toml",
    "rust-toolchain.toml",
    "pyproject.toml",
    "setup.cfg",
    "setup.py",
    "tox.ini",
    "noxfile.py",
    "pytest.ini",
    "go.mod",
    "Makefile",
    "makefile",
    "GNUmakefile",
    "justfile",
    "Justfile",
    ".justfile",
    "Rakefile",
    "Gemfile",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "CMakeLists.txt",
    "meson.build",
    "devcontainer.json",
    ".devcontainer.json",
    ".pre-commit-config.yaml",
    ".gitlab-ci.yml",
    ".gitmodules",
    ".gitattributes",
    "Dockerfile",
    "deno.json",
    "composer.json",
    "Taskfile.yml",
    ".cursorrules",
    "pnpm-workspace.yaml",
    "lerna.json",
    "config.toml",
];

/// Returns whether the generator needs the content of this file.
pub(crate) fn tells(path: &str, language: Option<&Language>) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let workflow =
        path.starts_with(".github/") && (name.ends_with(".yml") || name.ends_with(".yaml") || name.ends_with(".md"));
    let parsed = language.is_some_and(|language| language.grammar.is_some());
    parsed || workflow || TELLING.contains(&name) || crate::notes::is_note(name)
}
