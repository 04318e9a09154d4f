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
        "raise SystemExit",
        "raise GeneratorExit",
        // Names that are bound without being an expression.
        "def __stead_dump(names): return {}",
        "class __stead_Deleted: pass",
        "lambda __stead_x: 1",
        "def f(*__stead_value): pass",
        "try:\n    1 / 0\nexcept Exception as __stead_value:\n    pass",
        "def f():\n    global __stead_given\nf()",
        "match [1]:\n    case [*__stead_value]: pass",
        "match {}:\n    case {**__stead_value}: pass",
        "[1 for __stead_value in [1]]",
        "(__stead_value := 1)",
        "del __stead_value",
        // Python reads fullwidth letters as the plain ones.
        "\u{ff45}val('1')",
        "sqrt.__self__",
        "factorial.__call__(3)",
        "pi.__class__",
        "ValueError(1, 2).__class__",
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
        "sqrt.func",
        "'{0.__self__}'.format(sin)",
        "'{x.__class__}'.format(x=pi)",
        "ValueError(1, 2).kind",
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
        "  File \"<eval>\", line 3\n    import os\nNotImplementedError: import is not available here; math and statistics are there without it\n"
    );
}
