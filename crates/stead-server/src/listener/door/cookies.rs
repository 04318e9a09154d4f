//! The cookie of a door.

use http::HeaderMap;
use http::header::COOKIE;

/// Name of the cookie on plain HTTP.
const PLAIN: &str = "stead_door";
/// Name of the cookie behind TLS. Browsers accept a cookie with this prefix only from the host
/// itself, so another preview below the same domain cannot replace it.
const SECURE: &str = "__Host-stead_door";
/// Seconds after which a visitor needs a new ticket.
pub(super) const LIFETIME_SECONDS: u64 = 12 * 3600;

/// Returns true for a name that only the door may set.
pub(super) fn is_own(name: &str) -> bool {
    name.eq_ignore_ascii_case(PLAIN) || name.eq_ignore_ascii_case(SECURE)
}

/// Returns the value of `Set-Cookie`. Without `Domain`, the cookie is for this host alone.
pub(super) fn set(value: &str, secure: bool) -> String {
    let (name, more) = if secure { (SECURE, "; Secure") } else { (PLAIN, "") };
    format!("{name}={value}; Path=/; Max-Age={LIFETIME_SECONDS}; HttpOnly; SameSite=Lax{more}")
}

/// Returns every value of the door's cookie. There can be several, because a page can add a cookie
/// of the same name.
pub(super) fn values(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    pairs(headers).filter(|(name, _)| is_own(name)).map(|(_, value)| value)
}

fn pairs(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='))
}

/// Removes the door's cookie from a request and keeps the others.
pub(super) fn remove(headers: &mut HeaderMap) {
    let lines: Vec<_> = headers.get_all(COOKIE).iter().cloned().collect();
    headers.remove(COOKIE);
    for line in lines {
        // Bytes, because a cookie of the program can be any text.
        let kept: Vec<&[u8]> = line
            .as_bytes()
            .split(|byte| *byte == b';')
            .map(<[u8]>::trim_ascii)
            .filter(|pair| {
                let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
                !pair.is_empty() && !std::str::from_utf8(name).is_ok_and(is_own)
            })
            .collect();
        if let (false, Ok(value)) = (kept.is_empty(), http::HeaderValue::from_bytes(&kept.join(&b"; "[..]))) {
            headers.append(COOKIE, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(COOKIE, http::HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        headers
    }

    #[test]
    fn the_doors_cookie_is_found_and_removed_among_others() {
        let mut headers = headers(&["a=1; stead_door=x; b=2", "STEAD_DOOR=y;c=3", "__Host-stead_door=z", "d=ä; e"]);
        assert_eq!(values(&headers).collect::<Vec<_>>(), ["x", "y", "z"]);
        remove(&mut headers);
        let left: Vec<_> = headers.get_all(COOKIE).iter().map(|value| value.as_bytes().to_vec()).collect();
        assert_eq!(left, [b"a=1; b=2".to_vec(), b"c=3".to_vec(), "d=ä; e".as_bytes().to_vec()]);
        assert_eq!(values(&headers).count(), 0);
    }

    #[test]
    fn the_cookie_is_for_one_host_and_not_for_scripts() {
        assert_eq!(set("v", false), "stead_door=v; Path=/; Max-Age=43200; HttpOnly; SameSite=Lax");
        assert_eq!(set("v", true), "__Host-stead_door=v; Path=/; Max-Age=43200; HttpOnly; SameSite=Lax; Secure");
    }
}
