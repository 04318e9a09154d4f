//! The state machine: any sequence of commands and outcomes folds to the same bytes again and never
//! gets stuck.

use proptest::prelude::*;
use serde_json::json;
use stead_core::box_facts::BoxFacts;
use stead_core::clock_history::BootTime;
use stead_core::command::ExecOutcome;
use stead_core::config::ProviderName;
use stead_core::decide::SessionUpdate;
use stead_core::env::Env;
use stead_core::event::{Answer, CloseReason, Failure, FileEffect, FileOperation, StepReport};
use stead_core::exec::{ExecOrder, ExecOutput, ExecSpec, Exit, FullBuffer, Stdin};
use stead_core::pause::PauseMode;
use stead_core::session::WorkspaceStatus;
use stead_core::setup_cache::{SetupCacheOutcome, SetupCacheReport};
use stead_core::spec::SessionSpec;
use stead_core::tool::ToolName;
use stead_core::{
    Actor, CallId, Command, Effect, Event, ExecId, Outcome, Recorded, Rejection, SessionId, SnapshotId, State, Status,
    Timestamp, conclude, decide, decide_and_conclude, fold, next,
};

use crate::scenario::Scenario;

/// A live session: its state and its journal, kept separately so that they can be compared.
struct Live {
    state: State,
    journal: Vec<Recorded>,
    clock: i64,
}

impl Live {
    fn new(workspace: serde_json::Value) -> Self {
        let spec = Box::new(Scenario::new(workspace).specify().unwrap());
        let mut live = Self { state: State::default(), journal: Vec::new(), clock: 1_000 };
        live.command(Command::Create { session: SessionId::from_bits(1), spec, content: None }).unwrap();
        live
    }

    fn append(&mut self, events: Vec<Event>) {
        for event in events {
            self.clock += 7;
            let recorded = Recorded { seq: self.state.seq + 1, at: Timestamp::from_millis(self.clock), event };
            fold(&mut self.state, &recorded);
            self.journal.push(recorded);
        }
    }

    fn command(&mut self, command: Command) -> Option<Option<Effect>> {
        let step = decide(&self.state, command, &Actor::System).ok()?;
        self.append(step.events);
        Some(step.effect)
    }

    fn outcome(&mut self, outcome: Outcome) {
        let events = conclude(&self.state, outcome);
        self.append(events);
    }

    fn session(&self) -> &stead_core::Session {
        self.state.session.as_ref().unwrap()
    }

    /// Does all due work; every effect succeeds.
    fn settle(&mut self) {
        for _ in 0..50 {
            let Some(command) = next(self.session()) else { return };
            let effect = self.command(command).expect("due work is allowed").expect("due work has an effect");
            self.outcome(success(&effect));
        }
        panic!("never settles: {:?}", self.session());
    }
}

fn success(effect: &Effect) -> Outcome {
    match effect {
        Effect::CreateWorkspace { .. } => Outcome::Created { enforced_limits: Vec::new(), made: BoxFacts::default() },
        Effect::PerformAction { .. } => Outcome::StepFinished {
            duration_ms: 1,
            failure: None,
            files: FileEffect::default(),
            report: StepReport::default(),
        },
        Effect::RemoveWorkspace { .. } => Outcome::Removed,
        Effect::PauseBox { .. } => Outcome::Paused,
        Effect::ResumeBox { .. } => Outcome::Resumed,
        Effect::CallTool { call, .. } => finished(*call),
        Effect::OperateFiles { call, .. } => operated(*call, None),
        Effect::Exec { exec, .. } => exec_finished(*exec),
        Effect::BeginWork => Outcome::Began { checkpoint: None, warnings: Vec::new() },
        Effect::ShareWorkspace { .. } => Outcome::Created { enforced_limits: Vec::new(), made: BoxFacts::default() },
        Effect::Content(effect) => panic!("no content here: {effect:?}"),
    }
}

fn finished(call: CallId) -> Outcome {
    let answer = Answer { result: Some(json!({"entries": []})), error: None, message: "Listed.".to_owned() };
    Outcome::CallFinished {
        call,
        duration_ms: 3,
        answer,
        files: FileEffect { tree_hash: Some("blake3:00".to_owned()), ..FileEffect::default() },
    }
}

fn exec_order() -> Box<ExecOrder> {
    let spec = ExecSpec {
        command: Some("sleep 1".to_owned()),
        argv: vec!["/bin/bash".to_owned(), "-c".to_owned(), "sleep 1".to_owned()],
        cwd: "/workspace".to_owned(),
        env: vec!["A_SECRET".to_owned()],
        stdin_bytes: 12,
        stdin: Stdin::Closed,
        timeout_seconds: None,
        background: true,
        pty: None,
        unread: FullBuffer::Drop,
    };
    let mut env = Env::default();
    env.set("A_SECRET", "value-nobody-keeps");
    Box::new(ExecOrder { spec, env, stdin: b"input-nobody".to_vec() })
}

fn exec_finished(exec: ExecId) -> Outcome {
    let exit = Exit {
        exit_code: 0,
        signal: None,
        timed_out: false,
        killed: false,
        oom: false,
        duration_ms: 3,
        stdout_total: 0,
        stderr_total: 0,
        truncated: false,
        chunks: 0,
    };
    Outcome::ExecEnded {
        exec,
        outcome: ExecOutcome::Finished { exit, output: ExecOutput::default(), files: Box::default() },
    }
}

fn operated(call: CallId, failure: Option<Failure>) -> Outcome {
    Outcome::OperationFinished { call, duration_ms: 2, failure, files: FileEffect::default() }
}

fn failure() -> Failure {
    Failure::new("broken", "it broke")
}

/// A possible step, valid or not.
#[derive(Debug, Clone)]
enum Happening {
    Work,
    WorkFails,
    Call(u128),
    CallFinishes(u128),
    Operate(u128, u8),
    OperationFinishes(u128, bool),
    Exec(u128),
    ExecEnds(u128, bool),
    Pause(PauseMode),
    Resume,
    Update(i64),
    Close,
    Restart,
    Adopted,
    Lost,
    StrayOutcome(u8),
    StrayCommand(u8),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => Just(Happening::Work),
        2 => Just(Happening::WorkFails),
        3 => (0u128..4).prop_map(Happening::Call),
        3 => (0u128..4).prop_map(Happening::CallFinishes),
        3 => (0u128..4, 0u8..4).prop_map(|(call, which)| Happening::Operate(call, which)),
        3 => (0u128..4, any::<bool>()).prop_map(|(call, ok)| Happening::OperationFinishes(call, ok)),
        3 => (0u128..200).prop_map(Happening::Exec),
        3 => (0u128..200, any::<bool>()).prop_map(|(exec, known)| Happening::ExecEnds(exec, known)),
        2 => prop_oneof![Just(PauseMode::Stop), Just(PauseMode::Freeze)].prop_map(Happening::Pause),
        2 => Just(Happening::Resume),
        1 => (0i64..9).prop_map(Happening::Update),
        1 => Just(Happening::Close),
        2 => Just(Happening::Restart),
        1 => Just(Happening::Adopted),
        1 => Just(Happening::Lost),
        1 => (0u8..4).prop_map(Happening::StrayOutcome),
        1 => (0u8..4).prop_map(Happening::StrayCommand),
    ]
}

fn happen(live: &mut Live, happening: Happening) {
    match happening {
        Happening::Work | Happening::WorkFails => {
            let Some(command) = next(live.session()) else { return };
            let effect = live.command(command).expect("due work is allowed").expect("due work has an effect");
            let outcome = match (happening, &effect) {
                (Happening::Work, effect) => success(effect),
                (_, Effect::CreateWorkspace { .. }) => Outcome::CreateFailed(failure()),
                (_, Effect::PerformAction { .. }) => Outcome::StepFinished {
                    duration_ms: 1,
                    failure: Some(failure()),
                    files: FileEffect::default(),
                    report: StepReport::default(),
                },
                (_, Effect::RemoveWorkspace { .. }) => Outcome::RemovalFailed { reason: "busy".to_owned() },
                (_, Effect::PauseBox { .. }) => Outcome::PauseFailed(failure()),
                (_, Effect::ResumeBox { .. }) => Outcome::ResumeFailed(failure()),
                (_, effect) => success(effect),
            };
            live.outcome(outcome);
        }
        Happening::Call(bits) => {
            live.command(Command::CallTool { call: CallId::from_bits(bits), tool: ToolName::Ls, arguments: json!({}) });
        }
        Happening::CallFinishes(bits) => live.outcome(finished(CallId::from_bits(bits))),
        Happening::Operate(bits, which) => {
            let snapshot = SnapshotId::from_bits(u128::from(which / 2));
            let operation = match which {
                0 | 2 => FileOperation::Snapshot { snapshot, name: None },
                1 => FileOperation::Restore { snapshot },
                _ => FileOperation::Delete { path: "a".to_owned(), if_match: None },
            };
            live.command(Command::OperateFiles { call: CallId::from_bits(bits), operation });
        }
        Happening::OperationFinishes(bits, ok) => {
            live.outcome(operated(CallId::from_bits(bits), (!ok).then(failure)));
        }
        Happening::Exec(bits) => {
            live.command(Command::Exec { exec: ExecId::from_bits(bits), order: exec_order() });
        }
        Happening::ExecEnds(bits, true) => live.outcome(exec_finished(ExecId::from_bits(bits))),
        Happening::ExecEnds(bits, false) => {
            let outcome = ExecOutcome::Interrupted { reason: "gone".to_owned() };
            live.outcome(Outcome::ExecEnded { exec: ExecId::from_bits(bits), outcome });
        }
        Happening::Pause(mode) => {
            live.command(Command::Pause { mode });
        }
        Happening::Resume => {
            live.command(Command::Resume);
        }
        Happening::Update(hours) => {
            let now = Timestamp::from_millis(live.clock);
            let expires_at = Some(Timestamp::from_millis(live.clock + hours * 3_600_000));
            let metadata = json!({"hours": hours, "gone": null}).as_object().cloned();
            live.command(Command::Update { update: SessionUpdate { expires_at, metadata }, now });
        }
        Happening::Close => {
            live.command(Command::Close { reason: CloseReason::Requested });
        }
        Happening::Restart => live.outcome(Outcome::Restarted),
        Happening::Adopted if live.session().workspace.as_ref().is_some_and(|w| w.status == WorkspaceStatus::Ready) => {
            live.outcome(Outcome::Adopted);
        }
        Happening::Lost if live.session().workspace.as_ref().is_some_and(|w| w.status == WorkspaceStatus::Ready) => {
            live.outcome(Outcome::Lost { reason: "gone".to_owned() });
        }
        Happening::Adopted | Happening::Lost => {}
        Happening::StrayOutcome(which) => {
            // `conclude` accepts an outcome that no effect led to.
            let stray = match which {
                0 => Outcome::Removed,
                1 => Outcome::CreateFailed(failure()),
                2 => Outcome::RemovalFailed { reason: "busy".to_owned() },
                _ => finished(CallId::from_bits(99)),
            };
            let events = conclude(&live.state, stray);
            assert!(which <= 2 || events.is_empty(), "a call that never began ended: {events:?}");
        }
        Happening::StrayCommand(which) => {
            let stray = match which {
                0 => Command::Provision,
                1 => Command::RunStep,
                2 => Command::Remove,
                _ => Command::Create {
                    session: SessionId::from_bits(2),
                    spec: Box::new(SessionSpec::clone(&live.session().spec)),
                    content: None,
                },
            };
            if next(live.session()).as_ref() != Some(&stray) {
                assert!(decide(&live.state, stray, &Actor::System).is_err(), "allowed out of turn");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn folding_again_gives_the_same_bytes(happenings in prop::collection::vec(happening(), 0..60), fail in any::<bool>()) {
        let on_setup_failure = if fail { "fail" } else { "warn" };
        let mut live = Live::new(json!({
            "enabled": true, "provider": "native", "fallback_provider": "memory", "setup_commands": ["a", "b"],
            "on_setup_failure": on_setup_failure, "require_workspace": fail,
        }));
        for happening in happenings {
            happen(&mut live, happening);
        }
        // Round trip through the journal's text form.
        let texts: Vec<String> = live.journal.iter().map(|recorded| serde_json::to_string(recorded).unwrap()).collect();
        let read: Vec<Recorded> = texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
        prop_assert_eq!(&read, &live.journal);
        let replayed = State::replay(&read);
        prop_assert_eq!(replayed.canonical(), live.state.canonical());
        prop_assert_eq!(replayed.hash(), live.state.hash());

        // After any history, a restart and a close always end with nothing held.
        live.outcome(Outcome::Restarted);
        live.command(Command::Close { reason: CloseReason::Requested });
        live.settle();
        prop_assert_eq!(live.session().status, Status::Closed);
        prop_assert!(!live.session().live());
        prop_assert!(live.session().open_calls.is_empty() && live.session().open_operations.is_empty());
    }
}

#[test]
fn fallback_once_then_degraded() {
    let mut live = Live::new(json!({"enabled": true, "provider": "native", "fallback_provider": "memory"}));
    for provider in [ProviderName::Native, ProviderName::Memory] {
        let effect = live.command(next(live.session()).unwrap()).unwrap().unwrap();
        assert!(matches!(effect, Effect::CreateWorkspace { provider: asked, .. } if asked == provider));
        live.outcome(Outcome::CreateFailed(failure()));
        let removal = live.command(next(live.session()).unwrap()).unwrap().unwrap();
        live.outcome(success(&removal));
    }
    assert_eq!((live.session().status, live.session().degraded), (Status::Active, true));
    assert_eq!(next(live.session()), None);
    assert!(live.session().warnings[0].message.contains("native: it broke; memory: it broke"));
}

#[test]
fn an_interrupted_attempt_is_not_a_failed_one() {
    let mut live = Live::new(json!({"enabled": true, "provider": "native"}));
    live.command(Command::Provision).unwrap();
    live.outcome(Outcome::Restarted);
    live.settle();
    assert_eq!((live.session().status, live.session().degraded), (Status::Active, false));
    assert_eq!(live.session().workspace.as_ref().unwrap().failures, []);
}

#[test]
fn the_gate_says_why() {
    let call = || Command::CallTool { call: CallId::from_bits(5), tool: ToolName::Bash, arguments: json!({}) };
    let code = |live: &Live| decide(&live.state, call(), &Actor::System).unwrap_err().code();
    let mut live = Live::new(json!({"enabled": true, "tools": ["read"]}));
    assert_eq!(code(&live), "session_not_active");
    live.settle();
    let refusal = decide(&live.state, call(), &Actor::System).unwrap_err();
    assert_eq!(refusal.to_string(), "Tool 'bash' is not enabled for this agent type");
    live.command(Command::Close { reason: CloseReason::Requested });
    assert_eq!(code(&live), "session_not_active");
    assert_eq!(code(&Live::new(json!({"enabled": false}))), "no_workspace");
}

/// A read-only call may be recorded together with its outcome in one entry.
#[test]
fn a_call_recorded_whole_has_the_same_events_as_one_recorded_in_two_steps() {
    let call = || Command::CallTool { call: CallId::from_bits(5), tool: ToolName::Read, arguments: json!({}) };
    let whole = |live: &Live| {
        let (outcome, at) = (finished(CallId::from_bits(5)), Timestamp::from_millis(9));
        decide_and_conclude(&live.state, call(), outcome, &Actor::System, at)
    };
    let mut live = Live::new(json!({"enabled": true, "tools": ["read"]}));
    live.settle();
    let (events, before) = (whole(&live).unwrap(), live.journal.len());
    live.command(call()).unwrap();
    live.outcome(finished(CallId::from_bits(5)));
    let steps: Vec<Event> = live.journal.drain(before..).map(|recorded| recorded.event).collect();
    assert_eq!(events, steps);
    assert_eq!(events.iter().map(Event::kind).collect::<Vec<_>>(), ["ToolCallStarted", "ToolCallFinished"]);
    // The decision is made when the call is recorded: a session closed meanwhile refuses it.
    live.command(Command::Close { reason: CloseReason::Requested });
    assert_eq!(whole(&live).unwrap_err().code(), "session_not_active");
}

/// After a hit, neither the setup commands nor `keep_setup` run, and what follows them does.
#[test]
fn a_kept_setup_result_skips_the_setup_commands() {
    let cached = json!({"enabled": true, "provider": "native", "setup_commands": ["a", "b"], "setup_cache": true});
    for (outcome, steps) in [(SetupCacheOutcome::Hit, vec![1]), (SetupCacheOutcome::Miss, vec![1, 2, 3, 4])] {
        let mut live = Live::new(cached.clone());
        live.command(Command::Provision).unwrap();
        live.outcome(Outcome::Created { enforced_limits: Vec::new(), made: BoxFacts::default() });
        let mut done = Vec::new();
        while next(live.session()) == Some(Command::RunStep) {
            live.command(Command::RunStep).unwrap();
            let found = SetupCacheReport { outcome, key: None, entry: None, reason: None };
            let report = StepReport { setup_cache: Some(Box::new(found)), ..StepReport::default() };
            live.outcome(Outcome::StepFinished { duration_ms: 1, failure: None, files: FileEffect::default(), report });
            done.push(live.session().workspace.as_ref().unwrap().steps_done);
        }
        assert_eq!(done, steps, "{outcome}");
        assert_eq!(next(live.session()), Some(Command::Activate));
        assert_eq!(live.session().workspace.as_ref().unwrap().timeline.setup_cached, outcome == SetupCacheOutcome::Hit);
    }
}

#[test]
fn a_close_during_provisioning_ends_with_nothing_held() {
    let mut live = Live::new(json!({"enabled": true, "setup_commands": ["a"]}));
    live.command(Command::Provision).unwrap();
    live.command(Command::Close { reason: CloseReason::Requested });
    assert_eq!(live.session().status, Status::Closing);
    live.outcome(Outcome::Created { enforced_limits: Vec::new(), made: BoxFacts::default() });
    live.settle();
    assert_eq!(live.session().status, Status::Closed);
}

#[test]
fn execs_outlive_a_restart_keep_the_session_awake_and_end_with_it() {
    let mut live = Live::new(json!({"enabled": true, "provider": "native", "idle_seconds": 60}));
    live.settle();
    let exec = ExecId::from_bits(7);
    live.command(Command::Exec { exec, order: exec_order() }).unwrap();
    assert_eq!(live.session().due_at().unwrap().1, CloseReason::Expired, "a running exec is activity");
    live.outcome(Outcome::Restarted);
    live.outcome(Outcome::Adopted);
    assert!(live.session().execs.runs(exec), "the server's restart is not the box's");
    live.outcome(exec_finished(exec));
    assert_eq!(live.session().due_at().unwrap().1, CloseReason::Idle);
    let other = ExecId::from_bits(8);
    live.command(Command::Exec { exec: other, order: exec_order() }).unwrap();
    live.command(Command::Close { reason: CloseReason::Requested }).unwrap();
    live.settle();
    assert_eq!(live.session().status, Status::Closed);
    assert!(!live.session().execs.runs(other), "nothing runs in a closed session");
}

#[test]
fn what_an_exec_reads_and_its_variables_values_are_in_no_event() {
    let mut live = Live::new(json!({"enabled": true, "provider": "native"}));
    live.settle();
    live.command(Command::Exec { exec: ExecId::from_bits(7), order: exec_order() }).unwrap();
    let journal = serde_json::to_string(&live.journal).unwrap();
    assert!(journal.contains("A_SECRET"));
    assert!(!journal.contains("nobody"), "{journal}");
}

#[test]
fn an_exec_needs_the_tool_it_could_replace() {
    let mut live = Live::new(json!({"enabled": true, "provider": "native", "tools": ["read"]}));
    live.settle();
    let refused = decide(
        &live.state,
        Command::Exec { exec: ExecId::from_bits(7), order: exec_order() },
        &Actor::Admin { name: "a".to_owned(), token: None },
    );
    assert_eq!(refused.unwrap_err().to_string(), "Tool 'bash' is not enabled for this agent type");
}

#[test]
fn a_stopped_session_interrupts_its_commands_and_gives_its_place_back() {
    let mut live = Live::new(json!({"enabled": true, "provider": "native"}));
    live.settle();
    live.command(Command::Exec { exec: ExecId::from_bits(7), order: exec_order() }).unwrap();
    live.command(Command::Pause { mode: PauseMode::Stop }).unwrap();
    assert_eq!((live.session().status, live.session().holds_place()), (Status::Paused, true));
    live.settle();
    assert_eq!(live.session().execs.running().count(), 0);
    assert!(!live.session().holds_place());
    // The idle time does not count, and the end of the session does.
    assert_eq!(live.session().due_at(), Some((live.session().expires_at, CloseReason::Expired)));
    // A repeated pause changes nothing, and a call is refused.
    let before = live.state.seq;
    live.command(Command::Pause { mode: PauseMode::Stop }).unwrap();
    let call = Command::CallTool { call: CallId::from_bits(5), tool: ToolName::Read, arguments: json!({}) };
    let refused = decide(&live.state, call, &Actor::System).unwrap_err();
    assert_eq!((refused.code(), live.state.seq), ("session_not_active", before));
    live.command(Command::Resume).unwrap();
    live.settle();
    assert_eq!((live.session().status, live.session().holds_place()), (Status::Active, true));
}

#[test]
fn a_box_is_not_frozen_during_a_call() {
    let mut live = Live::new(json!({"enabled": true, "provider": "native"}));
    live.settle();
    let call = CallId::from_bits(5);
    live.command(Command::CallTool { call, tool: ToolName::Read, arguments: json!({}) }).unwrap();
    let freeze = || Command::Pause { mode: PauseMode::Freeze };
    assert_eq!(decide(&live.state, freeze(), &Actor::System).unwrap_err(), Rejection::CallInProgress);
    live.outcome(finished(call));
    live.command(Command::Exec { exec: ExecId::from_bits(7), order: exec_order() }).unwrap();
    live.command(freeze()).unwrap();
    live.settle();
    // The processes still exist, so their commands still run and the session keeps its place.
    assert_eq!((live.session().execs.running().count(), live.session().holds_place()), (1, true));
}

#[test]
fn a_new_end_counts_from_its_own_event() {
    let mut live = Live::new(json!({"enabled": true, "provider": "native", "ttl_seconds": 60, "idle_seconds": 86_400}));
    live.settle();
    let now = Timestamp::from_millis(live.clock);
    let update = |seconds: i64| SessionUpdate {
        expires_at: Some(Timestamp::from_millis(now.millis() + seconds * 1000)),
        metadata: None,
    };
    for refused in [0, -5, 31_536_001] {
        let command = Command::Update { update: update(refused), now };
        assert_eq!(decide(&live.state, command, &Actor::System).unwrap_err().code(), "semantic_mismatch");
    }
    live.command(Command::Update { update: update(7_200), now }).unwrap();
    let session = live.session();
    assert_eq!(session.expires_at, now.plus_seconds(7_200));
    let began = BootTime::from_millis(1_000);
    let lifetime = session.expires_at.millis() - session.lifetime_began().millis();
    let due = session.due_by_boot_clock(began, BootTime::from_millis(0));
    assert_eq!(due, Some((BootTime::from_millis(1_000 + lifetime), CloseReason::Expired)));
}
