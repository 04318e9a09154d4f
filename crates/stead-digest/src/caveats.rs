//! Caveats: facts about a repository that may surprise a developer.

use crate::survey::{Origin, Survey};
use crate::symbols::SymbolMap;
use crate::text;

const LARGE: u64 = 1024 * 1024;
const MOST: usize = 6;

pub(crate) fn find(survey: &Survey, symbols: &SymbolMap, notices: &[String]) -> Vec<String> {
    let mut caveats: Vec<String> = notices.iter().map(|notice| text::prose(notice, 400)).collect();
    vendored(survey, &mut caveats);
    submodules(survey, &mut caveats);
    large_files(survey, &mut caveats);
    if survey.files.is_empty() {
        caveats.push("The workspace holds no files.".to_owned());
    }
    if survey.links > 0 {
        caveats.push(format!("{} symbolic links; a digest does not follow them.", survey.links));
    }
    if survey.beyond > 0 {
        caveats
            .push(format!("{} more files were not looked at: the tree is larger than a digest reads.", survey.beyond));
    }
    if survey.skipped > 0 || symbols.passed_over > 0 {
        let files = survey.skipped + symbols.passed_over as u64;
        caveats.push(format!("{files} source files are not in the symbol map: too many, too large or not parsable."));
    }
    caveats
}

fn vendored(survey: &Survey, caveats: &mut Vec<String>) {
    if survey.vendored.is_empty() {
        return;
    }
    let shown: Vec<String> = survey
        .vendored
        .iter()
        .take(MOST)
        .map(|(path, files)| format!("{} ({files} files)", text::code(path, 120)))
        .collect();
    let more = survey.vendored.len().saturating_sub(MOST);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    caveats.push(format!("Generated or brought in from elsewhere, and not digested: {}{more}.", shown.join(", ")));
}

fn submodules(survey: &Survey, caveats: &mut Vec<String>) {
    let paths = |text: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix("path"));
        lines.filter_map(|rest| Some(text::code(rest.trim().strip_prefix('=')?.trim(), 120))).take(MOST).collect()
    };
    let submodules = survey.text(".gitmodules").map(paths).unwrap_or_default();
    if !submodules.is_empty() {
        caveats.push(format!("Git submodules, which may be empty here: {}.", submodules.join(", ")));
    }
    let lfs: Vec<String> = survey
        .named(".gitattributes")
        .into_iter()
        .filter_map(|file| file.text())
        .flat_map(|text| text.lines().filter(|line| line.contains("filter=lfs")))
        .filter_map(|line| Some(text::code(line.split_whitespace().next()?, 80)))
        .take(MOST)
        .collect();
    if !lfs.is_empty() {
        caveats.push(format!("Git LFS keeps {}; without it these files are pointers.", lfs.join(", ")));
    }
}

fn large_files(survey: &Survey, caveats: &mut Vec<String>) {
    let mut large: Vec<_> =
        survey.files.iter().filter(|file| file.origin == Origin::Own && file.size > LARGE).collect();
    if large.is_empty() {
        return;
    }
    large.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.path.cmp(&b.path)));
    let count = large.len();
    let shown: Vec<String> = large
        .into_iter()
        .take(MOST)
        .map(|file| format!("{} ({})", text::code(&file.path, 120), crate::render::size(file.size)))
        .collect();
    let more = if count > MOST { format!(" and {} more", count - MOST) } else { String::new() };
    caveats.push(format!("Large files, better not read whole: {}{more}.", shown.join(", ")));
}
