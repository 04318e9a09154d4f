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

x = 1
del x
x

del never_there

x = 1
del x
x += 1

def f():
    a = 1
    del a
    return a
f()

def f(a):
    del a
    a = 2
    return a
f(1)

x = 1
def f():
    global x
    del x
f()
x

x = [1, 2, 3]
y = {"k": 1}
del x[0], y["k"]
x, y

x = [0, 1, 2, 3]
del (x[0],
     x[0])
raise ValueError(x)

len = 3
del len
len("abc")

x = 1
if x: del x
x = 2; del x; x = 3
x

missing_function(1 / 0)

try:
    missing_function(print("evaluated"))
except NameError as error:
    print(error)

raise ValueError(5)

raise ValueError(1, "two")

raise KeyError(5)

raise KeyError("a", "b")

raise Exception([1], None)

try:
    raise ValueError(1, "two")
except ValueError as error:
    r = (error.args, str(error))
r

try:
    raise TypeError([1, 2])
except TypeError as error:
    r = error.args[0][1]
r

x = 5
f"{x=} {x + 1 = }"

try:
    [][1]
except Exception as error:
    r = (type(error) is IndexError, type(error) == ValueError, type(error), type(ValueError("x")) in (KeyError, ValueError))
r

type(5) is int, type("") == str, type(None), type([]) in (list, tuple)
