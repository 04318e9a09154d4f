//! Files, globals and limits of one evaluation.

use std::collections::BTreeMap;

use stead_eval::{
    Ending, EvalError, EvalFileRead, EvalFileWrite, EvalFiles, EvalParams, Evaluation, Evaluator, FileRefusal, NoFiles,
    WriteMode,
};

use crate::{evaluate, evaluator};

#[derive(Default)]
struct Map(BTreeMap<String, String>);

impl EvalFiles for Map {
    fn read(&mut self, path: &str) -> Result<String, FileRefusal> {
        self.0.get(path).cloned().ok_or_else(|| FileRefusal::new("not_found", format!("no {path}")))
    }

    fn write(&mut self, path: &str, content: &str, mode: WriteMode) -> Result<(), FileRefusal> {
        match (mode, self.0.get_mut(path)) {
            (WriteMode::Create, Some(_)) => Err(FileRefusal::new("exists", format!("{path} is there"))),
            (WriteMode::Append, Some(text)) => {
                text.push_str(content);
                Ok(())
            }
            _ => {
                self.0.insert(path.to_owned(), content.to_owned());
                Ok(())
            }
        }
    }
}

fn with_files(params: &EvalParams) -> (Evaluation, Map) {
    let mut files = Map(BTreeMap::from([("a.txt".to_owned(), "alpha\n".to_owned())]));
    (evaluator().evaluate(params, &mut files).unwrap(), files)
}

fn globals(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn reads_and_writes_are_told() {
    let code = "t = read_text('a.txt')\nwrite_text('b.txt', t.upper())\nwrite_text('b.txt', '!', 'append')\nread_text('b.txt')";
    let (evaluation, files) = with_files(&EvalParams::code(code));
    assert!(evaluation.succeeded(), "{}", evaluation.result.stderr);
    assert_eq!(evaluation.result.value_repr.as_deref(), Some(r"'ALPHA\n!'"));
    assert_eq!(evaluation.result.reads.iter().map(|read| read.path.as_str()).collect::<Vec<_>>(), ["a.txt", "b.txt"]);
    assert_eq!(evaluation.result.writes.len(), 2);
    assert_eq!(evaluation.result.writes[1].mode, WriteMode::Append);
    assert_eq!(files.0["b.txt"], "ALPHA\n!");
}

#[test]
fn declared_reads_are_loaded_and_declared_writes_filled() {
    let write = |content: &str| EvalFileWrite {
        path: "out.md".to_owned(),
        content: content.to_owned(),
        mode: WriteMode::Create,
    };
    let params = EvalParams {
        code: "n = len(vfs_reads['a.txt'])".to_owned(),
        reads: vec![EvalFileRead { path: "a.txt".to_owned() }],
        writes: vec![write("n is {n}, {\"json\": true} stays, {unknown} too")],
        ..EvalParams::default()
    };
    let (evaluation, files) = with_files(&params);
    assert!(evaluation.succeeded(), "{}", evaluation.result.stderr);
    assert_eq!(files.0["out.md"], "n is 6, {\"json\": true} stays, {unknown} too");
    assert_eq!(evaluation.result.writes[0].content, files.0["out.md"]);
    assert_eq!(evaluation.result.globals, globals(&[("n", "6")]));
}

#[test]
fn a_failure_after_a_write_reports_no_write() {
    let (evaluation, _) = with_files(&EvalParams::code("write_text('b.txt', 'x')\n1 / 0"));
    assert_eq!(evaluation.ending, Ending::Raised);
    assert!(evaluation.result.writes.is_empty());
    assert!(evaluation.message.contains("pending file writes were discarded"), "{}", evaluation.message);
}

#[test]
fn refusals_are_exceptions_the_code_can_catch() {
    let code = "found = []\nfor f in (lambda: read_text('none'), lambda: write_text('a.txt', 'x'), lambda: write_text('c', 'x', 'no')):\n    \
                try:\n        f()\n    except (OSError, ValueError) as e:\n        found.append(str(e))\nfound";
    let (evaluation, files) = with_files(&EvalParams::code(code));
    let value = evaluation.result.value_repr.unwrap_or(evaluation.result.stderr);
    assert_eq!(value, "['no none', 'a.txt is there', 'mode must be one of create, overwrite, append']");
    assert_eq!(files.0["a.txt"], "alpha\n");
    let kinds = [
        ("read_text('none')", "FileNotFoundError"),
        ("write_text('a.txt', '')", "FileExistsError"),
        ("read_text(5)", "TypeError"),
    ];
    for (code, kind) in kinds {
        let (evaluation, _) = with_files(&EvalParams::code(code));
        assert!(evaluation.result.stderr.contains(&format!("\n{kind}: ")), "{code}: {}", evaluation.result.stderr);
    }
}

#[test]
fn declared_files_that_are_refused_are_errors() {
    let missing = EvalParams { reads: vec![EvalFileRead { path: "none".to_owned() }], ..EvalParams::code("print(1)") };
    let error = evaluator().evaluate(&missing, &mut Map::default()).unwrap_err();
    assert!(
        matches!(&error, EvalError::File { path, refusal } if path == "none" && refusal.code == "not_found"),
        "{error}"
    );
}

#[test]
fn a_refused_declared_write_keeps_the_output() {
    let write =
        |path: &str| EvalFileWrite { path: path.to_owned(), content: "{n}".to_owned(), mode: WriteMode::Create };
    let params =
        EvalParams { writes: vec![write("b.txt"), write("a.txt")], ..EvalParams::code("print('seen')\nn = 1\nn") };
    let (evaluation, _) = with_files(&params);
    assert!(!evaluation.succeeded());
    assert_eq!(evaluation.failure(), Some("exists"));
    assert_eq!(evaluation.message, "a.txt: a.txt is there No file was changed.");
    let result = evaluation.result;
    assert_eq!((result.stdout.as_str(), result.value_repr.as_deref()), ("seen\n", Some("1")));
    assert_eq!((result.writes.len(), result.globals), (0, globals(&[("n", "1")])));
}

#[test]
fn a_function_that_nothing_binds_writes_nothing() {
    for code in [
        "foo('b.txt', 'x', 'create')",
        "foo(path='b.txt', content='x', mode='create')",
        "foo(write_text('b.txt', 'x'))",
    ] {
        let (evaluation, files) = with_files(&EvalParams::code(code));
        assert_eq!(evaluation.ending, Ending::Raised, "{code}");
        assert!(
            evaluation.result.stderr.ends_with("\nNameError: name 'foo' is not defined\n"),
            "{code}: {:?}",
            evaluation.result
        );
        assert_eq!(files.0.keys().collect::<Vec<_>>(), ["a.txt"], "{code}");
    }
}

#[test]
fn names_of_math_are_there_and_can_be_replaced() {
    let value = |code: &str| evaluate(code).result.value_repr;
    let names = "acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh degrees e exp fabs factorial floor fmod \
                 frexp fsum hypot isinf isnan ldexp log log10 log1p modf pi radians sin sinh sqrt tan tanh trunc";
    for name in names.split_whitespace() {
        assert_eq!(value(&format!("{name} == math.{name}")).as_deref(), Some("True"), "{name}");
    }
    assert_eq!(value("pow(3, 4, 5), pow(2, 3)").as_deref(), Some("(1, 8)"), "pow is the builtin");
    let replaced = evaluate("pi = 3\ne = 2.5\ndef sqrt(x): return x\nsqrt(pi)");
    assert_eq!(replaced.result.value_repr.as_deref(), Some("3"));
    assert_eq!(replaced.result.globals, globals(&[("pi", "3"), ("e", "2.5")]));
    assert_eq!(evaluate("x = sin(0)").result.globals, globals(&[("x", "0.0")]), "the names are no results");
}

#[test]
fn a_deleted_variable_is_no_result() {
    let write = EvalFileWrite { path: "b.txt".to_owned(), content: "{x}{y}".to_owned(), mode: WriteMode::Create };
    let params = EvalParams { writes: vec![write], ..EvalParams::code("x = 1\ny = 2\ndel x") };
    let (evaluation, files) = with_files(&params);
    assert_eq!(evaluation.result.globals, globals(&[("y", "2")]));
    assert_eq!(files.0["b.txt"], "{x}2");
}

#[test]
fn numbers_that_json_does_not_have_are_named_and_left_out() {
    let evaluation = evaluate("a = float('nan')\nb = {'k': [float('inf')]}\nc = 1.5\nd = []\nd.append(d)\na");
    assert_eq!(evaluation.result.value_repr.as_deref(), Some("nan"));
    assert_eq!(evaluation.result.globals, globals(&[("c", "1.5")]));
    assert!(evaluation.message.ends_with("JSON has no NaN and no infinity: a, b."), "{}", evaluation.message);
}

#[test]
fn globals_go_in_and_come_out_as_json() {
    let pairs = [
        ("a", "[1, 2.5, null, true]"),
        ("b", "{\"k\": \"v\"}"),
        ("big", "123456789012345678901234567890"),
        ("s", "\"é\""),
    ];
    let params = EvalParams {
        globals: globals(&pairs),
        ..EvalParams::code("a.append(b['k'])\nt = (1, 'x')\nf = lambda: 0\nz = {1}")
    };
    let evaluation = evaluator().evaluate(&params, &mut NoFiles).unwrap();
    let out = evaluation.result.globals;
    assert_eq!(out["a"], "[1, 2.5, null, true, \"v\"]");
    assert_eq!(
        (out["b"].as_str(), out["big"].as_str(), out["t"].as_str()),
        ("{\"k\": \"v\"}", pairs[2].1, "[1, \"x\"]")
    );
    assert_eq!(serde_json::from_str::<String>(&out["s"]).unwrap(), "é");
    assert_eq!(out.len(), 5, "what is no JSON stays inside: {out:?}");
    // Pass the returned globals in again.
    let again = EvalParams { globals: out, ..EvalParams::code("a[4], big + 1") };
    let value = evaluator().evaluate(&again, &mut NoFiles).unwrap().result.value_repr;
    assert_eq!(value.as_deref(), Some("('v', 123456789012345678901234567891)"));
}

#[test]
fn long_output_is_cut_and_evaluation_goes_on() {
    let evaluation = evaluate("for i in range(100000):\n    print('line', i)\ni");
    assert_eq!(evaluation.result.stdout.chars().count(), 4_096);
    assert!(evaluation.result.stdout.ends_with("..."));
    assert_eq!(evaluation.result.value_repr.as_deref(), Some("99999"));
    let evaluation = evaluate("raise ValueError('é' * 9000)");
    assert_eq!(evaluation.result.stderr.chars().count(), 4_096);
}

#[test]
fn evaluations_know_nothing_of_each_other() {
    let evaluator = evaluator();
    let run = |code: &str| evaluator.evaluate(&EvalParams::code(code), &mut NoFiles).unwrap().result;
    assert_eq!(run("secret = 42\nsecret").value_repr.as_deref(), Some("42"));
    assert!(run("secret").stderr.ends_with("NameError: name 'secret' is not defined\n"));
    assert_eq!(run("hash('a') == hash('a'), {3, 1, 2}"), run("hash('a') == hash('a'), {3, 1, 2}"));
}

#[test]
fn a_missing_worker_says_what_builds_it() {
    let error =
        Evaluator::new("/nowhere/stead-eval-worker").evaluate(&EvalParams::code("1"), &mut NoFiles).unwrap_err();
    assert!(error.to_string().contains("cargo xtask eval-worker"), "{error}");
}
