# Runs every snippet of a JSON list from standard input in a fresh namespace, and prints the results.
import ast, contextlib, io, json, math, statistics, sys, traceback


def run(code):
    names = {"__name__": "__main__", "math": math, "statistics": statistics}
    out, value, error, lines = io.StringIO(), None, None, []
    try:
        with contextlib.redirect_stdout(out):
            tree = ast.parse(code, "<eval>")
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, "<eval>", "exec"), names)
            if last is not None:
                result = eval(compile(ast.Expression(last.value), "<eval>", "eval"), names)
                value = None if result is None else repr(result)
    except BaseException as caught:
        error = traceback.format_exception_only(type(caught), caught)[-1].strip()
        frames = traceback.extract_tb(caught.__traceback__)
        lines = [] if isinstance(caught, SyntaxError) else [f.lineno for f in frames if f.filename == "<eval>"]
    return {"value": value, "stdout": out.getvalue(), "error": error, "lines": lines}


print(json.dumps([run(code) for code in json.load(sys.stdin)]))
