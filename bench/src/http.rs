//! The HTTP load: the same client for the server and for its peer.

use std::time::Instant;

use anyhow::{Result, bail};
use serde_json::Value;

#[derive(Clone)]
pub(crate) struct Caller {
    agent: ureq::Agent,
    url: String,
    authorization: String,
}

/// Result of a load.
pub(crate) struct Load {
    pub(crate) per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

impl Caller {
    pub(crate) fn new(url: &str, token: &str) -> Self {
        let config = ureq::Agent::config_builder().http_status_as_error(false).build();
        Self { agent: config.into(), url: url.to_owned(), authorization: format!("Bearer {token}") }
    }

    pub(crate) fn send(&self, method: &str, path: &str, body: Option<&str>) -> Result<(u16, String)> {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("authorization", &self.authorization)
            .header("content-type", "application/json");
        let mut response = match body {
            Some(body) => self.agent.run(request.body(body)?)?,
            None => self.agent.run(request.body(())?)?,
        };
        Ok((response.status().as_u16(), response.body_mut().read_to_string()?))
    }

    pub(crate) fn json(&self, method: &str, path: &str, body: Option<Value>) -> Result<Value> {
        let body = body.map(|body| body.to_string());
        let (status, text) = self.send(method, path, body.as_deref())?;
        if !(200..300).contains(&status) {
            bail!("{method} {path}: {status} {text}");
        }
        Ok(serde_json::from_str(&text).unwrap_or(Value::Null))
    }
}

/// Runs `work` `each` times on `threads` threads and measures every run.
pub(crate) fn load<W>(threads: usize, each: usize, work: impl Fn(usize) -> W + Sync) -> Result<Load>
where
    W: FnMut() -> Result<()>,
{
    let started = Instant::now();
    let mut samples: Vec<f64> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let work = &work;
                scope.spawn(move || -> Result<Vec<f64>> {
                    let mut once = work(thread);
                    let mut samples = Vec::with_capacity(each);
                    for _ in 0..each {
                        let begun = Instant::now();
                        once()?;
                        samples.push(begun.elapsed().as_secs_f64() * 1000.0);
                    }
                    Ok(samples)
                })
            })
            .collect();
        let mut samples = Vec::new();
        for thread in running {
            samples.extend(thread.join().map_err(|_| anyhow::anyhow!("a load thread panicked"))??);
        }
        Ok::<_, anyhow::Error>(samples)
    })?;
    let per_second = samples.len() as f64 / started.elapsed().as_secs_f64();
    samples.sort_by(f64::total_cmp);
    let percentile = |fraction| crate::table::percentile(&samples, fraction);
    Ok(Load { per_second, p50_ms: percentile(0.5), p99_ms: percentile(0.99) })
}
