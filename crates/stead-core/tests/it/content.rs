//! Content: any interleaving of pushes, syncs, applies, runs, steps, calls and restarts folds to
//! the same bytes. Content is adopted only at its boundary, and only if it was staged.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;
use stead_core::content::conclude::{ContentOutcome, ReadContent};
use stead_core::content::decide::{BoundCall, ContentCommand, ContentEffect, StartRun, Verdict};
use stead_core::content::event::{ApplyPoint, MessagesRef, StepOverrides};
use stead_core::content::fault::{Stage, SyncFault};
use stead_core::content::options::Options;
use stead_core::content::run::CallFrom;
use stead_core::content::run::{RunEnd, RunStatus};
use stead_core::content::snapshot::{CatalogRef, PackRef};
use stead_core::content::{ApplyMode, Snapshot, SyncTarget};
use stead_core::event::CloseReason;
use stead_core::{
    Actor, CallId, Command, Effect, Event, Outcome, Recorded, RunId, SessionId, State, Status, Timestamp, conclude,
    decide, fold,
};

use crate::scenario::Scenario;

fn snapshot(version: u64) -> Box<Snapshot> {
    let pack = PackRef {
        digest: format!("pack{version}"),
        description: None,
        messages: 1,
        bytes: 1,
        options: Options::default(),
        arguments: Vec::new(),
    };
    let tools = BTreeMap::from([("content_list".to_owned(), "h".to_owned())]);
    let catalog = CatalogRef { digest: format!("catalog{version}"), tools, tool_choice: None };
    Box::new(Snapshot {
        workspace: "bot".parse().unwrap(),
        version,
        root_hash: format!("root{version}"),
        index_ref: None,
        prompt_packs: BTreeMap::from([("default".to_owned(), pack)]),
        tool_catalogs: BTreeMap::from([("default".to_owned(), catalog)]),
        resources: BTreeMap::new(),
        prompt_pack: Some("default".to_owned()),
        tool_catalog: Some("default".to_owned()),
    })
}

struct Live {
    state: State,
    journal: Vec<Recorded>,
    head: u64,
    /// The sync whose read effect is still pending.
    reading: Option<u64>,
    runs: u128,
    calls: u128,
}

impl Live {
    fn new() -> Self {
        let mut scenario = Scenario::new(json!({"enabled": false}));
        scenario.agent_type = json!({"id": "coder", "workspace": {"enabled": false}, "content": {"workspace": "bot"}});
        let spec = Box::new(scenario.specify().unwrap());
        let mut live = Self { state: State::default(), journal: Vec::new(), head: 1, reading: None, runs: 0, calls: 0 };
        live.command(Command::Create { session: SessionId::from_bits(1), spec, content: None });
        live
    }

    fn append(&mut self, events: Vec<Event>) {
        for event in events {
            let seq = self.state.seq + 1;
            let recorded = Recorded { seq, at: Timestamp::from_millis(i64::try_from(seq).unwrap() * 7), event };
            self.check(&recorded.event);
            fold(&mut self.state, &recorded);
            self.journal.push(recorded);
        }
    }

    /// Checks an adoption against the state before it.
    fn check(&self, event: &Event) {
        let Event::WorkspaceApplied(applied) = event else { return };
        let content = &self.state.session.as_ref().unwrap().content;
        assert_eq!(
            content.pending.as_ref().map(|staged| staged.reference()),
            Some(applied.snapshot.clone()),
            "not staged"
        );
        assert_eq!(content.armed, Some(applied.mode), "nobody asked");
        let idle = content.run.is_none();
        let right = match applied.point {
            ApplyPoint::RunStart => idle && applied.mode == ApplyMode::NextRun,
            ApplyPoint::StepBoundary => !idle && applied.mode == ApplyMode::NextStepBoundary,
            ApplyPoint::RunEnd | ApplyPoint::Idle => idle && applied.mode != ApplyMode::NextRun,
            ApplyPoint::SessionStart => false,
        };
        assert!(right, "{applied:?} off its point");
    }

    fn command(&mut self, command: Command) -> Option<Effect> {
        let step = decide(&self.state, command, &Actor::System).ok()?;
        self.append(step.events);
        step.effect
    }

    fn content(&mut self, command: ContentCommand) -> Option<Effect> {
        self.command(Command::Content(command))
    }

    fn outcome(&mut self, outcome: Outcome) {
        let events = conclude(&self.state, outcome);
        self.append(events);
    }

    fn run(&self) -> RunId {
        RunId::from_bits(self.runs)
    }
}

#[derive(Debug, Clone)]
enum Happening {
    Push,
    Sync,
    Read(bool),
    Apply(ApplyMode),
    Start(bool),
    Step,
    Call,
    CallFinishes,
    End(RunEnd),
    Restart,
    Close,
}

fn happening() -> impl Strategy<Value = Happening> {
    let mode =
        prop_oneof![Just(ApplyMode::NextRun), Just(ApplyMode::NextStepBoundary), Just(ApplyMode::ImmediateIfIdle)];
    let end = prop_oneof![Just(RunEnd::Completed), Just(RunEnd::Failed), Just(RunEnd::Cancelled)];
    prop_oneof![
        3 => Just(Happening::Push),
        4 => Just(Happening::Sync),
        5 => prop::bool::weighted(0.8).prop_map(Happening::Read),
        4 => mode.prop_map(Happening::Apply),
        4 => any::<bool>().prop_map(Happening::Start),
        6 => Just(Happening::Step),
        3 => Just(Happening::Call),
        3 => Just(Happening::CallFinishes),
        3 => end.prop_map(Happening::End),
        2 => Just(Happening::Restart),
        1 => Just(Happening::Close),
    ]
}

fn happen(live: &mut Live, happening: Happening) {
    match happening {
        Happening::Push => live.head += 1,
        Happening::Sync => {
            let target = SyncTarget { workspace: "bot".parse().ok(), version: None, root_hash: None };
            let command = ContentCommand::Sync { target, prompt_pack: None, tool_catalog: None, known_version: None };
            if let Some(Effect::Content(ContentEffect::Read { sync, .. })) = live.content(command) {
                live.reading = Some(sync);
            }
        }
        Happening::Read(good) => {
            let Some(sync) = live.reading.take() else { return };
            let read = match good {
                true => Ok(ReadContent::Snapshot { snapshot: snapshot(live.head), warnings: Vec::new() }),
                false => Err(SyncFault::new(Stage::Index, "broken")),
            };
            live.outcome(Outcome::Content(ContentOutcome::Read { sync, read: read.clone() }));
            // A restart may deliver the outcome again; it is ignored.
            let seq = live.state.seq;
            live.outcome(Outcome::Content(ContentOutcome::Read { sync, read }));
            assert_eq!(live.state.seq, seq);
        }
        Happening::Apply(mode) => {
            live.content(ContentCommand::Apply { mode });
        }
        Happening::Start(pinned) => {
            live.runs += 1;
            let (run, options) = (live.run(), Options::default());
            let (provider, model) = (Some("p".to_owned()), Some("m".to_owned()));
            let (input, pinned) = (None, pinned.then(|| snapshot(1)));
            let start =
                StartRun { run, provider, model, prompt_pack: None, tool_catalog: None, options, input, pinned };
            if live.content(ContentCommand::StartRun(Box::new(start))).is_none()
                && live.state.session.as_ref().unwrap().content.run.as_ref().is_none_or(|active| active.id != run)
            {
                live.runs -= 1;
            }
        }
        Happening::Step => {
            let messages = Some(MessagesRef { digest: "said".to_owned(), messages: 1, bytes: 1 });
            let command =
                ContentCommand::StartStep { run: live.run(), messages, overrides: Box::new(StepOverrides::default()) };
            live.content(command);
        }
        Happening::Call => {
            live.calls += 1;
            let verdict = Verdict { descriptor: Some("h".to_owned()), faults: Vec::new() };
            let (call, run, name) = (CallId::from_bits(live.calls), live.run(), "content_list".to_owned());
            let from = CallFrom::Run(run);
            let call = BoundCall { call, from, name, arguments: json!({}), call_id: None, verdict };
            live.content(ContentCommand::Call(Box::new(call)));
        }
        Happening::CallFinishes => {
            let answer = stead_core::event::Answer { result: None, error: None, message: String::new() };
            let call = CallId::from_bits(live.calls);
            live.outcome(Outcome::Content(ContentOutcome::CallFinished { call, duration_ms: 1, answer }));
        }
        Happening::End(end) => {
            live.content(ContentCommand::EndRun { run: live.run(), end, code: None, detail: None });
        }
        Happening::Restart => {
            live.outcome(Outcome::Restarted);
            // The reconciler resumes an open sync.
            let due = stead_core::next(live.state.session.as_ref().unwrap());
            live.reading = match due.and_then(|command| live.command(command)) {
                Some(Effect::Content(ContentEffect::Read { sync, .. })) => Some(sync),
                _ => None,
            };
        }
        Happening::Close => {
            live.command(Command::Close { reason: CloseReason::Requested });
        }
    }
}

#[test]
fn a_run_that_ends_has_the_status_of_its_end() {
    let ends = [
        (RunEnd::Completed, RunStatus::Completed),
        (RunEnd::Failed, RunStatus::Failed),
        (RunEnd::Cancelled, RunStatus::Cancelled),
    ];
    for (end, status) in ends {
        let mut live = Live::new();
        happen(&mut live, Happening::Start(true));
        let run = |live: &Live| live.state.session.as_ref().unwrap().content.runs[&live.run()].status;
        assert_eq!(run(&live), RunStatus::Running, "the control: it runs before it ends");
        happen(&mut live, Happening::End(end));
        assert_eq!(run(&live), status);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_adopted_off_its_point_and_every_journal_folds_again(happenings in prop::collection::vec(happening(), 0..80)) {
        let mut live = Live::new();
        for happening in happenings {
            happen(&mut live, happening);
            let content = &live.state.session.as_ref().unwrap().content;
            // The active content was staged once as a whole.
            if let Some(active) = &content.active {
                prop_assert_eq!(&**active, &*snapshot(active.version));
            }
        }
        let texts: Vec<String> = live.journal.iter().map(|recorded| serde_json::to_string(recorded).unwrap()).collect();
        let read: Vec<Recorded> = texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
        prop_assert_eq!(&read, &live.journal);
        prop_assert_eq!(State::replay(&read).canonical(), live.state.canonical());

        live.command(Command::Close { reason: CloseReason::Requested });
        let session = live.state.session.as_ref().unwrap();
        prop_assert_eq!(session.status, Status::Closed);
        prop_assert!(session.content.run.is_none() && session.content.sync.is_none() && session.content.open_calls.is_empty());
    }
}
