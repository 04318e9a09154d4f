//! `stead network presets`

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use crate::cli::kit::{finish, stead};

/// Serves a package index on loopback. Its only page names a file on another host.
fn index() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten().take(64) {
            let mut reader = BufReader::new(stream);
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|length| length > 2) {
                line.clear();
            }
            let page = "<a href=\"https://files.example/pip-1-py3-none-any.whl\">pip</a>";
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close";
            let _ = write!(reader.into_inner(), "{head}\r\nContent-Length: {}\r\n\r\n{page}", page.len());
        }
    });
    port
}

#[test]
fn presets_are_filled_in_by_asking_the_package_managers() {
    let (home, user) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let port = index();
    let file = home.path().join("stead.toml");
    std::fs::write(&file, "# mine\n[network.presets]\ngit = [\"kept.example\"]\n").unwrap();
    let cargo = user.path().join("cargo");
    std::fs::create_dir(&cargo).unwrap();
    std::fs::write(cargo.join("config.toml"), "[source.mirror]\nregistry = \"sparse+https://crates.example/index/\"\n")
        .unwrap();
    let presets = |arguments: &[&str]| {
        let mut command = stead(home.path());
        command.args(["network", "presets"]).args(arguments).env("HOME", user.path()).env("CARGO_HOME", &cargo);
        // The `cargo` of rustup finds its toolchains there.
        let rustup = std::env::var_os("RUSTUP_HOME")
            .unwrap_or_else(|| std::env::home_dir().unwrap_or_default().join(".rustup").into_os_string());
        command.env("RUSTUP_HOME", rustup);
        command.env("PIP_INDEX_URL", format!("http://127.0.0.1:{port}/simple"));
        command.env("npm_config_registry", format!("http://127.0.0.1:{port}/"));
        command.env("GOPROXY", "https://modules.example,direct").env("GOSUMDB", "off").env("GOFLAGS", "-mod=mod");
        finish(&mut command)
    };
    let listed = presets(&["--write"]).ok();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("# mine\n[network.presets]\n"), "{text}");
    let index = format!("{{ host = \"127.0.0.1\", ports = [{port}], protocol = \"http\" }}");
    for line in [
        format!("pip = [{index}, \"files.example\"]"),
        format!("npm = [{index}]"),
        "cargo = [\"crates.example\"]".to_owned(),
        "git = [\"kept.example\"]".to_owned(),
    ] {
        assert!(text.lines().any(|written| written == line), "no line {line} in\n{text}\n{listed}");
    }
    // What is there already stays as it is.
    presets(&["--write"]).ok();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    let listed = presets(&[]).ok();
    assert!(listed.contains("crates.example") && listed.contains(&format!("127.0.0.1:{port}")), "{listed}");
}

#[test]
fn a_preset_that_is_no_rule_is_named() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("stead.toml"), "[network.presets]\npip = [\"https://index.example/simple\"]\n")
        .unwrap();
    let ran = finish(stead(home.path()).args(["network", "presets"]));
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("network.presets.pip[0]: a host name has only ASCII letters"), "{}", ran.err);
}
