//! The browser door in real Chromium, driven by chromedriver over the WebDriver protocol.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use stead_testkit::{TestServer, until};

use super::{PORT, authority, token, with_app};
use crate::rows::Files;

/// A browser with a new profile. Dropping it ends the browser.
struct Browser {
    driver: Child,
    agent: ureq::Agent,
    session: String,
    profile: tempfile::TempDir,
}

impl Browser {
    fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the Debian package chromium-driver is installed");
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(180)))
            .proxy(None)
            .build();
        let agent: ureq::Agent = config.into();
        let base = format!("http://127.0.0.1:{port}");
        until("chromedriver answers", || agent.get(format!("{base}/status")).call().ok().map(drop));
        let mut browser = Self { driver, agent, session: base.clone(), profile };
        let directory = format!("--user-data-dir={}", browser.profile.path().display());
        let args = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--no-proxy-server",
            &directory,
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args": args},
            "timeouts": {"script": 60_000, "pageLoad": 120_000}}}});
        let made = browser.post("/session", &wanted);
        browser.session = format!("{base}/session/{}", made["sessionId"].as_str().unwrap());
        browser
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> Value {
        let url = format!("{}{path}", self.session);
        let mut response = self.agent.post(&url).send(body.to_string().as_bytes()).unwrap();
        let text = response.body_mut().read_to_string().unwrap();
        assert!(response.status().is_success(), "{path}: {text}");
        serde_json::from_str::<Value>(&text).unwrap()["value"].clone()
    }

    #[track_caller]
    fn open(&self, url: &str) {
        self.post("/url", &json!({"url": url}));
    }

    /// Runs a function body with `await`, and returns its value.
    #[track_caller]
    fn run(&self, script: &str, args: Value) -> Value {
        let script = format!(
            "const done = arguments[arguments.length - 1]; const args = arguments[0]; \
             (async () => {{ {script} }})().then(done, error => done('error: ' + error));"
        );
        self.post("/execute/async", &json!({"script": script, "args": [args]}))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ends Chromium. Killing the driver alone would leave it running.
        let _ = self.agent.delete(&self.session).call();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn link(server: &TestServer, id: &str) -> String {
    let opened = server.client().post(&format!("/sessions/{id}/ports/{PORT}:open"), json!({})).expect(200);
    opened["url"].as_str().unwrap().to_owned()
}

/// Attempts of a page to use the API. Each returns what the page got to know.
const ATTEMPTS: &str = "
    const results = {};
    const attempt = async (name, work) => {
        try { results[name] = await work(); } catch (error) { results[name] = 'refused'; }
    };
    const headers = {Authorization: 'Bearer ' + args.token};
    await attempt('fetch', async () => (await fetch(args.api + '/api/v1/sessions', {headers})).status);
    await attempt('delete', async () =>
        (await fetch(args.api + '/api/v1/sessions/' + args.id, {method: 'DELETE', headers})).status);
    await attempt('simple', async () =>
        (await fetch(args.api + '/api/v1/sessions/' + args.id + '/pause', {method: 'POST', mode: 'no-cors',
            credentials: 'include'})).type);
    await attempt('image', () => new Promise((resolve, reject) => {
        const image = new Image();
        image.onload = () => resolve('loaded');
        image.onerror = () => reject(new Error('image'));
        image.src = args.api + '/api/v1/sessions';
    }));
    await attempt('socket', () => new Promise((resolve, reject) => {
        const socket = new WebSocket(args.api.replace('http', 'ws') + '/mcp/line');
        socket.onopen = () => resolve('open');
        socket.onerror = () => reject(new Error('socket'));
    }));
    await attempt('frame', () => new Promise((resolve, reject) => {
        const frame = document.createElement('iframe');
        frame.src = args.api + '/';
        frame.onload = () => {
            try { resolve(frame.contentWindow.sessionStorage.length >= 0 ? 'read' : ''); }
            catch (error) { reject(error); }
        };
        document.body.append(frame);
    }));
    await attempt('form', () => new Promise(resolve => {
        const frame = document.createElement('iframe');
        frame.name = 'target';
        document.body.append(frame);
        const form = document.createElement('form');
        form.method = 'POST';
        form.target = 'target';
        form.action = args.api + '/api/v1/sessions/' + args.id + '/pause';
        document.body.append(form);
        frame.onload = () => resolve('sent');
        form.submit();
    }));
    return results;";

#[test]
fn n6_a_page_of_a_box_opens_in_a_browser_and_cannot_use_the_api() {
    let server = Files::Disk.server();
    let (_, id) = with_app(&server, Files::Disk);
    let api = format!("http://{}", authority(&server));
    let browser = Browser::start();
    // The dashboard's origin stores a secret.
    browser.open(&format!("{api}/"));
    let stored = "sessionStorage.setItem('token', 'secret'); localStorage.setItem('token', 'secret'); \
                  document.cookie = 'dashboard=secret'; return document.cookie";
    assert!(browser.run(stored, json!({})).as_str().unwrap().contains("dashboard=secret"));

    browser.open(&link(&server, &id));
    let page =
        browser.run("return {title: document.title, path: location.pathname, origin: location.origin}", json!({}));
    assert_eq!((&page["title"], &page["path"]), (&json!("From the box"), &json!("/")), "{page}");
    assert_ne!(page["origin"], json!(api));

    let storage = "return {cookie: document.cookie, session: sessionStorage.length, local: localStorage.length, \
                   secure: isSecureContext}";
    let expected = json!({"cookie": "", "session": 0, "local": 0, "secure": true});
    assert_eq!(browser.run(storage, json!({})), expected, "no storage of the dashboard, and no cookie for scripts");
    let seen = browser.run("return await (await fetch('/seen')).text()", json!({}));
    assert!(!seen.as_str().unwrap().contains("secret") && !seen.as_str().unwrap().contains("stead_door"), "{seen}");

    let results = browser.run(ATTEMPTS, json!({"api": api, "token": token(&server), "id": id}));
    for name in ["fetch", "delete", "image", "socket", "frame"] {
        assert_eq!(results[name], "refused", "{name}: {results}");
    }
    assert_eq!(results["form"], "sent", "the browser sends a form, and the server refuses it: {results}");
    let session = server.client().get(&format!("/sessions/{id}")).expect(200);
    assert_eq!(session["status"], "active", "no attempt had an effect");
}

#[test]
fn web_sockets_and_service_workers_stay_in_their_origin_and_end_with_the_session() {
    let server = Files::Disk.server();
    let (_, id) = with_app(&server, Files::Disk);
    let browser = Browser::start();
    let url = link(&server, &id);
    browser.open(&url);
    let echo = "return await new Promise((resolve, reject) => { \
                const socket = new WebSocket(location.origin.replace('http', 'ws') + '/socket'); \
                socket.onopen = () => socket.send('hi'); socket.onmessage = event => resolve(event.data); \
                socket.onerror = () => reject(new Error('socket')); })";
    assert_eq!(browser.run(echo, json!({})), "echo hi");
    let register = "const registration = await navigator.serviceWorker.register('/worker.js'); \
                    await navigator.serviceWorker.ready; localStorage.setItem('kept', 'x'); \
                    return registration.scope";
    let scope = browser.run(register, json!({}));
    let origin = url.split("/.stead").next().unwrap();
    assert_eq!(scope, json!(format!("{origin}/")));
    let outside = "return (await navigator.serviceWorker.register('/worker.js', {scope: args})).scope";
    let refused = browser.run(outside, json!(format!("http://{}/", authority(&server))));
    assert!(refused.as_str().unwrap().starts_with("error:"), "{refused}");

    server.client().delete(&format!("/sessions/{id}")).expect(204);
    browser.open(&format!("{origin}/"));
    assert_eq!(browser.run("return document.title", json!({})), "The session has ended");
    let left = "return [(await navigator.serviceWorker.getRegistrations()).length, localStorage.length]";
    until("the browser forgets the origin", || (browser.run(left, json!({})) == json!([0, 0])).then_some(()));
    // The link of an ended session leads nowhere.
    let again = server.client().post(&format!("/sessions/{id}/ports/{PORT}:open"), json!({}));
    again.problem(409, "session_not_active");
}
