//! Atomic writes of files that only their owner may access.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Writes a temporary file and renames it, so that readers and crashes see the old or the new file.
/// Only one writer at a time is allowed.
pub(crate) fn write(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let draft = folder.join(format!(".{name}.new"));
    match std::fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&draft, folder.join(name))?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_private_file_is_replaced_whole_and_a_left_draft_is_no_hindrance() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(".token.new"), "half").unwrap();
        for text in ["one", "two"] {
            write(folder.path(), "token", text.as_bytes()).unwrap();
            let path = folder.path().join("token");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
