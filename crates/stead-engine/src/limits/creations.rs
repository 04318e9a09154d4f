//! Admits creations of sessions in turns, so that one project cannot delay the others.
//!
//! While several projects create sessions, few creations run at a time, so that each gets a core.
//! A project without a running creation does not wait for the others. A free place goes to the
//! project with the fewest running creations, and among those to the one whose last turn is the
//! longest ago. A project that floods the server thus waits for itself. A project that is alone may
//! run more, to share the writes to the disk. The queue is bounded per project and in all.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stead_core::Name;
use tokio::sync::oneshot;

use crate::error::OpError;

/// Number of running creations of a project that is alone, per one that may run beside others.
const ALONE_FACTOR: usize = 4;
/// A project is alone if no other has begun a creation for this long.
const ALONE_AFTER: Duration = Duration::from_secs(1);
/// Number of creations of one project that may wait.
const MOST_WAITING_PER_PROJECT: usize = 1024;
/// Number of creations that may wait in all.
const MOST_WAITING: usize = 8192;

#[derive(Clone)]
pub(crate) struct Creations {
    places: Places,
    queue: Arc<Mutex<Queue>>,
}

/// Numbers of creations that run at the same time.
#[derive(Debug, Clone, Copy)]
struct Places {
    /// While several projects create sessions.
    shared: usize,
    /// While one project does, and the most at any time.
    most: usize,
}

#[derive(Default)]
struct Queue {
    running: usize,
    waiting: usize,
    /// Number of the last turn.
    turn: u64,
    /// The project of the last turn.
    last: Option<Option<Name>>,
    /// The time of the last turn that followed one of another project.
    switched: Option<Instant>,
    /// Projects with running or waiting creations. Sessions without a project share one entry.
    projects: HashMap<Option<Name>, Share>,
}

#[derive(Default)]
struct Share {
    running: usize,
    last_turn: u64,
    waiting: VecDeque<oneshot::Sender<()>>,
}

/// A running creation. Dropping it gives its place to the next project.
pub(crate) struct Turn {
    creations: Creations,
    project: Option<Name>,
}

/// A creation that waits for its turn.
struct Waiting {
    given: oneshot::Receiver<()>,
    creations: Creations,
    project: Option<Name>,
}

impl Waiting {
    fn place(&self) -> Turn {
        Turn { creations: self.creations.clone(), project: self.project.clone() }
    }
}

impl Drop for Waiting {
    /// Passes on a place that was given to this creation after its client had gone.
    fn drop(&mut self) {
        self.given.close();
        if self.given.try_recv().is_ok() {
            drop(self.place());
        }
    }
}

impl Creations {
    /// Runs `shared` creations at the same time while several projects create sessions.
    pub(crate) fn new(shared: usize) -> Self {
        let shared = shared.max(1);
        Self::with(Places { shared, most: shared.saturating_mul(ALONE_FACTOR) })
    }

    fn with(places: Places) -> Self {
        Self { places, queue: Arc::default() }
    }

    /// Waits for a place. Refuses if too many creations already wait.
    pub(crate) async fn enter(&self, project: Option<&Name>) -> Result<Turn, OpError> {
        let (creations, owned) = (self.clone(), project.cloned());
        let given = {
            let mut queue = self.lock();
            if queue.may_start(&owned, self.places) {
                queue.start(project);
                return Ok(Turn { creations, project: owned });
            }
            let all = queue.waiting;
            let own = queue.projects.get(&owned).map_or(0, |share| share.waiting.len());
            if own >= MOST_WAITING_PER_PROJECT || all >= MOST_WAITING {
                return Err(OpError::CreationsFull { waiting: all });
            }
            let (give, given) = oneshot::channel();
            queue.projects.entry(project.cloned()).or_default().waiting.push_back(give);
            queue.waiting += 1;
            given
        };
        let mut waiting = Waiting { given, creations, project: owned };
        // The end of another creation sends. It cannot be missing, because the queue holds the
        // sender and `creations` holds the queue.
        (&mut waiting.given).await.map_err(|_| OpError::ShuttingDown)?;
        Ok(waiting.place())
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Every change is complete under the lock, so a panic elsewhere cannot leave it half done.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn may_start(&self, project: &Option<Name>, places: Places) -> bool {
        let idle = self.projects.get(project).is_none_or(|share| share.running == 0);
        let followed_another = self.last.as_ref().is_some_and(|last| last != project);
        let recently = self.switched.is_some_and(|switched| switched.elapsed() < ALONE_AFTER);
        let alone = !followed_another && !recently;
        self.running < if idle || alone { places.most } else { places.shared }
    }

    fn start(&mut self, project: Option<&Name>) {
        if self.last.as_ref().is_some_and(|last| last.as_ref() != project) {
            self.switched = Some(Instant::now());
        }
        self.last = Some(project.cloned());
        self.turn += 1;
        self.running += 1;
        let turn = self.turn;
        let share = self.projects.entry(project.cloned()).or_default();
        share.running += 1;
        share.last_turn = turn;
    }

    fn end(&mut self, project: &Option<Name>) {
        self.running -= 1;
        if let Some(share) = self.projects.get_mut(project) {
            share.running -= 1;
            if share.running == 0 && share.waiting.is_empty() {
                self.projects.remove(project);
            }
        }
    }

    /// The creation whose turn is next, if it may start.
    fn next(&mut self, places: Places) -> Option<(Option<Name>, oneshot::Sender<()>)> {
        let waiting = self.projects.iter().filter(|(_, share)| !share.waiting.is_empty());
        let project = waiting.min_by_key(|(_, share)| (share.running, share.last_turn))?.0.clone();
        if !self.may_start(&project, places) {
            return None;
        }
        let give = self.projects.get_mut(&project)?.waiting.pop_front()?;
        self.waiting -= 1;
        Some((project, give))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut queue = self.creations.lock();
        queue.end(&self.project);
        while let Some((project, give)) = queue.next(self.creations.places) {
            queue.start(project.as_ref());
            if give.send(()).is_err() {
                // The caller of that creation went away.
                queue.end(&project);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const ONE: Places = Places { shared: 1, most: 1 };

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    /// Queues creations of a project and returns the channel on which each reports its turn.
    async fn queue(creations: &Creations, project: &str, count: usize, turns: &tokio::sync::mpsc::Sender<String>) {
        let before = creations.lock().waiting;
        for _ in 0..count {
            let (creations, project, turns) = (creations.clone(), name(project), turns.clone());
            tokio::spawn(async move {
                let place = creations.enter(Some(&project)).await.ok().unwrap();
                turns.send(project.to_string()).await.unwrap();
                drop(place);
            });
        }
        let queued = async {
            while creations.lock().waiting < before + count {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), queued).await.unwrap();
    }

    #[tokio::test]
    async fn t3_a_flood_waits_for_itself() {
        let creations = Creations::with(ONE);
        let held = creations.enter(Some(&name("flood"))).await.ok().unwrap();
        let (turns, mut taken) = tokio::sync::mpsc::channel(200);
        queue(&creations, "flood", 100, &turns).await;
        queue(&creations, "calm", 3, &turns).await;
        drop(held);
        let mut order = Vec::new();
        for _ in 0..103 {
            order.push(tokio::time::timeout(Duration::from_secs(10), taken.recv()).await.unwrap().unwrap());
        }
        // Turns alternate while both wait.
        let last = order.iter().rposition(|project| project == "calm").unwrap();
        assert!(last <= 6, "the third creation had turn {last}: {:?}", &order[..10]);
        assert!(creations.lock().projects.is_empty(), "nothing is kept of a project at rest");
    }

    #[tokio::test]
    async fn t3_the_queue_is_bounded_and_forgets_callers_that_went_away() {
        let creations = Creations::with(ONE);
        let held = creations.enter(None).await.ok().unwrap();
        let project = name("a");
        let mut waiting: Vec<_> =
            (0..MOST_WAITING_PER_PROJECT).map(|_| Box::pin(creations.enter(Some(&project)))).collect();
        for waiter in &mut waiting {
            assert!(futures::poll!(waiter).is_pending());
        }
        assert!(matches!(creations.enter(Some(&project)).await, Err(OpError::CreationsFull { .. })));
        let other = name("b");
        let mut last = Box::pin(creations.enter(Some(&other)));
        assert!(futures::poll!(&mut last).is_pending(), "another project may still wait");
        drop(waiting);
        drop(held);
        let place = tokio::time::timeout(Duration::from_secs(10), last).await.unwrap();
        drop(place);
        assert!(creations.lock().projects.is_empty() && creations.lock().running == 0);
    }

    /// A caller that goes away between its turn and its first step gives the place back.
    #[tokio::test]
    async fn t3_a_place_that_nobody_takes_is_given_on() {
        let creations = Creations::with(ONE);
        let held = creations.enter(None).await.ok().unwrap();
        let mut given = Box::pin(creations.enter(None));
        assert!(futures::poll!(&mut given).is_pending());
        drop(held);
        drop(given);
        assert_eq!(creations.lock().running, 0);
    }

    #[tokio::test]
    async fn t3_a_project_alone_runs_more_and_another_does_not_wait_for_it() {
        let creations = Creations::new(1);
        let (flood, calm) = (name("flood"), name("calm"));
        let mut held = Vec::new();
        for _ in 0..ALONE_FACTOR - 1 {
            held.push(creations.enter(Some(&flood)).await.ok().unwrap());
        }
        let mut beside = Box::pin(creations.enter(Some(&calm)));
        let std::task::Poll::Ready(place) = futures::poll!(&mut beside) else { panic!("it waits") };
        // Now the projects share the places, and the flood waits for its own creations.
        let mut waiting = Box::pin(creations.enter(Some(&flood)));
        assert!(futures::poll!(&mut waiting).is_pending());
        held.pop();
        assert!(futures::poll!(&mut waiting).is_pending(), "two creations of the flood still run");
        drop((held, place));
        let last = tokio::time::timeout(Duration::from_secs(10), waiting).await.unwrap();
        drop(last);
        assert!(creations.lock().projects.is_empty());
    }
}
