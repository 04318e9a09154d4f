//! From a survey to a digest.

use crate::survey::Survey;
use crate::symbols::{self, Cache, Parsers};
use crate::{caveats, commands, entry_points, layout, notes, render};

/// Changes with every change of the output, so that what an older generator made is not taken for this one's.
pub const GENERATOR: u32 = 1;

/// A generated digest of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// A few sentences, for every prompt.
    pub summary: String,
    /// Markdown, on request.
    pub body: String,
}

/// Why there is no digest. Without its symbols it would be another one, so there is none.
#[derive(Debug, thiserror::Error)]
pub enum DigestError {
    #[error("the program that parses sources cannot be started")]
    Parsers(#[source] std::io::Error),
}

/// Digests a tree. `notices` are what is known besides the files and worth a caveat, such as a setup that failed.
///
/// Blocks, for as long as parsing some mebibytes takes; the same survey and notices give the same bytes.
pub fn digest(survey: Survey, notices: &[String], parsers: &Parsers, cache: &Cache) -> Result<Digest, DigestError> {
    let survey = survey.sorted();
    let symbols = symbols::map(&survey, parsers, cache).map_err(DigestError::Parsers)?;
    let caveats = caveats::find(&survey, &symbols, notices);
    let parts = render::Parts {
        layout: layout::of(&survey),
        entry_points: entry_points::find(&survey),
        commands: commands::find(&survey),
        notes: notes::find(&survey),
        symbols,
        caveats,
        is_git: survey.is_git,
    };
    Ok(Digest { summary: render::summary(&parts), body: render::body(&parts) })
}
