//! Spares: helpers that wait for a box.

use std::path::{Path, PathBuf};

use stead_box::{BoxSpec, Preparation, Spare, restart};

use crate::home::{Home, chain, init, is_root};

fn spares(home: &Home) -> PathBuf {
    home.path().join("spares")
}

/// Prepares a spare for a box like this one; only root can prepare volumes ahead.
fn spare_for(home: &Home, spec: &BoxSpec) -> Spare {
    std::fs::create_dir_all(spares(home)).unwrap();
    let volume = spec.image_shape().map(|shape| Preparation { directory: spares(home).join("0"), shape });
    Spare::prepare(&init(), volume.as_ref()).unwrap()
}

fn assert_no_spare_is_left(home: &Home) {
    let left: Vec<_> = std::fs::read_dir(spares(home)).into_iter().flatten().flatten().map(|e| e.path()).collect();
    assert_eq!(left, Vec::<PathBuf>::new());
}

pub(crate) fn a_box_from_a_spare_is_like_any_other(home: &Home) {
    let (spec, usual) = (home.spec(), home.start());
    let spare = spare_for(home, &spec);
    let sandbox = home.start_from(spare, &spec);
    assert_no_spare_is_left(home);
    assert_eq!(sandbox.running.held(), usual.running.held());
    let look =
        "id; stat -c '%A %U %G' . ~ /tmp; df --output=size . | tail -1; cat /proc/mounts | cut -d' ' -f2-3 | sort";
    assert_eq!(sandbox.says(look), usual.says(look));
    // The next box with the same volume finds the file.
    sandbox.says("echo kept > a; sync");
    sandbox.running.kill().unwrap();
    restart(&init(), &spec).unwrap_or_else(|error| panic!("{}", chain(&error)));
    assert_eq!(sandbox.says("cat a"), "kept\n");
}

pub(crate) fn a_spare_that_does_not_fit_or_is_gone_harms_nobody(home: &Home) {
    let (spec, mut larger) = (home.spec(), home.spec());
    larger.limits.disk_bytes = Some(96 << 20);
    let sandbox = home.start_from(spare_for(home, &spec), &larger);
    assert_no_spare_is_left(home);
    let size: u64 = sandbox.says("df --output=size . | tail -1").trim().parse().unwrap();
    assert!(!is_root() || size > (64 << 10), "{size} KiB of 96 MiB");
    // A box with files keeps them.
    sandbox.says("echo kept > a; sync");
    sandbox.running.kill().unwrap();
    let again = stead_box::resume(&init(), &larger, Some(spare_for(home, &larger)));
    again.unwrap_or_else(|error| panic!("{}", chain(&error)));
    assert_eq!(sandbox.says("cat a"), "kept\n");
    assert_no_spare_is_left(home);

    let gone = Spare::prepare(Path::new("/bin/true"), None).unwrap();
    let sandbox = home.start_from(gone, &spec);
    assert_eq!(sandbox.says("echo here"), "here\n");
}

pub(crate) fn a_spare_nobody_takes_leaves_nothing(home: &Home) {
    let spec = home.spec();
    let _beside = home.start_with(&spec);
    drop(spare_for(home, &spec));
    assert_no_spare_is_left(home);
}
