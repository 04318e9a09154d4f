//! Tools whose commands follow from the presence of their manifest.

use super::{Found, Role, inside};
use crate::survey::Survey;

pub(super) fn cargo(survey: &Survey, found: &mut Vec<Found>) {
    let Some(manifest) = survey.named("Cargo.toml").into_iter().find(|file| file.depth() <= 1) else { return };
    let (source, directory) = (manifest.path.as_str(), manifest.directory());
    let table = manifest.text().and_then(|text| text.parse::<toml::Table>().ok());
    let whole = if table.is_some_and(|table| table.contains_key("workspace")) { " --workspace" } else { "" };
    found.push(Found::new(Role::Build, inside(directory, &format!("cargo build{whole}")), source));
    found.push(Found::new(Role::Test, inside(directory, &format!("cargo test{whole}")), source));
    let configured = |names: &[&'static str]| names.iter().find(|name| survey.has(name)).copied();
    if let Some(config) = configured(&["clippy.toml", ".clippy.toml"]) {
        found.push(Found::new(Role::Lint, format!("cargo clippy{whole}"), config));
    }
    if let Some(config) = configured(&["rustfmt.toml", ".rustfmt.toml"]) {
        found.push(Found::new(Role::Format, "cargo fmt", config));
    }
    aliases(survey, found);
}

fn aliases(survey: &Survey, found: &mut Vec<Found>) {
    const SOURCE: &str = ".cargo/config.toml";
    let Some(config) = survey.text(SOURCE).and_then(|text| text.parse::<toml::Table>().ok()) else { return };
    for (name, value) in config.get("alias").and_then(toml::Value::as_table).into_iter().flatten().take(20) {
        let means = match value {
            toml::Value::String(text) => text.clone(),
            toml::Value::Array(words) => words.iter().filter_map(toml::Value::as_str).collect::<Vec<_>>().join(" "),
            _ => continue,
        };
        found.push(Found::new(Role::of_name(name), format!("cargo {name}"), SOURCE).meaning(format!("cargo {means}")));
    }
}

pub(super) fn find(survey: &Survey, found: &mut Vec<Found>) {
    if let Some(module) = survey.named("go.mod").into_iter().find(|file| file.depth() <= 1) {
        let command = |command: &str| inside(module.directory(), command);
        found.push(Found::new(Role::Build, command("go build ./..."), &module.path));
        found.push(Found::new(Role::Test, command("go test ./..."), &module.path));
        found.push(Found::new(Role::Lint, command("go vet ./..."), &module.path));
        found.push(Found::new(Role::Format, command("gofmt -l ."), &module.path));
    }
    if let Some(config) =
        [".golangci.yml", ".golangci.yaml", ".golangci.toml"].into_iter().find(|name| survey.has(name))
    {
        found.push(Found::new(Role::Lint, "golangci-lint run", config));
    }
    if let Some(build) = ["build.gradle", "build.gradle.kts"].into_iter().find(|name| survey.has(name)) {
        let gradle = if survey.has("gradlew") { "./gradlew" } else { "gradle" };
        found.push(Found::new(Role::Build, format!("{gradle} build"), build));
        found.push(Found::new(Role::Test, format!("{gradle} test"), build));
    }
    if survey.has("pom.xml") {
        let maven = if survey.has("mvnw") { "./mvnw" } else { "mvn" };
        found.push(Found::new(Role::Build, format!("{maven} package"), "pom.xml"));
        found.push(Found::new(Role::Test, format!("{maven} test"), "pom.xml"));
    }
    if survey.has("CMakeLists.txt") {
        found.push(Found::new(Role::Build, "cmake -B build && cmake --build build", "CMakeLists.txt"));
        if survey.text("CMakeLists.txt").is_some_and(|text| text.contains("enable_testing")) {
            found.push(Found::new(Role::Test, "ctest --test-dir build", "CMakeLists.txt"));
        }
    }
    if survey.has("meson.build") {
        found.push(Found::new(Role::Build, "meson setup build && meson compile -C build", "meson.build"));
    }
    if survey.has("Gemfile") {
        found.push(Found::new(Role::Setup, "bundle install", "Gemfile"));
        if survey.has("Rakefile") {
            found.push(Found::new(Role::Test, "bundle exec rake", "Rakefile"));
        }
    }
    if survey.has(".pre-commit-config.yaml") {
        found.push(Found::new(Role::Lint, "pre-commit run --all-files", ".pre-commit-config.yaml"));
    }
}
