use super::*;

fn rewritten(code: &str) -> String {
    let parsed = ruff_python_parser::parse_module(code).unwrap();
    let names = Names::of(&parsed.syntax().body, ["given".to_owned()].iter());
    rewrite(code, parsed.syntax(), &names).ok().unwrap()
}

#[test]
fn the_last_expression_is_kept_and_lines_stay() {
    assert_eq!(rewritten("x = 1\nx + 1  # more"), "x = 1\n__stead_value = (x + 1)  # more");
    assert_eq!(rewritten("(1,\n 2)\n"), "__stead_value = ((1,\n 2))\n");
    assert_eq!(rewritten("x = 1"), "x = 1");
    assert_eq!(rewritten("str(1); len(2)"), "str(1); __stead_value = (len(2))");
}

#[test]
fn methods_of_builtin_values_are_found_where_they_are_not_called() {
    assert_eq!(rewritten("x = (5).bit_length()"), "x = __stead_call_bit_length((5))");
    assert_eq!(rewritten("x = s.format_map(d.get)"), "x = __stead_call_format_map(s, __stead_attribute(d, \"get\"))");
    assert_eq!(rewritten("f = str.lower"), "f = __stead_attribute(str, \"lower\")");
    assert_eq!(rewritten("x = a.b.real.imag"), "x = __stead_attribute(__stead_attribute(a.b, \"real\"), \"imag\")");
    assert_eq!(rewritten("a.append(1)\nb.items = 1"), "a.append(1)\nb.items = 1");
    assert_eq!(rewritten("s = f'{d.get=}'"), "s = f'{d.get=}'");
}

#[test]
fn a_deleted_name_is_checked_where_it_is_read() {
    assert_eq!(rewritten("del x"), "__stead_read(x, \"x\"); x = __stead_deleted");
    assert_eq!(
        rewritten("del x\ny = x + z\nx += 1\nx()"),
        "__stead_read(x, \"x\"); x = __stead_deleted\ny = __stead_read(x, \"x\") + z\n__stead_read(x, \"x\"); x += 1\n\
         __stead_value = (__stead_read(x, \"x\")())"
    );
    assert_eq!(
        rewritten("def f(a):\n    del a\n    return a"),
        "def f(a):\n    __stead_read_local(a, \"a\"); a = __stead_deleted\n    return __stead_read_local(a, \"a\")"
    );
    assert_eq!(
        rewritten("def f():\n    global a\n    del a"),
        "def f():\n    global a\n    __stead_read(a, \"a\"); a = __stead_deleted"
    );
}

#[test]
fn deleted_items_become_calls() {
    assert_eq!(rewritten("if a:\n  del b[1:]"), "if a:\n  __stead_delete_slice(b, (1), (None), (None))");
    assert_eq!(rewritten("del (a)[(0)]"), "__stead_delete_item((a), ((0)))");
    assert_eq!(
        rewritten("del a[0], b.c[x.get]"),
        "__stead_delete_item(a, (0)); __stead_delete_item(b.c, (__stead_attribute(x, \"get\")))"
    );
    assert_eq!(
        rewritten("del (a[0],\n     b[1])\nc = 1"),
        "__stead_delete_item(a, (0)); \\\n__stead_delete_item(b, (1))\nc = 1"
    );
    assert_eq!(rewritten("del ()"), "pass");
}

#[test]
fn a_function_that_nothing_binds_is_missed_before_its_arguments() {
    assert_eq!(rewritten("x = foo(1)"), "x = (foo,)[0](1)");
    assert_eq!(rewritten("x = len(given(1))"), "x = len(given(1))");
    for binding in
        ["foo = 1", "def foo(): pass", "class foo: pass", "lambda foo: 1", "[1 for foo in x]", "for foo in x: pass"]
    {
        assert!(rewritten(&format!("{binding}\nx = foo(1)")).ends_with("x = foo(1)"), "{binding}");
    }
    let caught = "try:\n  pass\nexcept E as foo:\n  y = foo(1)";
    assert_eq!(rewritten(caught), caught);
    let captured =
        "match x:\n  case [a, *foo]:\n    y = foo(1)\n  case {'k': 1, **rest}:\n    y = rest()\n  case b:\n    y = b()";
    assert_eq!(rewritten(captured), captured);
}

#[test]
fn patterns_stay() {
    let code = "match x:\n  case a.real:\n    y = 1\n  case ValueError():\n    y = 2";
    assert_eq!(rewritten(code), code);
    let guarded = "del a\nmatch x:\n  case a.b if a:\n    y = 1";
    assert!(rewritten(guarded).ends_with("case a.b if __stead_read(a, \"a\"):\n    y = 1"));
}

#[test]
fn exceptions_take_any_arguments() {
    assert_eq!(rewritten("raise ValueError('a')"), "raise ValueError('a')");
    assert_eq!(rewritten("raise ValueError"), "raise ValueError");
    assert_eq!(rewritten("raise ValueError(1, x)"), "raise __stead_exception(ValueError, 1, x)");
    assert_eq!(rewritten("ValueError = 1\nraise ValueError(2)"), "ValueError = 1\nraise ValueError(2)");
    assert_eq!(rewritten("x = type(e)"), "x = __stead_type(e)");
    assert_eq!(rewritten("x = type(a, b, c)"), "x = type(a, b, c)");
    assert_eq!(rewritten("type = len\nx = type(e)"), "type = len\nx = type(e)");
    assert_eq!(rewritten("x = e.args"), "x = __stead_attribute(e, \"args\")");
}
