//! The sign-in of the web page.
//!
//! A token makes a link with a code that works once. The page exchanges the code for a cookie that
//! scripts cannot read. The cookie is derived with the server's key and not stored. It acts as the
//! token that made the link, and ends with it.
//!
//! Other ports of the same host, such as previews of boxes, are the same *site* for a browser and
//! get `SameSite=Strict` cookies. So a request with the cookie must also prove that it comes from a
//! page of this origin ([`comes_from_the_page`]).

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::header::COOKIE;
use http::{HeaderMap, Method};
use stead_core::Timestamp;
use stead_core::identity::Principal;

use super::lifetime::Lifetime;
use super::{Identity, Source};
use crate::app::App;
use crate::problem::{Code, Problem};

/// Name of the cookie.
pub(crate) const NAME: &str = "stead_page";
/// Header that a page of another origin cannot send without a preflight, which this server refuses.
pub(crate) const PAGE_HEADER: &str = "x-stead-page";
/// Life of a cookie: 12 hours.
pub(crate) const LIFE_SECONDS: i64 = 12 * 3600;
/// Life of a link in milliseconds: 10 minutes.
const LINK_LIFE: i64 = 10 * 60 * 1000;
/// Most links and ended cookies that the server remembers.
const MOST: usize = 10_000;

/// The token that a cookie acts as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A token of the configuration, by its name.
    Configured { name: String, hash: [u8; 32] },
    /// A token that was created at run time, by the hash of its secret.
    Issued { secret_hash: String },
}

impl Subject {
    /// The text of a cookie that names the token. It is safe in a cookie.
    fn claim(&self) -> String {
        match self {
            Self::Configured { name, .. } => format!("c{}", hex(name.as_bytes())),
            Self::Issued { secret_hash } => format!("t{secret_hash}"),
        }
    }

    /// The hash of a token's text, so that a cookie ends when its name belongs to another token.
    fn secret(&self) -> String {
        match self {
            Self::Configured { hash, .. } => hex(hash),
            Self::Issued { secret_hash } => secret_hash.clone(),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Links that were not used yet, and cookies that were signed out.
#[derive(Clone, Default)]
pub(crate) struct PageSessions(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    /// By the hash of the code.
    links: HashMap<[u8; 32], (Subject, Timestamp)>,
    /// By the nonce of the cookie, with its end.
    ended: HashMap<String, Timestamp>,
}

impl PageSessions {
    fn table(&self, now: Timestamp) -> MutexGuard<'_, Table> {
        // Every change is complete under the lock, so a panic elsewhere cannot leave it half done.
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.links.retain(|_, (_, until)| *until > now);
        table.ended.retain(|_, until| *until > now);
        table
    }

    /// Makes a code for a link, and returns it with its end.
    pub(crate) fn link(&self, subject: Subject, now: Timestamp) -> Result<(String, Timestamp), Problem> {
        let code = format!("link_{}", random()?);
        let until = Timestamp::from_millis(now.millis() + LINK_LIFE);
        let mut table = self.table(now);
        if table.links.len() >= MOST {
            let detail = format!("{MOST} sign-in links are not used yet");
            return Err(Problem::new(Code::TooManyRequests, detail).retry_after(60));
        }
        table.links.insert(*blake3::hash(code.as_bytes()).as_bytes(), (subject, until));
        Ok((code, until))
    }

    /// Takes the subject of a code. A second call with the same code returns `None`.
    pub(crate) fn redeem(&self, code: &str, now: Timestamp) -> Option<Subject> {
        let key = *blake3::hash(code.as_bytes()).as_bytes();
        self.table(now).links.remove(&key).map(|(subject, _)| subject)
    }

    fn end(&self, nonce: &str, until: Timestamp, now: Timestamp) {
        let mut table = self.table(now);
        if table.ended.len() < MOST {
            table.ended.insert(nonce.to_owned(), until);
        }
    }

    fn has_ended(&self, nonce: &str, now: Timestamp) -> bool {
        self.table(now).ended.contains_key(nonce)
    }
}

fn random() -> Result<String, Problem> {
    let mut bits = [0u8; 32];
    getrandom::fill(&mut bits).map_err(|error| Problem::internal(&error))?;
    Ok(hex(&bits))
}

/// Returns the value of a new cookie.
pub(crate) fn cookie(app: &App, subject: &Subject) -> Result<String, Problem> {
    let until = Timestamp::from_millis(app.engine.now().millis() + LIFE_SECONDS * 1000);
    let (claim, nonce) = (subject.claim(), random()?);
    let proof = proof(app, subject, until, &nonce);
    Ok(format!("{claim}.{:x}.{nonce}.{proof}", until.millis()))
}

fn proof(app: &App, subject: &Subject, until: Timestamp, nonce: &str) -> blake3::Hash {
    let signed = format!("{} {} {:x} {nonce}", subject.claim(), subject.secret(), until.millis());
    app.engine.page_proof(&signed)
}

/// A cookie with a valid proof.
struct Valid {
    subject: Subject,
    nonce: String,
    until: Timestamp,
}

fn verify(app: &App, value: &str) -> Option<Valid> {
    let mut parts = value.split('.');
    let (Some(claim), Some(end), Some(nonce), Some(shown), None) =
        (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let until = Timestamp::from_millis(i64::from_str_radix(end, 16).ok()?);
    let shown = blake3::Hash::from_hex(shown).ok()?;
    let now = app.engine.now();
    if until <= now || app.page_sessions.has_ended(nonce, now) {
        return None;
    }
    // The comparison of two hashes takes constant time.
    let subject = subjects(app, claim).into_iter().find(|subject| proof(app, subject, until, nonce) == shown)?;
    Some(Valid { subject, nonce: nonce.to_owned(), until })
}

/// Returns the tokens that a claim can mean.
fn subjects(app: &App, claim: &str) -> Vec<Subject> {
    if let Some(secret_hash) = claim.strip_prefix('t') {
        return vec![Subject::Issued { secret_hash: secret_hash.to_owned() }];
    }
    let all = app.config.admin_tokens.iter();
    let all = all.map(|(name, hash)| Subject::Configured { name: name.clone(), hash: *hash });
    all.filter(|subject| subject.claim() == claim).collect()
}

/// Returns the caller of a request with the page's cookie. `None` if it has none that is valid.
pub(super) fn identify(app: &App, headers: &HeaderMap) -> Option<Identity> {
    let Valid { subject, until, .. } = verify(app, &value(headers)?)?;
    let (actor, principal, token, mut lifetime) = match &subject {
        Subject::Configured { name, .. } => {
            let principal = Principal::admin(name);
            (principal.actor.clone(), Arc::new(principal), None, Lifetime::default())
        }
        Subject::Issued { secret_hash } => {
            let found = app.engine.authenticate_hash(secret_hash)?;
            let actor = found.principal.actor.clone();
            let lifetime = Lifetime {
                revoked: Some(found.revoked),
                until: found.until,
                secret_hash: Some(found.secret_hash),
                ..Lifetime::default()
            };
            (actor, found.principal, Some(found.token), lifetime)
        }
    };
    lifetime.until = Some(lifetime.until.map_or(until, |end| end.min(until)));
    Some(Identity { actor, principal: Some(principal), token, lifetime, source: Source::Page })
}

/// Ends the cookie of a request for all requests with it.
pub(crate) fn sign_out(app: &App, headers: &HeaderMap) {
    if let Some(Valid { nonce, until, .. }) = value(headers).and_then(|value| verify(app, &value)) {
        app.page_sessions.end(&nonce, until, app.engine.now());
    }
}

/// Returns the value of the cookie. Two of them count as none, because another port of the same
/// host can add one.
fn value(headers: &HeaderMap) -> Option<String> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut values = lines
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(name, _)| *name == NAME)
        .map(|(_, value)| value.to_owned());
    let found = values.next()?;
    values.next().is_none().then_some(found)
}

/// Checks that a request with the cookie comes from a page of this origin.
///
/// The page sends [`PAGE_HEADER`]. Downloads are links, which cannot have it, so a read may instead
/// have the browser's own statement that it comes from the same origin.
pub(crate) fn comes_from_the_page(method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let same_origin = headers.get("sec-fetch-site").is_some_and(|site| site == "same-origin");
    if headers.contains_key(PAGE_HEADER) || (reads && same_origin) {
        return Ok(());
    }
    let detail = "this request has the cookie of the web page, but does not come from the page";
    Err(Problem::new(Code::Forbidden, detail).hint("programs send Authorization: Bearer <token>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn a_code_works_once_and_not_after_its_end() {
        let sessions = PageSessions::default();
        let subject = Subject::Issued { secret_hash: "ab".to_owned() };
        let (code, until) = sessions.link(subject.clone(), at(0)).unwrap();
        assert_eq!(sessions.redeem("another", at(1)), None);
        assert_eq!(sessions.redeem(&code, at(1)), Some(subject.clone()));
        assert_eq!(sessions.redeem(&code, at(1)), None);
        let (code, _) = sessions.link(subject, at(0)).unwrap();
        assert_eq!(sessions.redeem(&code, until), None);
    }

    #[test]
    fn two_cookies_count_as_none() {
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, "stead_door=x; stead_page=a.b".parse().unwrap());
        assert_eq!(value(&headers).as_deref(), Some("a.b"));
        headers.append(COOKIE, "stead_page=c".parse().unwrap());
        assert_eq!(value(&headers), None);
    }

    #[test]
    fn a_write_needs_the_header_and_a_read_a_statement() {
        let check = |method: Method, name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            comes_from_the_page(&method, &headers).is_ok()
        };
        assert!(check(Method::POST, PAGE_HEADER, "1"));
        assert!(check(Method::GET, "sec-fetch-site", "same-origin"));
        for site in ["same-site", "cross-site", "none"] {
            assert!(!check(Method::GET, "sec-fetch-site", site), "{site}");
        }
        assert!(!check(Method::DELETE, "sec-fetch-site", "same-origin"));
    }
}
