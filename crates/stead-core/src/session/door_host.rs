//! Host names of the browser door: one for each port of each session.
//!
//! A page from a box must not share an origin with the API, the dashboard or another session. So
//! each port of each session has a host name of its own, and browsers keep their storage apart.
//! The name is one label, `PORT-ses-ID`, below `localhost` or the server's preview domain. An
//! underscore, as in a session's id, is not valid in a host name.

use crate::SessionId;

/// A port of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DoorHost {
    pub session: SessionId,
    pub port: u16,
}

/// The meaning of a `Host`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedHost {
    Door(DoorHost),
    /// A name below the door's domains that is not a door. Nothing answers for it.
    Nothing,
    /// Any other name, which may be the API's.
    Other,
}

const LOCAL: &str = ".localhost";

impl DoorHost {
    /// Returns the first label of the host name.
    pub fn label(&self) -> String {
        let id = self.session.to_string();
        let digits = id.strip_prefix(SessionId::PREFIX).unwrap_or_default();
        format!("{}-ses-{digits}", self.port)
    }

    /// Parses a label. Each door has exactly one label in lower case.
    fn parse(label: &str) -> Option<Self> {
        let (port, digits) = label.split_once("-ses-")?;
        let session = format!("{}{digits}", SessionId::PREFIX).parse().ok()?;
        Some(Self { session, port: parse_port(port)? })
    }
}

/// Parses a port in decimal digits: no sign, no leading zero, 1 to 65535.
pub fn parse_port(text: &str) -> Option<u16> {
    let plain =
        (1..=5).contains(&text.len()) && !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| plain)
}

/// Reads the value of a `Host` header. `listening` is the port of the server, which a name below
/// `localhost` must have. A name below `preview_domain` may have any port, because a proxy is in
/// front of it.
pub fn read_host(host: &str, listening: u16, preview_domain: Option<&str>) -> NamedHost {
    let host = host.to_ascii_lowercase();
    let (name, port) = match host.split_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (host.as_str(), None),
    };
    // `name.` is the same host in DNS, but another origin in a browser.
    let undotted = name.strip_suffix('.').unwrap_or(name);
    let port = match port {
        None => Some(80),
        Some(port) => parse_port(port),
    };
    let preview = preview_domain.and_then(|domain| undotted.strip_suffix(domain)?.strip_suffix('.'));
    let (label, right_port) = match (preview, undotted.strip_suffix(LOCAL)) {
        (Some(label), _) => (label, port.is_some()),
        (None, Some(label)) => (label, port == Some(listening)),
        (None, None) => return NamedHost::Other,
    };
    match DoorHost::parse(label) {
        Some(door) if right_port && undotted == name => NamedHost::Door(door),
        _ => NamedHost::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01jz0000000000000000000000";

    fn read(host: &str) -> NamedHost {
        read_host(host, 7717, Some("preview.example"))
    }

    #[test]
    fn a_door_has_a_label_that_reads_back() {
        let door = DoorHost { session: format!("ses_{ID}").parse().unwrap(), port: 8080 };
        assert_eq!(door.label(), format!("8080-ses-{ID}"));
        let label = door.label();
        for host in [
            format!("{label}.localhost:7717"),
            format!("{}.LocalHost:7717", label.to_uppercase()),
            format!("{label}.preview.example"),
            format!("{label}.preview.example:8443"),
        ] {
            assert_eq!(read(&host), NamedHost::Door(door), "{host}");
        }
        assert_eq!(read_host(&format!("{label}.localhost"), 80, None), NamedHost::Door(door));
    }

    #[test]
    fn a_name_below_a_door_domain_that_is_no_door_is_nothing() {
        let label = format!("8080-ses-{ID}");
        for host in [
            format!("{label}.localhost"),
            format!("{label}.localhost:7718"),
            format!("{label}.localhost.:7717"),
            format!("{label}.localhost:+7717"),
            format!("{label}.localhost:07717"),
            format!("{label}.localhost:7717:7717"),
            format!("x.{label}.localhost:7717"),
            format!("{label}x.localhost:7717"),
            format!("0-ses-{ID}.localhost:7717"),
            format!("65536-ses-{ID}.localhost:7717"),
            format!("+8080-ses-{ID}.localhost:7717"),
            format!("08080-ses-{ID}.localhost:7717"),
            format!("-ses-{ID}.localhost:7717"),
            format!("8080-ses_{ID}.localhost:7717"),
            format!("8080-ses-{}.localhost:7717", "8".repeat(26)),
            format!("user@{label}.localhost:7717"),
            ".localhost:7717".to_owned(),
            "a.localhost:7717".to_owned(),
            "a.preview.example".to_owned(),
            ".preview.example".to_owned(),
        ] {
            assert_eq!(read(&host), NamedHost::Nothing, "{host}");
        }
    }

    #[test]
    fn other_names_are_left_to_the_api() {
        let label = format!("8080-ses-{ID}");
        for host in [
            "localhost:7717".to_owned(),
            "127.0.0.1:7717".to_owned(),
            "[::1]:7717".to_owned(),
            String::new(),
            "preview.example".to_owned(),
            format!("{label}.localhost.evil"),
            format!("{label}localhost:7717"),
            format!("{label}.evilpreview.example"),
        ] {
            assert_eq!(read(&host), NamedHost::Other, "{host}");
        }
    }
}
