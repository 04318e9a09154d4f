//! `stead image`: from a local directory to the root of a box, and removal.

use crate::cli::kit::{self, run};

#[test]
fn a_directory_becomes_an_image_and_goes() {
    let server = kit::server();
    let root = server.home().join("a root");
    std::fs::create_dir_all(root.join("etc")).unwrap();
    std::fs::write(root.join("etc/release"), "one").unwrap();
    std::os::unix::fs::symlink("/etc/release", root.join("link")).unwrap();
    let directory = root.to_str().unwrap();
    let digest = run(server.home(), &["image", "import", directory, "team/small:1"]).ok();
    assert!(digest.starts_with("sha256:"), "{digest}");
    assert_eq!(run(server.home(), &["image", "import", directory, "team/small:1"]).ok(), digest, "the same again");
    let listed = run(server.home(), &["image", "ls", "--json"]).json();
    assert_eq!(
        (&listed["items"][0]["name"], &listed["items"][0]["digest"], &listed["items"][1]),
        (&"team/small:1".into(), &digest.trim().into(), &serde_json::Value::Null)
    );
    assert!(run(server.home(), &["image", "ls"]).ok().contains("team/small:1"));
    for (wrong, why) in [
        (["image", "import", "/not/there", "x"], "cannot read /not/there"),
        (["image", "import", directory, "Not A Name"], "is not a name for an image"),
        (["image", "import", "/etc/hostname", "x"], "neither a tar"),
    ] {
        let refused = run(server.home(), &wrong);
        assert_eq!(refused.code, Some(1), "{wrong:?}");
        assert!(refused.err.contains(why), "{wrong:?}: {}", refused.err);
    }
    run(server.home(), &["image", "rm", "team/small:1"]).ok();
    let gone = run(server.home(), &["image", "rm", "team/small:1"]);
    assert!(gone.code == Some(1) && gone.err.contains("there is no image 'team/small:1'"), "{}", gone.err);
}
