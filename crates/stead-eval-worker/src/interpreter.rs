//! The interpreter: made ready, given one piece of code, asked what is left.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use monty::{MontyRepl, ReplProgress};
use monty_types::{
    AssertMessageAnnotations, CompileOptions, DateTimeSource, ExcType, ExtFunctionResult, MontyException, MontyObject,
    NameLookupResult, NamedValues, OsPolicy, PrintWriter, PrintWriterCallback, RandomSeed, RandomStart, ResourceLimits,
    ResourceTracker, SleepMode,
};
use stead_eval::protocol::{Ending, Order, Report};
use stead_eval::{MOST_GLOBALS, MOST_OUTPUT};

use crate::confine::PYTHON_MEMORY;
use crate::host_calls::{READ_TEXT, WRITE_TEXT, exception, host_call};
use crate::link::Link;
use crate::names::Names;
use crate::rewrite::{self, VALUE};
use crate::{gate, traceback};

const SECONDS: Duration = Duration::from_secs(5);
/// Calls in calls.
const RECURSION: usize = 400;
/// Maximum length of `value_repr`, in characters.
const MOST_VALUE: usize = 16_384;
const PRELUDE: &[&str] = &[include_str!("prelude.py"), include_str!("statistics.py")];

pub(crate) struct Interpreter {
    /// Gone while code runs.
    repl: Option<MontyRepl>,
}

/// State of the interpreter after the code has ended.
struct Finished {
    repl: MontyRepl,
    error: Option<MontyException>,
}

/// Keeps the beginning of the output and drops the rest.
#[derive(Default)]
struct Printed {
    text: String,
    characters: usize,
}

impl Printed {
    fn keep(&mut self, text: &str) {
        // One more than is shown, to know that there was more.
        let room = (MOST_OUTPUT + 1).saturating_sub(self.characters);
        let kept = text.char_indices().nth(room).map_or(text, |(end, _)| &text[..end]);
        self.characters += kept.chars().count();
        self.text.push_str(kept);
    }
}

impl PrintWriterCallback for Printed {
    fn stdout_write(&mut self, output: Cow<'_, str>) -> Result<(), MontyException> {
        self.keep(&output);
        Ok(())
    }

    fn stdout_push(&mut self, end: char) -> Result<(), MontyException> {
        self.keep(end.encode_utf8(&mut [0; 4]));
        Ok(())
    }
}

impl Interpreter {
    pub(crate) fn prepare() -> Option<Self> {
        let limits = ResourceLimits {
            max_feed_duration: Some(SECONDS),
            max_memory: Some(PYTHON_MEMORY),
            max_recursion_depth: RECURSION,
            ..ResourceLimits::default()
        };
        let policy = OsPolicy {
            datetime: DateTimeSource::Fixed { unix_seconds: 0, microsecond: 0 },
            random_start: RandomStart::Seed(RandomSeed::Int(0.into())),
            sleep: SleepMode::Zero,
            ..OsPolicy::default()
        };
        let tracker = ResourceTracker::new(limits);
        let options = CompileOptions {
            // As CPython: an assertion says what its author says.
            assert_message_annotations: AssertMessageAnnotations::from_max_bytes(0),
            source_scan_threshold: 0,
        };
        let mut repl = MontyRepl::new("eval", tracker, options).with_os_policy(policy);
        let mut functions = NamedValues::new();
        for name in [READ_TEXT, WRITE_TEXT] {
            functions.push(name, MontyObject::function(name, None));
        }
        repl.feed_run("pass", functions, PrintWriter::Disabled).ok()?;
        for part in PRELUDE {
            let fed = repl.feed_run(part, NamedValues::new(), PrintWriter::Disabled);
            if let Err(error) = &fed {
                drop(writeln!(std::io::stderr(), "{error}"));
            }
            fed.ok()?;
        }
        Some(Self { repl: Some(repl) })
    }

    /// Runs a trivial evaluation and discards it. The process shares memory with its parent until
    /// it writes, so this takes the page copies before an evaluation has to wait for them.
    pub(crate) fn rehearse(&mut self) {
        const NOTHING: &str = "0 + 0";
        drop(admit(NOTHING, std::iter::empty()));
        if let Some(repl) = &mut self.repl {
            // Runs the code without the rewrite of `rewrite`, which would keep a value.
            drop(repl.feed_run(NOTHING, NamedValues::new(), PrintWriter::Disabled));
        }
    }

    pub(crate) fn run(&mut self, order: &Order, link: &mut Link) -> Report {
        let mut report = empty();
        let code = match admit(&order.code, order.globals.keys()) {
            Ok(code) => code,
            Err(text) => return Report { stderr: bounded(&text, MOST_OUTPUT), ..report },
        };
        let Some(mut repl) = self.repl.take() else { return report };
        let globals = match globals(&mut repl, order) {
            Ok(globals) => globals,
            Err(error) => return Report { stderr: traceback::text("", &error, ""), ..report },
        };
        let file = repl.next_script_name();
        let mut printed = Printed::default();
        let Finished { mut repl, error } = drive(repl, &code, globals, &mut printed, link);
        report.stdout = bounded(&traceback::own_words(&printed.text), MOST_OUTPUT);
        if let Some(error) = error {
            report.ending = ending(&error);
            report.stderr = match report.ending {
                Ending::TimedOut => "TimeoutError: Execution timed out.\n".to_owned(),
                _ => tail(&traceback::text(&order.code, &error, &file), MOST_OUTPUT),
            };
            return report;
        }
        match left(&mut repl, order) {
            Ok(left) => Report {
                ending: Ending::Completed,
                value_repr: left.value_repr,
                globals: left.globals,
                too_long: left.too_long,
                not_finite: left.not_finite,
                contents: left.contents,
                ..report
            },
            Err(error) => {
                let text = traceback::text(&order.code, &error, &file);
                Report { ending: ending(&error), stderr: text, ..report }
            }
        }
    }
}

/// The code as the interpreter gets it, or why it is not let through.
fn admit<'a>(code: &str, given: impl Iterator<Item = &'a String>) -> Result<String, String> {
    // The interpreter says better why it does not parse.
    let Ok(parsed) = ruff_python_parser::parse_module(code) else { return Ok(code.to_owned()) };
    let module = parsed.syntax();
    let names = Names::of(&module.body, given);
    gate::judge(module, &names)
        .map_err(|refusal| traceback::refusal(code, refusal.at, refusal.exception, &refusal.message))?;
    rewrite::rewrite(code, module, &names)
        .map_err(|unsayable| traceback::refusal(code, unsayable.at, "SyntaxError", unsayable.message))
}

/// The variables the code begins with, read by Python's own JSON.
fn globals(repl: &mut MontyRepl, order: &Order) -> Result<NamedValues, MontyException> {
    let mut values = NamedValues::new();
    for (name, text) in &order.globals {
        let mut input = NamedValues::new();
        input.push("__stead_text", MontyObject::string(text.clone()));
        values.push(name.clone(), repl.feed_run("__stead_json.loads(__stead_text)", input, PrintWriter::Disabled)?);
    }
    let pair =
        |(path, text): (&String, &String)| (MontyObject::string(path.clone()), MontyObject::string(text.clone()));
    values.push("vfs_reads", MontyObject::dict(order.reads.iter().map(pair)));
    Ok(values)
}

fn drive(repl: MontyRepl, code: &str, globals: NamedValues, printed: &mut Printed, link: &mut Link) -> Finished {
    let mut print = PrintWriter::Callback(printed);
    let mut progress = repl.feed_start(code, globals, print.reborrow());
    loop {
        progress = match progress {
            Err(failed) => return Finished { repl: failed.repl, error: Some(failed.error) },
            Ok(ReplProgress::Complete { repl, .. }) => return Finished { repl, error: None },
            Ok(ReplProgress::FunctionCall(call)) => {
                let answer = host_call(&call.function_name, &call.args, link);
                call.resume(answer, print.reborrow())
            }
            Ok(ReplProgress::OsCall(call)) => {
                let error = exception(ExcType::PermissionError, "this is not available here");
                call.resume(ExtFunctionResult::Error(error), print.reborrow())
            }
            Ok(ReplProgress::NameLookup(lookup)) => lookup.resume(NameLookupResult::Undefined, print.reborrow()),
            Ok(ReplProgress::ResolveFutures(wait)) => {
                wait.abort(exception(ExcType::RuntimeError, "async is not available here"), print.reborrow())
            }
        };
    }
}

fn ending(error: &MontyException) -> Ending {
    let message = error.message().unwrap_or_default();
    match error.exc_type() {
        ExcType::TimeoutError if message.contains("time limit exceeded") => Ending::TimedOut,
        ExcType::MemoryError if message.contains("limit exceeded") => Ending::OutOfMemory,
        _ => Ending::Raised,
    }
}

struct Left {
    value_repr: Option<String>,
    globals: BTreeMap<String, String>,
    too_long: Vec<String>,
    not_finite: Vec<String>,
    contents: Vec<String>,
}

/// Collects the results: the value, the variables, and the declared writes with variables
/// substituted.
fn left(repl: &mut MontyRepl, order: &Order) -> Result<Left, MontyException> {
    let mut feed = |code: &str, input: NamedValues| repl.feed_run(code, input, PrintWriter::Disabled);
    let shown = feed(&format!("None if {VALUE} is None else repr({VALUE})"), NamedValues::new())?;
    let value_repr = shown.as_ref().as_str().map(|text| bounded(&traceback::own_words(text), MOST_VALUE));
    let dumped = feed("__stead_dump(locals())", NamedValues::new())?;
    let (mut globals, mut too_long, mut not_finite, mut bytes) = (BTreeMap::new(), Vec::new(), Vec::new(), 0);
    for (name, text) in dumped.as_ref().pairs().unwrap_or_default() {
        let Some(name) = name.as_str() else { continue };
        let Some(text) = text.as_str() else {
            not_finite.push(name.to_owned());
            continue;
        };
        if bytes + text.len() > MOST_GLOBALS {
            too_long.push(name.to_owned());
        } else {
            bytes += text.len();
            globals.insert(name.to_owned(), text.to_owned());
        }
    }
    let mut contents = Vec::new();
    for template in &order.templates {
        let mut input = NamedValues::new();
        input.push("__stead_text", MontyObject::string(template.clone()));
        let filled = feed("__stead_fill(__stead_text, locals())", input)?;
        contents.push(filled.as_ref().as_str().unwrap_or(template).to_owned());
    }
    Ok(Left { value_repr, globals, too_long, not_finite, contents })
}

fn empty() -> Report {
    Report {
        ending: Ending::Raised,
        value_repr: None,
        stdout: String::new(),
        stderr: String::new(),
        globals: BTreeMap::new(),
        too_long: Vec::new(),
        not_finite: Vec::new(),
        contents: Vec::new(),
    }
}

/// The beginning of a long text.
fn bounded(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 3).chain("...".chars()).collect()
}

/// The end of a long text: of a traceback it says the most.
fn tail(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    "...".chars().chain(text.chars().skip(count - most + 3)).collect()
}
