//! Rates of a project and of each of its users, as token buckets in this process.
//!
//! A bucket holds as many tokens as its rate allows per period, so a client at rest can use them at
//! once. A restart of the server fills all buckets.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use stead_core::admission::{self, Quantity, QuotaExceeded, Scope};
use stead_core::quota::{Quotas, RateQuota};
use stead_core::{Actor, Name};
use stead_engine::{Engine, ops};

use crate::problem::Problem;

/// Number of buckets above which full ones are forgotten.
const MANY: usize = 4096;
/// Nanoseconds of a second.
const NANOSECONDS: u128 = 1_000_000_000;

#[derive(Clone, Default)]
pub(crate) struct Rates(Arc<Mutex<Buckets>>);

type Buckets = HashMap<(Scope, Quantity), Bucket>;

/// A bucket of tokens. Credit is tokens times the period in nanoseconds, so that it grows by whole
/// numbers and no wait is rounded.
struct Bucket {
    credit: u128,
    at: Instant,
}

/// A rate that a request must fit into.
struct Rate {
    scope: Scope,
    quantity: Quantity,
    allowed: u64,
}

impl Rates {
    /// Counts the creation of `count` sessions in a project.
    pub(crate) async fn create(
        &self,
        engine: &Engine,
        actor: &Actor,
        project: Option<&Name>,
        count: u32,
    ) -> Result<(), Problem> {
        let Some(project) = project else { return Ok(()) };
        let quotas = ops::effective_quotas(engine, project).await?;
        let user = admission::owner(actor);
        self.take(&rates(&quotas, project, user, Quantity::CreatesPerMinute), count, Instant::now())
    }

    /// Counts a request by the holder of a user token.
    pub(crate) async fn request(&self, engine: &Engine, actor: &Actor) -> Result<(), Problem> {
        let Actor::User { name, project: Some(project), .. } = actor else { return Ok(()) };
        let quotas = ops::effective_quotas(engine, project).await?;
        self.take(&rates(&quotas, project, Some(name), Quantity::RequestsPerSecond), 1, Instant::now())
    }

    /// Takes tokens from all buckets, or from none.
    fn take(&self, rates: &[Rate], count: u32, now: Instant) -> Result<(), Problem> {
        if rates.is_empty() {
            return Ok(());
        }
        // A bucket is replaced as a whole, so a panic elsewhere cannot corrupt it.
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() > MANY {
            buckets.retain(|(_, quantity), bucket| now.duration_since(bucket.at) < period(*quantity));
        }
        for rate in rates {
            rate.check(&buckets, count, now)?;
        }
        for rate in rates {
            let credit = rate.credit(&buckets, now).saturating_sub(rate.price(count.into()));
            buckets.insert((rate.scope.clone(), rate.quantity), Bucket { credit, at: now });
        }
        Ok(())
    }
}

/// The time in which an empty bucket fills.
const fn period(quantity: Quantity) -> Duration {
    match quantity {
        Quantity::CreatesPerMinute => Duration::from_secs(60),
        _ => Duration::from_secs(1),
    }
}

fn rates(quotas: &Quotas, project: &Name, user: Option<&str>, quantity: Quantity) -> Vec<Rate> {
    let allowed = |rates: &RateQuota| match quantity {
        Quantity::CreatesPerMinute => rates.creates_per_minute,
        _ => rates.requests_per_second,
    };
    let project = project.to_string();
    let mut found = Vec::new();
    if let (Some(user), Some(quota)) = (user, &quotas.per_user) {
        let scope = Scope::User { project: project.clone(), user: user.to_owned() };
        found.extend(allowed(&quota.rates).map(|allowed| Rate { scope, quantity, allowed }));
    }
    let scope = Scope::Project { project };
    found.extend(allowed(&quotas.rates).map(|allowed| Rate { scope, quantity, allowed }));
    found
}

impl Rate {
    /// The credit of a full bucket. It grows by the rate in each nanosecond.
    fn size(&self) -> u128 {
        self.price(self.allowed)
    }

    /// The credit that a number of tokens costs.
    fn price(&self, tokens: u64) -> u128 {
        u128::from(tokens) * period(self.quantity).as_nanos()
    }

    fn credit(&self, buckets: &Buckets, now: Instant) -> u128 {
        let Some(bucket) = buckets.get(&(self.scope.clone(), self.quantity)) else { return self.size() };
        let grown = now.duration_since(bucket.at).as_nanos().saturating_mul(u128::from(self.allowed));
        bucket.credit.saturating_add(grown).min(self.size())
    }

    fn check(&self, buckets: &Buckets, count: u32, now: Instant) -> Result<(), Problem> {
        let (credit, requested) = (self.credit(buckets, now), u64::from(count));
        let Some(missing) = self.price(requested).checked_sub(credit).filter(|missing| *missing > 0) else {
            return Ok(());
        };
        let left = u64::try_from(credit / period(self.quantity).as_nanos()).unwrap_or(self.allowed);
        let exceeded = QuotaExceeded {
            scope: self.scope.clone(),
            quantity: self.quantity,
            used: self.allowed.saturating_sub(left),
            requested,
            allowed: self.allowed,
        };
        // A rate of zero never grows, and then no wait helps.
        let nanoseconds = missing.div_ceil(u128::from(self.allowed.max(1)));
        let seconds = u32::try_from(nanoseconds.div_ceil(NANOSECONDS)).unwrap_or(u32::MAX);
        Err(Problem::exceeding(&exceeded).retry_if_helpful(&exceeded, seconds))
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;
    use serde_json::json;
    use stead_core::parse::read;

    use super::*;

    fn creates(quotas: &Quotas, user: Option<&str>) -> Vec<Rate> {
        rates(quotas, &"web".parse().unwrap(), user, Quantity::CreatesPerMinute)
    }

    fn retry_after(problem: Problem) -> Option<u32> {
        let response = problem.into_response();
        assert_eq!(response.status(), 429);
        response.headers().get("retry-after").map(|value| value.to_str().unwrap().parse().unwrap())
    }

    #[test]
    fn t3_a_rate_holds_and_names_the_exact_wait() {
        let quotas: Quotas = read(json!({"creates_per_minute": 6})).unwrap();
        let (buckets, start) = (Rates::default(), Instant::now());
        for _ in 0..6 {
            buckets.take(&creates(&quotas, None), 1, start).unwrap();
        }
        let refused = buckets.take(&creates(&quotas, None), 1, start).unwrap_err();
        assert_eq!(retry_after(refused), Some(10), "one token per ten seconds");
        let soon = start + Duration::from_secs(9);
        assert_eq!(retry_after(buckets.take(&creates(&quotas, None), 1, soon).unwrap_err()), Some(1));
        let then = start + Duration::from_secs(10);
        buckets.take(&creates(&quotas, None), 1, then).unwrap();
        assert!(buckets.take(&creates(&quotas, None), 1, then).is_err());
        let later = start + Duration::from_secs(3600);
        buckets.take(&creates(&quotas, None), 6, later).unwrap();
        assert!(buckets.take(&creates(&quotas, None), 1, later).is_err(), "a bucket holds no more than its rate");
    }

    #[test]
    fn t3_a_user_has_a_rate_within_the_project() {
        let quotas: Quotas = read(json!({"creates_per_minute": 3, "per_user": {"creates_per_minute": 2}})).unwrap();
        let (buckets, now) = (Rates::default(), Instant::now());
        buckets.take(&creates(&quotas, Some("ann")), 2, now).unwrap();
        assert!(buckets.take(&creates(&quotas, Some("ann")), 1, now).is_err());
        buckets.take(&creates(&quotas, Some("bob")), 1, now).unwrap();
        assert!(buckets.take(&creates(&quotas, Some("bob")), 1, now).is_err(), "the project's rate is used up");
        assert!(buckets.take(&creates(&quotas, None), 1, now).is_err(), "an administrator's creation counts too");
    }

    #[test]
    fn t3_a_wait_that_does_not_help_is_not_offered() {
        let nothing: Quotas = read(json!({"creates_per_minute": 0})).unwrap();
        let refused = Rates::default().take(&creates(&nothing, None), 1, Instant::now()).unwrap_err();
        assert_eq!(retry_after(refused), None);
        let few: Quotas = read(json!({"creates_per_minute": 2})).unwrap();
        let refused = Rates::default().take(&creates(&few, None), 3, Instant::now()).unwrap_err();
        assert_eq!(retry_after(refused), None);
    }
}
