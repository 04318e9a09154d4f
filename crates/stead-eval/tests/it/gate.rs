//! Constructs that the gate refuses.

use stead_eval::Ending;

use crate::evaluate;

#[test]
fn imports_code_of_strings_and_attribute_tricks_are_refused() {
    for code in [
        "import os",
        "import math",
        "from os import path",
        "def f():\n    import sys\nf()",
        "eval('1')",
        "exec('x = 1')",
        "compile('1', '', 'eval')",
        "open('/etc/passwd')",
        "input()",
        "globals()",
        "locals()",
        "vars()",
        "dir()",
        "getattr([], 'append')",
        "setattr(math, 'pi', 3)",
        "delattr(math, 'pi')",
        "hasattr([], 'x')",
        "__import__('os')",
        "__builtins__",
        "e = eval\ne('1')",
        "[eval][0]('1')",
        "().__class__",
        "''.__class__.__mro__",
        "(lambda: 0).__code__",
        "(lambda: 0).__globals__",
        "[].__class__.__base__.__subclasses__()",
        "math.__dict__",
        "try:\n    1 / 0\nexcept Exception as e:\n    e.__traceback__",
        "f'{().__class__}'",
        "class A:\n    x = __import__('os')",
        "lambda: exec('1')",
        "[__import__ for _ in [1]]",
        "__stead_getattr([], 'x')",
        "__stead_value = 1",
        "async def f(): pass",
        "breakpoint()",
        "exit()",
        "memoryview(b'a')",
        "super()",
    ] {
        let evaluation = evaluate(code);
        let last = evaluation.result.stderr.trim_end().lines().last().unwrap_or_default().to_owned();
        assert_eq!(evaluation.ending, Ending::Raised, "{code}");
        assert!(last.contains("not available here"), "{code}: {last}");
        assert_eq!(evaluation.result.value_repr, None, "{code}");
    }
}

#[test]
fn what_the_gate_cannot_see_finds_nothing() {
    for code in [
        "'{0.__class__}'.format(1)",
        "'{0.__class__.__mro__}'.format([])",
        "'{x.__globals__}'.format(x=len)",
        "'{0[__class__]}'.format({})",
        "'%(__class__)s' % {}",
        "math.os",
        "statistics.sys",
        "read_text.func",
    ] {
        let evaluation = evaluate(code);
        assert_eq!(evaluation.ending, Ending::Raised, "{code}: {:?}", evaluation.result);
    }
}

#[test]
fn a_refusal_names_the_line_and_nothing_has_run() {
    let evaluation = evaluate("print('first')\nx = 1\nimport os");
    assert_eq!(evaluation.result.stdout, "");
    assert_eq!(
        evaluation.result.stderr,
        "  File \"<eval>\", line 3\n    import os\nImportError: import is not available here; math and statistics are there without it\n"
    );
}
