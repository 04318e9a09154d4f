//! The identity of a home, which a copy of the directory does not share.
//!
//! Boxes, containers and cgroups on the host are named after the home's instance. A copied home has
//! the same files, so it would claim and end the boxes of the original. The instance is therefore
//! tied to the directory itself: its device, inode and creation time. A directory that is renamed
//! within its filesystem keeps them. A copy or a restored backup has others and gets a new
//! instance.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::{Home, Lock};
use crate::failure::Failure;

const FILE: &str = "identity.json";

/// The name of this home on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) instance: String,
    /// Instances of the homes that this one is a copy of. Their boxes on the host belong to other
    /// servers.
    pub(crate) former: Vec<String>,
}

/// Distinguishes a directory from its copies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Key {
    boot_id: String,
    device: u64,
    inode: u64,
    /// Nanoseconds since the epoch; `None` if the filesystem does not record it.
    born: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    instance: String,
    #[serde(default)]
    former: Vec<String>,
    key: Key,
}

impl Key {
    fn of(home: &Path) -> io::Result<Self> {
        let found = fs::metadata(home)?;
        let born = found.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        Ok(Self {
            boot_id: fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned(),
            device: found.dev(),
            inode: found.ino(),
            born: born.and_then(|born| u64::try_from(born.as_nanos()).ok()),
        })
    }

    /// Returns true if both keys belong to one directory. A reboot may change device numbers, so
    /// they count only within one boot.
    fn is_of_same_directory(&self, other: &Self) -> bool {
        let same_device = self.device == other.device || self.boot_id != other.boot_id;
        same_device && (self.inode, self.born) == (other.inode, other.born)
    }
}

impl Home {
    /// The home's identity. `known` is the instance of a home that has no record yet, `fresh` that
    /// of a copy.
    pub(crate) fn identity(&self, _lock: &Lock, known: &str, fresh: &str) -> Result<Identity, Failure> {
        let cannot = |error: io::Error| {
            Failure::new(format!("cannot determine the owner of the home {}", self.path().display())).because(&error)
        };
        let key = Key::of(self.path()).map_err(cannot)?;
        let record = match self.recorded().map_err(cannot)? {
            None => Record { instance: known.to_owned(), former: Vec::new(), key },
            Some(record) if record.key.is_of_same_directory(&key) => Record { key, ..record },
            Some(record) => {
                tracing::warn!(
                    home = %self.path().display(),
                    original = record.instance,
                    "this home is a copy or was restored from one: the boxes of the original on this host are left alone"
                );
                let former = record.former.into_iter().chain([record.instance]).collect();
                Record { instance: fresh.to_owned(), former, key }
            }
        };
        let text = serde_json::to_string_pretty(&record).unwrap_or_default();
        self.write(FILE, &format!("{text}\n"))?;
        Ok(Identity { instance: record.instance, former: record.former })
    }

    /// Returns true if no server has run on this directory since it was copied. The records of
    /// boxes in such a home name processes of the original.
    pub(crate) fn is_untouched_copy(&self, _lock: &Lock) -> io::Result<bool> {
        let key = Key::of(self.path())?;
        Ok(self.recorded()?.is_some_and(|record| !record.key.is_of_same_directory(&key)))
    }

    fn recorded(&self) -> io::Result<Option<Record>> {
        match fs::read(self.path().join(FILE)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_directory_that_was_not_copied_keeps_its_key() {
        let key = Key { boot_id: "one".into(), device: 7, inode: 2, born: Some(5) };
        let later = Key { boot_id: "two".into(), ..key.clone() };
        assert!(key.is_of_same_directory(&key));
        assert!(key.is_of_same_directory(&Key { device: 8, ..later.clone() }), "renumbered at a reboot");
        assert!(!key.is_of_same_directory(&Key { device: 8, ..key.clone() }), "an image of the filesystem");
        assert!(!key.is_of_same_directory(&Key { inode: 3, ..later.clone() }), "a copy");
        assert!(!key.is_of_same_directory(&Key { born: Some(6), ..later }), "a copy that got the same inode");
    }

    #[test]
    fn a_copy_gets_an_instance_of_its_own_and_a_moved_home_keeps_its() {
        let above = tempfile::tempdir().unwrap();
        let home = |name: &str| {
            let home = Home(above.path().join(name));
            home.create().unwrap();
            home
        };
        let of = |home: &Home, fresh: &str| home.identity(&home.lock().unwrap(), "first", fresh).unwrap();
        let original = home("original");
        assert_eq!(of(&original, "x"), Identity { instance: "first".into(), former: vec![] });
        let copy = home("copy");
        fs::copy(original.path().join(FILE), copy.path().join(FILE)).unwrap();
        let expect = Identity { instance: "second".into(), former: vec!["first".into()] };
        let untouched = |home: &Home| home.is_untouched_copy(&home.lock().unwrap()).unwrap();
        assert!(untouched(&copy) && !untouched(&original));
        assert_eq!(of(&copy, "second"), expect);
        assert!(!untouched(&copy));
        assert_eq!(of(&copy, "third"), expect);
        fs::rename(original.path(), above.path().join("moved")).unwrap();
        assert_eq!(of(&home("moved"), "x").instance, "first");
    }
}
