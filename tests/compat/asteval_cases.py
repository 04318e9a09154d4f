"""Compares Stead's `eval` with asteval on the snippets of asteval's own tests.

Usage: asteval_cases.py TESTS, with STEAD_URL and STEAD_TOKEN set. TESTS is the folder of asteval's tests.

Runs asteval's tests and records every snippet that they evaluate. A case is one snippet after the snippets
before it that define something. asteval (without numpy, which `eval` does not have) and Stead evaluate the
same program, each from the beginning, and must come to the same value and output or to the same exception class. `asteval_differences.toml` lists the
cases that differ, with a reason. A listed case that no longer differs is an error, so the list stays true.
"""

import ast
import contextlib
import io
import json
import os
import re
import sys
import textwrap
import tomllib
import urllib.request

import asteval
import pytest

DIFFERENCES = os.path.join(os.path.dirname(__file__), "asteval_differences.toml")
CONFIGURATION = os.path.join(os.path.dirname(__file__), "pytest.ini")
FEWEST_CASES = 440
# Share of the cases that must agree, in percent.
BAR = 95
# `eval` takes no longer code, and shows this much of a value.
MOST_CODE = 2000
MOST_VALUE = 16_384


class Server:
    """The server that the environment names."""

    def json(self, method, path, body=None):
        headers = {"Authorization": f"Bearer {os.environ['STEAD_TOKEN']}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{os.environ['STEAD_URL']}/api/v1{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=600) as answer:
            text = answer.read()
        return json.loads(text) if text else None


class Recorder:
    """A pytest plugin that records the snippets of each interpreter that a test makes."""

    def __init__(self):
        self.test = None
        self.snippets = {}
        plain = asteval.Interpreter
        recorder = self

        class Recording(plain):
            def eval(self, expr, *args, **options):
                if isinstance(expr, str):
                    recorder.snippets.setdefault((recorder.test, id(self)), []).append(textwrap.dedent(expr))
                    recorder.kept.append(self)
                return super().eval(expr, *args, **options)

        self.plain, self.kept = plain, []
        asteval.Interpreter = Recording

    def pytest_runtest_setup(self, item):
        self.test = item.originalname

    def sequences(self):
        """The test and the snippets of every interpreter, without repeated ones."""
        seen = []
        for (test, _), snippets in self.snippets.items():
            if (test, snippets) not in seen:
                seen.append((test, snippets))
        return seen


def run_asteval(plain, code):
    out = io.StringIO()
    interpreter = plain(use_numpy=False, writer=out, err_writer=io.StringIO())
    with contextlib.redirect_stdout(out):
        value = interpreter(code)
    if interpreter.error:
        return interpreter, {"error": interpreter.error[0].get_error()[0]}
    if not ends_with_expression(code):
        # asteval has values of some statements.
        value = None
    return interpreter, {"value": None if value is None else repr(value), "stdout": out.getvalue()}


def ends_with_expression(code):
    body = ast.parse(code).body
    return bool(body) and isinstance(body[-1], ast.Expr)


def defines(snippet):
    """Whether later snippets can depend on this one."""
    return any(not isinstance(part, ast.Expr) for part in ast.parse(snippet).body)


def assigned(tree):
    """The names that the statements outside of functions assign."""
    names = []

    def visit(node):
        if isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp)):
            return
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id not in names:
            names.append(node.id)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(tree)
    return names


def is_plain(value):
    try:
        ast.literal_eval(repr(value))
        return True
    except (ValueError, SyntaxError):
        return isinstance(value, range)


def ask_for_names(code, snippet, interpreter):
    """The code with an expression that shows what the snippet assigned, if it does not end with an expression."""
    if ends_with_expression(snippet):
        return code
    names = [name for name in assigned(ast.parse(snippet)) if is_plain(interpreter.symtable.get(name, pytest))]
    return f"{code}\n({', '.join(names)},)" if names else code


def cases(recorder):
    """Yields the id, the program and asteval's outcome of every case."""
    numbers, known = {}, set()
    for test, snippets in recorder.sequences():
        before = []
        for snippet in snippets:
            code = "\n".join([*before, snippet])
            interpreter, outcome = run_asteval(recorder.plain, code)
            if "error" not in outcome:
                code = ask_for_names(code, snippet, interpreter)
                outcome = run_asteval(recorder.plain, code)[1]
                if defines(snippet):
                    before.append(snippet)
            if (test, code) in known:
                continue
            known.add((test, code))
            numbers[test] = numbers.get(test, 0) + 1
            yield f"{test}#{numbers[test]}", code, outcome


def run_stead(server, session, code):
    if len(code) > MOST_CODE:
        return {"error": "too long"}
    answer = server.json("POST", f"/sessions/{session}/tools/eval", {"code": code})
    result = answer.get("result")
    if answer["ok"]:
        return {"value": result["value_repr"], "stdout": result["stdout"]}
    if result is None:
        return {"error": answer["error"]["code"]}
    return {"error": result["stderr"].rstrip().rsplit("\n", 1)[-1].split(":")[0]}


def same_text(ours, theirs):
    if ours is None or theirs is None or ours == theirs:
        return ours == theirs
    # asteval shows a function with its signature and its first line of documentation.
    shown = r"<(?:function .* at 0x\w+|Procedure [^>]*)>(?:\n .*)?"
    ours, theirs = (re.sub(shown, "<function>", text) for text in (ours, theirs))
    if ours == theirs:
        return True
    if len(ours) == MOST_VALUE and ours.endswith("..."):
        return theirs.startswith(ours[:-3])
    try:
        # Sets have no order.
        return ast.literal_eval(ours) == ast.literal_eval(theirs)
    except (ValueError, SyntaxError):
        return False


def agree(ours, theirs):
    if "error" in ours or "error" in theirs:
        return ours.get("error") == theirs.get("error")
    return same_text(ours["value"], theirs["value"]) and same_text(ours["stdout"], theirs["stdout"])


def name(outcome):
    """The class of an outcome, as in the list of differences."""
    return outcome.get("error", "value")


def begin_session(server):
    workspace = {"enabled": True, "provider": "memory", "workspace_policy": "empty"}
    server.json("POST", "/agent-types", {"id": "evaluator", "workspace": workspace})
    session = server.json("POST", "/sessions?wait=60", {"agent_type": "evaluator"})
    assert session["status"] == "active", session
    return session["id"]


def compare(server, session, recorder):
    """The number of cases, and the outcomes of those that differ."""
    count, different = 0, {}
    for case, code, theirs in cases(recorder):
        count += 1
        ours = run_stead(server, session, code)
        if not agree(ours, theirs):
            different[case] = (code, ours, theirs)
    return count, different


def faults(count, different, listed):
    """What is wrong with the outcomes and the list, in sentences."""
    for case, (code, ours, theirs) in different.items():
        expected = listed.get(case)
        if expected is None:
            yield f"{case} differs and is not listed:\n{textwrap.indent(code, '    ')}\n  asteval {theirs}\n  stead   {ours}"
        elif (expected["asteval"], expected["stead"]) != (name(theirs), name(ours)):
            yield f"{case} is listed with other outcomes: asteval {name(theirs)}, stead {name(ours)}"
    for case in listed.keys() - different.keys():
        yield f"{case} is listed as different, but agrees or does not exist; remove it from the list"
    if count < FEWEST_CASES:
        yield f"only {count} cases were found in asteval's tests, fewer than {FEWEST_CASES}"
    if 100 * (count - len(different)) < BAR * count:
        yield f"fewer than {BAR} % of the cases agree"


def main():
    tests = sys.argv[1]
    recorder = Recorder()
    # asteval's own configuration needs plugins. Every test runs with two kinds of symbol table; the name of the
    # default kind contains False.
    arguments = ["-c", CONFIGURATION, "-k", "False", tests]
    assert pytest.main(arguments, plugins=[recorder]) == 0, "asteval's own tests fail"
    with open(DIFFERENCES, "rb") as file:
        listed = {entry["case"]: entry for entry in tomllib.load(file).get("difference", [])}
    server = Server()
    session = begin_session(server)
    count, different = compare(server, session, recorder)
    server.json("DELETE", f"/sessions/{session}")
    agreed = count - len(different)
    print(f"asteval {asteval.__version__}: {agreed} of {count} cases agree ({100 * agreed / count:.1f} %)")
    found = list(faults(count, different, listed))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
