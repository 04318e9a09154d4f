//! What is done for a box before it is known whose it will be: its process runs, in control groups of its own.
//!
//! To join a group makes the kernel wait for all its processors, several milliseconds on an idle host; done ahead, nobody waits for it. The invariant is
//! that of [`crate::record`]: the groups are named in a record in the cradle's directory before they are made, and in the box's before that one
//! goes. A cradle whose server is gone takes its groups and its directory away itself.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::launch::keep;
use crate::cgroup::Groups;
use crate::error::{OrRefuse, Primitive, Refused};
use crate::record::OwnerRecord;
use crate::spec::{BoxSpec, Ids};

/// Everything that is known of the box by now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CradleSpec {
    /// As of a box: unique among those of one server.
    pub id: String,
    pub instance: String,
    /// The cradle's own directory on the host; it must not exist yet, its parent must.
    pub directory: PathBuf,
}

/// Control groups that this process is in.
pub(super) struct Cradle {
    pub(super) groups: Groups,
    /// Where they are named, if that is not the box's directory.
    named_in: Option<PathBuf>,
}

impl Cradle {
    /// Ahead of the box.
    pub(super) fn ahead(spec: &CradleSpec) -> Result<Self, Refused> {
        // There are no files yet that could belong to anybody.
        let record = OwnerRecord::new(&spec.id, &spec.instance, Ids::Own);
        let groups = join_new(record, &spec.directory)?;
        Ok(Self { groups, named_in: Some(spec.directory.clone()) })
    }

    /// Together with the box; `directory` is a name of the box's own.
    pub(super) fn with(spec: &BoxSpec, directory: &Path) -> Result<Self, Refused> {
        let record = OwnerRecord::new(&spec.id, &spec.instance, spec.ids);
        Ok(Self { groups: join_new(record, directory)?, named_in: None })
    }

    /// From now on the groups are named in the box's directory, and there alone.
    pub(super) fn give(&mut self, spec: &BoxSpec, directory: &Path) -> Result<OwnerRecord, Refused> {
        let mut record = OwnerRecord::new(&spec.id, &spec.instance, spec.ids);
        record.cgroups = self.groups.paths();
        if let Some(own) = self.named_in.take() {
            keep(&record, directory)?;
            let gone = fs::remove_dir_all(&own);
            gone.or_refuse(Primitive::Record, || "cannot remove the cradle's record".to_owned())?;
        }
        Ok(record)
    }

    /// Nobody wants it any more. What is left after this is found by its record.
    pub(super) fn abandon(self) {
        let Some(directory) = self.named_in else { return };
        if self.groups.leave().is_ok() {
            let _ = crate::host::remove(&directory);
        }
    }
}

/// Makes groups of the record's name, once they are named in it, and enters them.
fn join_new(mut record: OwnerRecord, directory: &Path) -> Result<Groups, Refused> {
    let groups = Groups::plan(&record.group_name())
        .or_refuse(Primitive::Cgroup, || "cannot read this host's control groups".to_owned())?;
    record.cgroups = groups.paths();
    keep(&record, directory)?;
    groups.make().or_refuse(Primitive::Cgroup, || "cannot make the box's control groups".to_owned())?;
    groups.join().or_refuse(Primitive::Cgroup, || "cannot join the box's control groups".to_owned())?;
    Ok(groups)
}
