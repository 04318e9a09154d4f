//! Generates a digest from a survey.

use crate::survey::Survey;
use crate::symbols::{self, Cache, Parsers};
use crate::{caveats, commands, entry_points, layout, notes, render};

/// Version of the generator. Increase it with every change of the output, so that digests of an
/// older generator are not reused.
pub const GENERATOR: u32 = 1;

/// A generated digest of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// A few sentences, part of every prompt.
    pub summary: String,
    /// Markdown, included on request.
    pub body: String,
}

/// Why a digest cannot be generated. A parser failure is an error, because a digest without symbols
/// would differ.
#[derive(Debug, thiserror::Error)]
pub enum DigestError {
    #[error("the program that parses sources cannot be started")]
    Parsers(#[source] std::io::Error),
}

/// Digests a tree. `notices` are facts from outside the tree that deserve a caveat, such as a
/// failed setup.
///
/// Blocks while it parses up to some mebibytes. The same survey and notices give the same bytes.
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
