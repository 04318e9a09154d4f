//! The order of a walk: sorts the entries of a directory so that full paths come in byte order.

use std::cmp::Ordering;

use crate::filesystem::entry::Kind;

/// Compares two names of one directory like their paths: a directory's name is followed by `/`.
pub(crate) fn by_path(a: (&[u8], Kind), b: (&[u8], Kind)) -> Ordering {
    let shared = a.0.len().min(b.0.len());
    let next = |(name, kind): (&[u8], Kind)| name.get(shared).copied().or((kind == Kind::Directory).then_some(b'/'));
    a.0[..shared].cmp(&b.0[..shared]).then_with(|| next(a).cmp(&next(b)))
}
