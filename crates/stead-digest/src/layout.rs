//! Directories and languages.

use std::collections::BTreeMap;

use crate::language;
use crate::survey::Survey;

const MOST_DIRECTORIES: usize = 30;
const MOST_MEMBERS: usize = 24;
const MOST_LANGUAGES: usize = 8;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Directory {
    pub(crate) path: String,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// The language with the most bytes.
    pub(crate) language: Option<&'static str>,
    pub(crate) role: Option<&'static str>,
}

#[derive(Debug, Default)]
pub(crate) struct Layout {
    pub(crate) directories: Vec<Directory>,
    pub(crate) more_directories: usize,
    pub(crate) root_files: Vec<String>,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// Name and bytes, largest first.
    pub(crate) languages: Vec<(&'static str, u64)>,
}

/// Returns the usual purpose of a directory with this name.
fn role(name: &str) -> Option<&'static str> {
    Some(match name {
        "src" | "lib" | "app" | "source" => "source",
        "test" | "tests" | "spec" | "specs" | "__tests__" => "tests",
        "docs" | "doc" | "documentation" => "documentation",
        "examples" | "example" | "samples" | "demo" => "examples",
        "bench" | "benches" | "benchmarks" | "benchmark" => "benchmarks",
        "fuzz" => "fuzz targets",
        "scripts" | "tools" | "bin" | "hack" | "dev" => "scripts and tools",
        "crates" | "packages" | "apps" | "modules" | "plugins" | "libs" => "members of one workspace",
        "cmd" => "commands",
        "pkg" => "packages",
        "internal" => "internal packages",
        "include" => "headers",
        "migrations" => "database migrations",
        "fixtures" | "testdata" => "test data",
        "config" | "configs" | "etc" => "configuration",
        "deploy" | "deployment" | "k8s" | "helm" | "charts" | "terraform" | "infra" => "deployment",
        "assets" | "static" | "public" | "resources" => "assets",
        "types" | "typings" => "type definitions",
        ".github" => "GitHub workflows",
        ".devcontainer" => "development container",
        "web" | "ui" | "frontend" | "client" => "front end",
        "server" | "backend" | "api" => "back end",
        _ => return None,
    })
}

#[derive(Default)]
struct Sum {
    files: u64,
    bytes: u64,
    languages: BTreeMap<&'static str, u64>,
}

pub(crate) fn of(survey: &Survey) -> Layout {
    let mut layout = Layout::default();
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    let mut languages: BTreeMap<&'static str, u64> = BTreeMap::new();
    for file in survey.own() {
        layout.files += 1;
        layout.bytes += file.size;
        if let Some(language) = file.language {
            *languages.entry(language.name).or_default() += file.size;
        }
        if file.depth() == 0 {
            layout.root_files.push(file.path.clone());
        }
        for directory in shown(&file.path) {
            let sum = sums.entry(directory.to_owned()).or_default();
            sum.files += 1;
            sum.bytes += file.size;
            if let Some(language) = file.language {
                *sum.languages.entry(language.name).or_default() += file.size;
            }
        }
    }
    layout.languages = most(languages);
    layout.languages.truncate(MOST_LANGUAGES);
    layout.directories = sums.into_iter().map(|(path, sum)| directory(path, sum)).collect();
    keep_most_telling(&mut layout);
    layout
}

/// The directories that count a file: the outermost one and the workspace member that contains it.
fn shown(path: &str) -> impl Iterator<Item = &str> {
    let mut ends = path.match_indices('/').map(|(end, _)| end);
    let first = ends.next();
    let members =
        first.is_some_and(|end| role(&path[..end]) == Some("members of one workspace") || &path[..end] == "cmd");
    let second = ends.next().filter(|_| members);
    first.into_iter().chain(second).map(|end| &path[..end])
}

fn directory(path: String, sum: Sum) -> Directory {
    let name = path.rsplit('/').next().unwrap_or_default();
    let role = role(name);
    let languages = most(sum.languages);
    let code = languages.iter().find(|(name, _)| !language::is_prose(name)).or(languages.first());
    Directory { role, language: code.map(|(name, _)| *name), files: sum.files, bytes: sum.bytes, path }
}

fn most(sizes: BTreeMap<&'static str, u64>) -> Vec<(&'static str, u64)> {
    let mut sizes: Vec<(&'static str, u64)> = sizes.into_iter().filter(|(_, bytes)| *bytes > 0).collect();
    sizes.sort_by(|(a, more), (b, bytes)| bytes.cmp(more).then_with(|| a.cmp(b)));
    sizes
}

/// Limits the number of directories at each depth; directories with a known role and the most bytes
/// are kept.
fn keep_most_telling(layout: &mut Layout) {
    let all = layout.directories.len();
    let keep = |depth: usize, most: usize, directories: &[Directory]| -> Vec<String> {
        let mut at: Vec<&Directory> = directories.iter().filter(|one| one.path.matches('/').count() == depth).collect();
        at.sort_by(|a, b| {
            (b.role.is_some(), b.bytes).cmp(&(a.role.is_some(), a.bytes)).then_with(|| a.path.cmp(&b.path))
        });
        at.into_iter().take(most).map(|one| one.path.clone()).collect()
    };
    let mut kept = keep(0, MOST_DIRECTORIES, &layout.directories);
    kept.extend(keep(1, MOST_MEMBERS, &layout.directories));
    layout.directories.retain(|one| kept.contains(&one.path));
    layout.more_directories = all - layout.directories.len();
}
