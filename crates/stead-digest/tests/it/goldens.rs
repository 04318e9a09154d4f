//! Recorded digests of third-party source trees, so that a change of the generator shows as a diff
//! of its output.

use insta::assert_snapshot;

use crate::{digest, trees};

#[test]
fn a_rust_library() {
    assert_snapshot!(digest(&trees::of_crate("axum-0.8.9")).body);
}

#[test]
fn a_python_package() {
    assert_snapshot!(digest(&trees::of_package("requests-2.32.3.tar.gz")).body);
}

#[test]
fn a_typescript_package() {
    assert_snapshot!(digest(&trees::of_package("immer-10.1.1.tgz")).body);
}

#[test]
fn c_assembly_and_rust_in_one() {
    assert_snapshot!(digest(&trees::of_crate("ring-0.17.14")).body);
}

#[test]
fn a_tiny_one() {
    assert_snapshot!(digest(&trees::of_crate("cfg-if-1.0.5")).body);
}

/// A small tree with every kind of file from which the digest takes commands and notes.
#[test]
fn a_repository_of_everything() {
    let mut fs = stead_fs::MemoryFs::new();
    for (path, content) in [
        ("AGENTS.md", "# Agents\n\nUse `make check`.\n"),
        ("CONTRIBUTING.md", "# Contributing\ntext\n## Tests\n"),
        ("README.md", "[![badge](https://img.shields.io/x)](y)\n\n# All\n\nHolds a bit of everything.\n\n## Use\n"),
        ("Makefile", ".PHONY: check\ncheck:\n\ttrue\nbuild: src\n"),
        ("justfile", "test *args:\n    cargo test\n"),
        (
            "package.json",
            r#"{"main": "web/index.js", "bin": {"all": "bin/all.js"}, "scripts": {"lint": "eslint .", "test": "jest"}}"#,
        ),
        ("yarn.lock", ""),
        (
            "pyproject.toml",
            "[project]\nname = \"all\"\n[project.scripts]\nall = \"all.cli:main\"\n[tool.pytest.ini_options]\n[tool.ruff.format]\n",
        ),
        ("tox.ini", "[tox]\nenvlist = py3\n[testenv:lint]\n"),
        ("noxfile.py", "import nox\n\n@nox.session\ndef docs(session):\n    pass\n"),
        ("go.mod", "module all\n"),
        ("pom.xml", "<project/>"),
        ("build.gradle", ""),
        ("gradlew", "#!/bin/sh\n"),
        ("CMakeLists.txt", "enable_testing()\n"),
        ("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\n"),
        (".cargo/config.toml", "[alias]\nxtask = \"run -p xtask --\"\n"),
        ("rustfmt.toml", ""),
        ("crates/one/src/main.rs", "fn main() { two::shared(); }\n"),
        ("crates/two/src/lib.rs", "/// Shared.\npub fn shared() {}\n"),
        ("cmd/serve/main.go", "package main\n\nfunc main() { Start() }\n\nfunc Start() {}\n"),
        ("app/Main.java", "class Main { void start() {} }\n"),
        ("app/all.rb", "module All\n  class Thing\n    def work; end\n  end\nend\n"),
        ("include/all.h", "struct thing { int x; };\nint work(struct thing *t);\n"),
        ("native/all.cpp", "namespace all { class Engine { void turn(); }; }\nint work(thing *t) { return 0; }\n"),
        ("web/index.tsx", "export const View = () => <b/>;\nexport interface Props { a: string }\n"),
        (
            ".github/workflows/ci.yml",
            "jobs:\n  a:\n    steps:\n      - run: cargo clippy --all\n      - run: |\n          pytest -q\n",
        ),
        (".gitlab-ci.yml", "t:\n  script:\n    - make ci-test\n"),
        (".devcontainer/devcontainer.json", "{ // here\n \"postCreateCommand\": \"npm ci\" }\n"),
        (".pre-commit-config.yaml", "repos: []\n"),
        (".gitmodules", "[submodule \"x\"]\n\tpath = vendor/x\n"),
        (".gitattributes", "*.bin filter=lfs diff=lfs\n"),
        ("node_modules/left/index.js", "x"),
    ] {
        trees::write(&mut fs, path, content.as_bytes());
    }
    trees::write(&mut fs, "data/large.bin", &vec![0; 3 << 20]);
    assert_snapshot!(digest(&fs).body);
}
