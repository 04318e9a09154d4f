def f(a, b=2, *args, c, d=4, **kw):
    return a, b, args, c, d, kw
f(1, c=3), f(1, 2, 3, 4, c=5, e=6)

def fact(n):
    return 1 if n < 2 else n * fact(n - 1)
fact(20)

def outer():
    n = 0
    def inner():
        nonlocal n
        n += 1
        return n
    inner()
    return inner()
outer()

count = 0
def bump():
    global count
    count += 1
bump()
bump()
count

def make(n):
    return lambda x: x + n
make(3)(4)

def compose(*fs):
    def run(x):
        for f in fs:
            x = f(x)
        return x
    return run
compose(lambda x: x + 1, str, len)(99)

def gcd(a, b):
    while b:
        a, b = b, a % b
    return a
gcd(48, 36)

def f():
    pass
f()

def f(x):
    """Doc."""
    return x
f(1)

def memo(n, cache={}):
    if n not in cache:
        cache[n] = n if n < 2 else memo(n - 1) + memo(n - 2)
    return cache[n]
memo(50)

def flatten(x):
    out = []
    for i in x:
        if isinstance(i, list):
            out.extend(flatten(i))
        else:
            out.append(i)
    return out
flatten([1, [2, [3, [4]], 5]])

def twice(f):
    def g(*a):
        return f(f(*a))
    return g
@twice
def inc(x):
    return x + 1
inc(5)

def f(a, /, b, *, c):
    return a + b + c
f(1, b=2, c=3)

def f(*args, **kwargs):
    return len(args), sorted(kwargs)
f(*[1, 2], **{"x": 1, "y": 2})

fs = [lambda i=i: i * i for i in range(3)]
[f() for f in fs]

def hanoi(n, a="A", b="B", c="C"):
    return 0 if n == 0 else hanoi(n - 1, a, c, b) + 1 + hanoi(n - 1, c, b, a)
hanoi(6)

def sign(x):
    if x > 0:
        return 1
    if x < 0:
        return -1
    return 0
[sign(x) for x in (-5, 0, 5)]

def f(x: int, y: str = "a") -> str:
    return y * x
f(3)

class Point:
    def __init__(self, x, y):
        self.x = x
        self.y = y
    def norm(self):
        return math.hypot(self.x, self.y)
    def __repr__(self):
        return f"Point({self.x}, {self.y})"
    def __eq__(self, other):
        return self.x == other.x and self.y == other.y
    def __add__(self, other):
        return Point(self.x + other.x, self.y + other.y)
p = Point(3, 4)
p.norm(), p, p == Point(3, 4), p + Point(1, 1)

class Stack:
    def __init__(self):
        self.items = []
    def push(self, x):
        self.items.append(x)
        return self
    def pop(self):
        return self.items.pop()
    def size(self):
        return len(self.items)
s = Stack().push(1).push(2)
s.pop(), s.size()

class Counter:
    total = 0
    def __init__(self):
        Counter.total += 1
Counter()
Counter()
Counter.total

def apply(f, n, x):
    for _ in range(n):
        x = f(x)
    return x
apply(lambda v: v * 2, 10, 1)

def quicksort(a):
    if len(a) <= 1:
        return a
    p = a[0]
    return quicksort([x for x in a[1:] if x < p]) + [p] + quicksort([x for x in a[1:] if x >= p])
quicksort([3, 6, 1, 8, 2, 9, 2])

def f():
    return 1, 2
x, y = f()
x + y

def collatz(n):
    path = [n]
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        path.append(n)
    return path
collatz(6)

sorted(["bb", "a", "ccc"], key=len, reverse=True)

list(map(max, [1, 5], [3, 2]))

max({"a": 3, "b": 7}, key=lambda k: {"a": 3, "b": 7}[k])

def parse(line):
    key, _, value = line.partition("=")
    return key.strip(), value.strip()
dict(parse(l) for l in "a = 1\nb=2".splitlines())

def rot13(s):
    return "".join(chr((ord(c) - 97 + 13) % 26 + 97) if c.isalpha() else c for c in s)
rot13("hello world")

def to_roman(n):
    out = ""
    for v, s in [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]:
        while n >= v:
            out += s
            n -= v
    return out
[to_roman(n) for n in (4, 9, 1994, 2026)]

def matmul(a, b):
    return [[sum(x * y for x, y in zip(r, c)) for c in zip(*b)] for r in a]
matmul([[1, 2], [3, 4]], [[5, 6], [7, 8]])

def bad(x, acc=None):
    acc = acc or []
    acc.append(x)
    return acc
bad(1), bad(2)

def permutations(s):
    if len(s) <= 1:
        return [s]
    return [c + p for i, c in enumerate(s) for p in permutations(s[:i] + s[i + 1:])]
permutations("abc")
