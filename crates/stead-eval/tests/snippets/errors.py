1 / 0

undefined_name

[1, 2][5]

(1, 2)[5]

"abc"[10]

{"a": 1}["b"]

int("x")

int("12a", 10)

float("abc")

"a" + 1

1 + "a"

[1] + (2,)

len(5)

None.x

"abc".nope

[].nope()

"abc".index("z")

[1].remove(2)

[].pop()

{}.popitem()

for x in 5:
    pass

a, b = 1

a, b, c = [1, 2]

sum(["a"])

"a" * "b"

-"a"

not_a_function = 3
not_a_function()

def f(a):
    return a
f(b=1)

def f(a):
    return a / 0
def g():
    return f(3)
g()

raise ValueError("mine")

raise KeyError("k")

raise RuntimeError

assert False

assert 1 == 2, "no"

try:
    1 / 0
except ZeroDivisionError as e:
    print("caught", e)

try:
    int("x")
except (TypeError, ValueError) as e:
    r = str(e)
finally:
    print("finally")
r

try:
    x = 1
except Exception:
    x = 2
else:
    x = 3
x

def f():
    try:
        return 1
    finally:
        print("cleanup")
f()

try:
    {}["missing"]
except KeyError as e:
    print(repr(e), e.args)

try:
    try:
        1 / 0
    finally:
        print("inner")
except ArithmeticError:
    print("outer")

try:
    raise ValueError("a")
except ValueError:
    try:
        raise KeyError("b")
    except KeyError as e:
        print("nested", e)

def f(n):
    if n == 0:
        raise ValueError("deep")
    return f(n - 1)
f(3)

for i in range(3):
    try:
        if i == 1:
            continue
        print(i)
    finally:
        print("f", i)

try:
    statistics.mean([])
except statistics.StatisticsError as e:
    print("stat", e)

try:
    statistics.stdev([1])
except ValueError as e:
    print("is a ValueError", e)

raise statistics.StatisticsError("own")

[1, 2, 3][None]

[1, 2, 3]["a"]

"abc" < 1

int(None)

float([])

range(1, 10, 0)

"%d" % "a"

"{}".format()

"{a}".format()

f"{1:z}"

round("a")

abs("a")

ord("ab")

chr(-1)

sorted([1, "a"])

zip(1)

iter(5)

next(iter([]))

x = [1, 2, 3]
del x[5]

d = {}
del d["k"]

2 ** "a"

"abc"[1] = "x"

(1, 2)[0] = 5

int("9" * 5000)

str(10 ** 5000)

return 5

break

f(a=1, a=2)
