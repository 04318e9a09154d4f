//! From start to removal.

use stead_box::{RunningBox, remove};

use crate::home::Home;

pub(crate) fn a_removed_box_leaves_nothing(home: &Home) {
    for _ in 0..3 {
        let sandbox = home.start();
        sandbox.says("echo 1 > a; (setsid sleep 300 &); sleep 300 & disown; mkdir -p d/e; chmod 000 d");
        assert!(home.census() != home.census_before());
        remove(sandbox.running.directory()).unwrap();
        // Twice is as good as once; the drop makes it three times.
        remove(sandbox.running.directory()).unwrap();
        drop(sandbox);
        home.assert_clean();
    }
}

pub(crate) fn a_box_is_found_again(home: &Home) {
    let sandbox = home.start();
    sandbox.says("echo kept > a");
    let again = RunningBox::find(sandbox.running.directory()).unwrap();
    assert_eq!(again.held(), sandbox.running.held());
    drop(again.connect().unwrap());
    assert_eq!(sandbox.says("cat a"), "kept\n");
    again.kill().unwrap();
    assert!(RunningBox::find(sandbox.running.directory()).is_err());
    assert!(again.connect().is_err());
}
