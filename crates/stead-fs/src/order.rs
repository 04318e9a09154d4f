//! The order of a walk: entries of one directory such that their full paths come out sorted as bytes.

use std::cmp::Ordering;

use crate::entry::Kind;

/// Compares two names of one directory as their paths would compare: a directory's name is followed by `/`.
pub(crate) fn by_path(a: (&[u8], Kind), b: (&[u8], Kind)) -> Ordering {
    let shared = a.0.len().min(b.0.len());
    let next = |(name, kind): (&[u8], Kind)| name.get(shared).copied().or((kind == Kind::Directory).then_some(b'/'));
    a.0[..shared].cmp(&b.0[..shared]).then_with(|| next(a).cmp(&next(b)))
}
