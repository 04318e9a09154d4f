//! Unit tests of precedence and invalid settings.

use std::collections::HashMap;
use std::ffi::OsString;

use super::*;

struct Setup {
    home: tempfile::TempDir,
    environment: HashMap<&'static str, OsString>,
    flags: Flags,
}

fn setup(file: &str) -> Setup {
    let home = tempfile::tempdir().unwrap();
    if !file.is_empty() {
        std::fs::write(home.path().join("stead.toml"), file).unwrap();
    }
    let environment = HashMap::from([("STEAD_HOME", home.path().as_os_str().to_owned())]);
    Setup { home, environment, flags: Flags::default() }
}

impl Setup {
    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.environment.insert(name, value.into());
        self
    }

    fn load(&self) -> Result<Config, Failure> {
        Config::load(&self.flags, &|name| self.environment.get(name).cloned())
    }

    fn refusal(&self) -> String {
        let failure = self.load().and_then(|config| config.server().map(drop)).unwrap_err();
        let home = self.home.path().display().to_string();
        [vec![failure.sentence], failure.causes].concat().join(": ").replace(&home, "HOME")
    }
}

fn listen(setup: &Setup) -> String {
    setup.load().unwrap().server().unwrap().listen.addresses[0].to_string()
}

#[test]
fn the_later_wins() {
    let mut setup = setup("");
    assert_eq!(listen(&setup), "127.0.0.1:7717");
    std::fs::write(setup.home.path().join("stead.toml"), "listen = '127.0.0.1:1'").unwrap();
    assert_eq!(listen(&setup), "127.0.0.1:1");
    setup = setup.with("STEAD_LISTEN", "127.0.0.1:2");
    assert_eq!(listen(&setup), "127.0.0.1:2");
    setup.flags.listen = Some("127.0.0.1:3".to_owned());
    assert_eq!(listen(&setup), "127.0.0.1:3");
}

#[test]
fn defaults_are_the_documented_ones() {
    let config = setup("").load().unwrap();
    let server = config.server().unwrap();
    let limits = &server.default_limits;
    assert_eq!(limits.cpu.as_ref().unwrap().to_string(), "2");
    assert_eq!(limits.memory.as_ref().unwrap().to_string(), "4G");
    assert_eq!(limits.disk.as_ref().unwrap().to_string(), "10G");
    assert_eq!(server.max_sessions, 1000);
    assert_eq!(server.memory_overcommit, None);
    assert_eq!(server.default_provider.as_str(), "native");
    assert!(config.database().unwrap().to_string().ends_with("/stead.db"));
    assert_eq!(config.endpoint().unwrap().url, "http://127.0.0.1:7717");
}

#[test]
fn an_empty_variable_says_nothing() {
    assert_eq!(listen(&setup("").with("STEAD_LISTEN", "")), "127.0.0.1:7717");
}

#[test]
fn an_unknown_key_is_named_with_the_valid_ones() {
    let text = setup("listen = '127.0.0.1:1'\nlissten = 'x'\n").refusal();
    assert!(text.starts_with("HOME/stead.toml line 2: unknown field `lissten`, expected one of `url`"), "{text}");
    assert!(text.contains("`workspace_default_provider`"), "{text}");
}

#[test]
fn a_mistake_names_its_source_and_not_the_secret() {
    let text = setup("").with("WORKSPACE_DEFAULT_CPU", "lots").refusal();
    assert!(text.starts_with("WORKSPACE_DEFAULT_CPU cannot be used: \"lots\" is not an amount of cpu"), "{text}");
    let text = setup("workspace_max_concurrent = -1").refusal();
    assert!(text.starts_with("HOME/stead.toml line 1:"), "{text}");
    let text = setup("").with("WORKSPACE_DEFAULT_PROVIDER", "cloud").refusal();
    assert!(text.contains("memory"), "{text}");

    let config = setup("").with("STEAD_DATABASE_URL", "mysql://root:s3cret@db").load().unwrap();
    let failure = config.database().unwrap_err();
    assert!(!format!("{failure:?}").contains("s3cret"), "{failure:?}");
    assert_eq!(failure.sentence, "STEAD_DATABASE_URL cannot be used");
}

#[test]
fn t3_a_factor_for_the_hosts_memory_is_checked() {
    let factor = |file: &str| setup(file).load().unwrap().server().unwrap().memory_overcommit;
    assert_eq!(factor("memory_overcommit = 1.5"), Some(1.5));
    assert_eq!(factor("memory_overcommit = 0.0"), None);
    let text = setup("").with("STEAD_MEMORY_OVERCOMMIT", "-1").refusal();
    assert!(text.starts_with("STEAD_MEMORY_OVERCOMMIT must be a factor"), "{text}");
}

#[test]
fn others_may_only_come_in_with_tokens() {
    let refused = setup("").with("STEAD_LISTEN", "0.0.0.0:0").refusal();
    assert_eq!(refused, "will not listen on 0.0.0.0:0: others can reach it, and HOME/stead.toml has no [[tokens]]");
    let hash = "ab".repeat(32);
    let file = format!("listen = '0.0.0.0:0'\n[[tokens]]\nname = 'ci'\nhash = '{hash}'\n");
    let server = setup(&file).load().unwrap().server().unwrap();
    assert_eq!(server.tokens, [("ci".to_owned(), [0xab; 32])]);
    assert!(setup("[[tokens]]\nname = 'ci'\nhash = 'short'\n").refusal().contains("64 hexadecimal"));
}

#[test]
fn the_homes_token_stays_at_home() {
    let here = setup("");
    std::fs::write(here.home.path().join("token"), "stead_1\n").unwrap();
    let token = |setup: &Setup| setup.load().unwrap().endpoint().unwrap().token.map(|token| token.expose().to_owned());
    assert_eq!(token(&here), None, "no process holds the home's lock, so the server at that address is unknown");
    let here = here.with("STEAD_URL", "http://127.0.0.1:1");
    assert_eq!(token(&here).as_deref(), Some("stead_1"));
    let here = here.with("STEAD_URL", "https://stead.example");
    assert_eq!(token(&here), None);
    assert_eq!(token(&here.with("STEAD_TOKEN", "stead_2")).as_deref(), Some("stead_2"));
}

#[test]
fn the_home_follows_xdg() {
    let home = |pairs: &[(&str, &str)]| {
        let environment: HashMap<String, OsString> =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        let home = Home::locate(None, &|name| environment.get(name).cloned());
        home.map(|home| home.path().display().to_string()).map_err(|failure| failure.sentence)
    };
    assert_eq!(home(&[("STEAD_HOME", "/h"), ("HOME", "/me")]).unwrap(), "/h");
    assert_eq!(home(&[("XDG_DATA_HOME", "/data"), ("HOME", "/me")]).unwrap(), "/data/stead");
    assert_eq!(home(&[("XDG_DATA_HOME", "relative"), ("HOME", "/me")]).unwrap(), "/me/.local/share/stead");
    assert!(home(&[]).is_err());
}

#[test]
fn a_preview_domain_is_apart_from_the_names_of_the_api() {
    let domain = |file: &str| setup(file).load().unwrap().server().unwrap().preview_domain;
    assert_eq!(domain(""), None);
    let file = "preview_domain = 'Preview.Example'\nallowed_hosts = ['stead.example:8443', 'preview.example.org']";
    assert_eq!(domain(file).as_deref(), Some("preview.example"));
    for wrong in ["localhost", "a..b", "-a.b", "a_b.c", "preview.example:443", ".example"] {
        let refused = setup(&format!("preview_domain = '{wrong}'")).refusal();
        assert_eq!(
            refused,
            format!("preview_domain in HOME/stead.toml cannot be used: {wrong:?} is not a domain name")
        );
    }
    for host in ["preview.example", "api.preview.example", "example"] {
        let refused = setup(&format!("preview_domain = 'preview.example'\nallowed_hosts = ['{host}']")).refusal();
        assert!(refused.ends_with("are below each other"), "{refused}");
    }
}
