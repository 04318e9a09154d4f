//! The arguments of the `git` tool. They are untrusted, and every refusal names the problem.

use serde_json::Value;
use stead_api::tool::git::{GitParameters, LOCAL, REMOTE};
use stead_core::repository::GitRef;

/// A parsed call.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) ask: Ask,
    /// A branch that a checkout names and that may exist only at the remote.
    pub(super) wants: Option<GitRef>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// One git in the box.
    Local {
        args: Vec<String>,
    },
    Clone,
    Fetch {
        branch: Option<GitRef>,
        history: History,
    },
    Pull {
        branch: Option<GitRef>,
        history: History,
    },
    Push {
        from: Option<GitRef>,
        to: Option<GitRef>,
        force: bool,
    },
}

/// The history that a fetch transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum History {
    /// The commits that the workspace does not have yet.
    New,
    /// This many commits of each line of history.
    Depth(u64),
    /// This many more than the workspace has.
    Deepen(u64),
    All,
}

/// The largest depth that git accepts.
const MOST_DEPTH: u64 = 0x7fff_ffff;

/// Options that make git start a program or write to a given path.
const REFUSED: &[&str] = &[
    "--ext-diff",
    "--textconv",
    "--output",
    "--upload-pack",
    "--receive-pack",
    "--exec",
    "--strategy",
    "--config",
    "--git-dir",
    "--work-tree",
];

impl Request {
    pub(super) fn read(arguments: &Value) -> Result<Self, String> {
        let GitParameters { command, action, message, files, branch, mut args } = GitParameters::read(arguments)?;
        let (message, branch) = (message.map(|text| text.0), branch.map(|text| text.0));
        let command = match (command, action) {
            (Some(_), Some(_)) => return Err("Give command or action, not both.".to_owned()),
            (Some(command), None) | (None, Some(command)) => command.0,
            (None, None) if args.is_empty() => return Err("command is required.".to_owned()),
            (None, None) => args.remove(0),
        };
        if args.iter().chain(&files).any(|word| word.contains('\0')) {
            return Err("args must not contain a zero byte.".to_owned());
        }
        if REMOTE.contains(&command.as_str()) {
            return Ok(Self { ask: remote(&command, args, branch)?, wants: None });
        }
        if !LOCAL.contains(&command.as_str()) {
            let shown: String = command.chars().take(40).collect();
            return Err(format!(
                "'{shown}' is not a git command of this tool (valid: {}, {}).",
                LOCAL.join(", "),
                REMOTE.join(", ")
            ));
        }
        local(command, args, message, files, branch)
    }
}

fn local(
    command: String,
    given: Vec<String>,
    message: Option<String>,
    files: Vec<String>,
    branch: Option<String>,
) -> Result<Request, String> {
    let options = given.iter().take_while(|word| *word != "--");
    for word in options {
        if REFUSED
            .iter()
            .any(|refused| word == refused || word.strip_prefix(refused).is_some_and(|rest| rest.starts_with('=')))
        {
            return Err(format!("'{word}' is not allowed here."));
        }
    }
    let mut args = vec![command.clone()];
    if matches!(command.as_str(), "diff" | "log" | "show") {
        args.extend(["--no-ext-diff".to_owned(), "--no-textconv".to_owned()]);
    }
    let positional: Vec<&String> = given.iter().filter(|word| !word.starts_with('-')).collect();
    let switches = matches!(command.as_str(), "checkout" | "switch");
    let named = match (&branch, given.as_slice(), positional.as_slice()) {
        (Some(branch), _, _) => Some(branch.clone()),
        (None, [only], [_]) => Some(only.clone()),
        _ => None,
    };
    let wants = named.filter(|_| switches).and_then(|name| name.parse().ok());
    args.extend(given);
    if let Some(message) = message {
        // In one argument with its option, so that git never reads the message as an option.
        args.push(format!("--message={message}"));
    }
    if let Some(branch) = branch {
        let branch: GitRef = branch.parse().map_err(|error| format!("branch: {error}."))?;
        args.push(branch.to_string());
    }
    if !files.is_empty() {
        args.push("--".to_owned());
        args.extend(files);
    }
    Ok(Request { ask: Ask::Local { args }, wants })
}

fn remote(command: &str, args: Vec<String>, branch: Option<String>) -> Result<Ask, String> {
    let (mut force, mut names, mut history) = (false, Vec::new(), History::New);
    let mut words = args.iter().chain(&branch);
    while let Some(word) = words.next() {
        match (command, word.as_str()) {
            ("push", "--force" | "-f") => force = true,
            ("fetch" | "pull", "--unshallow") => history = History::All,
            ("fetch" | "pull", option) if option.starts_with("--depth") || option.starts_with("--deepen") => {
                let (name, value) = match option.split_once('=') {
                    Some((name, value)) => (name, Some(value)),
                    None => (option, words.next().map(String::as_str)),
                };
                history = read_history(name, value)?;
            }
            ("push", "-u" | "--set-upstream") | ("pull", "--ff-only") | (_, "origin" | "--") => {}
            (_, option) if option.starts_with('-') => return Err(format!("{command} does not take '{option}' here.")),
            (_, name) => names.push(name.to_owned()),
        }
    }
    // The full name of a branch means the same branch.
    let parse = |name: &str| {
        let name = name.strip_prefix("refs/heads/").unwrap_or(name);
        name.parse::<GitRef>().map_err(|error| format!("{error}."))
    };
    let target = |name: &str| match parse(name)? {
        branch if branch.as_str() == "HEAD" || branch.as_str().starts_with("refs/") => Err(format!(
            "push goes to a branch of 'origin': '{branch}' is not one. Name it, as in HEAD:refs/heads/fix."
        )),
        branch => Ok(branch),
    };
    let name = match names.as_slice() {
        [] => None,
        [name] => Some(name.as_str()),
        _ => return Err(format!("{command} takes one branch of 'origin', the session's repository.")),
    };
    Ok(match command {
        "clone" if name.is_some() => {
            return Err("clone takes no URL: it brings the session's own repository.".to_owned());
        }
        "clone" => Ask::Clone,
        "push" => {
            force |= name.is_some_and(|name| name.starts_with('+'));
            let (from, to) = match name.map(|name| name.trim_start_matches('+')) {
                // The branch that is checked out.
                None | Some("HEAD") => (None, None),
                Some(name) => match name.split_once(':').unwrap_or((name, name)) {
                    ("", _) => return Err("push does not delete branches.".to_owned()),
                    (from, to) => (Some(parse(from)?), Some(target(to)?)),
                },
            };
            Ask::Push { from, to, force }
        }
        "pull" => Ask::Pull { branch: name.map(parse).transpose()?, history },
        _ => Ask::Fetch { branch: name.map(parse).transpose()?, history },
    })
}

fn read_history(name: &str, value: Option<&str>) -> Result<History, String> {
    let count = value.and_then(|value| value.parse().ok()).filter(|count| (1..=MOST_DEPTH).contains(count));
    let wrong = || format!("{name} takes a number of commits from 1 to {MOST_DEPTH}.");
    match name {
        "--depth" => count.map(History::Depth).ok_or_else(wrong),
        "--deepen" => count.map(History::Deepen).ok_or_else(wrong),
        other => Err(format!("fetch and pull take --depth, --deepen and --unshallow, not '{other}'.")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn args(arguments: Value) -> Vec<String> {
        match Request::read(&arguments).unwrap().ask {
            Ask::Local { args } => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn words_stay_words() {
        assert_eq!(
            args(json!({"command": "commit", "args": ["-m", "$(touch pwn)"]})),
            ["commit", "-m", "$(touch pwn)"]
        );
        assert_eq!(args(json!({"action": "commit", "message": "--amend"})), ["commit", "--message=--amend"]);
        assert_eq!(args(json!({"command": "add", "files": ["-A"]})), ["add", "--", "-A"]);
        assert_eq!(args(json!({"args": ["log", "-1"]})), ["log", "--no-ext-diff", "--no-textconv", "-1"]);
    }

    #[test]
    fn what_is_not_allowed_is_named() {
        for (arguments, expect) in [
            (json!({}), "command is required."),
            (json!({"command": "daemon"}), "'daemon' is not a git command"),
            (json!({"command": "-c", "args": ["alias.x=!sh", "x"]}), "'-c' is not a git command"),
            (json!({"command": "diff", "args": ["--output=/tmp/x"]}), "'--output=/tmp/x' is not allowed here."),
            (json!({"command": "fetch", "args": ["--upload-pack=sh"]}), "fetch does not take"),
            (json!({"command": "push", "args": ["https://evil.example/x", "main"]}), "push takes one branch"),
            (json!({"command": "push", "args": ["origin", ":main"]}), "push does not delete"),
            (json!({"command": "pull", "branch": "--x"}), "pull does not take"),
            (json!({"command": "clone", "args": ["ext::sh"]}), "clone takes no URL"),
            (json!({"command": "status", "cwd": "/"}), "Unknown argument 'cwd'"),
        ] {
            let refusal = Request::read(&arguments).unwrap_err();
            assert!(refusal.starts_with(expect), "{arguments}: {refusal}");
        }
    }

    #[test]
    fn a_push_may_be_forced_only_in_words() {
        let ask = |args: Value| Request::read(&json!({"command": "push", "args": args})).unwrap().ask;
        let main = Some("main".parse().unwrap());
        assert_eq!(ask(json!([])), Ask::Push { from: None, to: None, force: false });
        assert_eq!(
            ask(json!(["-u", "origin", "main"])),
            Ask::Push { from: main.clone(), to: main.clone(), force: false }
        );
        assert_eq!(ask(json!(["origin", "+main:main"])), Ask::Push { from: main.clone(), to: main, force: true });
    }

    #[test]
    fn a_branch_by_its_full_name_is_that_branch() {
        let read = |args: Value| Request::read(&json!({"command": "push", "args": args}));
        let named = |name: &str| Some(name.parse::<GitRef>().unwrap());
        for (args, from, to) in [
            (json!(["origin", "HEAD:refs/heads/x"]), named("HEAD"), named("x")),
            (json!(["origin", "refs/heads/a:refs/heads/b"]), named("a"), named("b")),
            (json!(["origin", "refs/heads/a"]), named("a"), named("a")),
            (json!(["origin", "HEAD"]), None, None),
        ] {
            assert_eq!(read(args.clone()).unwrap().ask, Ask::Push { from, to, force: false }, "{args}");
        }
        for wrong in ["HEAD:refs/tags/v1", "x:HEAD", "HEAD:refs/pull/1/head"] {
            assert!(read(json!(["origin", wrong])).unwrap_err().contains("is not one"), "{wrong}");
        }
    }

    #[test]
    fn history_is_asked_for_in_numbers_that_git_takes() {
        let read = |args: Value| match Request::read(&json!({"command": "fetch", "args": args})) {
            Ok(Request { ask: Ask::Fetch { history, .. }, .. }) => Ok(history),
            Ok(other) => panic!("{other:?}"),
            Err(refusal) => Err(refusal),
        };
        assert_eq!(read(json!(["--unshallow"])), Ok(History::All));
        assert_eq!(read(json!(["--depth=5", "origin", "main"])), Ok(History::Depth(5)));
        assert_eq!(read(json!(["--deepen", "7"])), Ok(History::Deepen(7)));
        for wrong in [json!(["--depth=0"]), json!(["--depth"]), json!(["--deepen=-1"]), json!(["--depth=99999999999"])]
        {
            assert!(read(wrong.clone()).unwrap_err().contains("takes a number"), "{wrong}");
        }
        assert!(read(json!(["--depth-of=1"])).unwrap_err().contains("not '--depth-of'"));
    }
}
