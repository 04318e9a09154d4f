total = 0
for i in range(10):
    if i == 3:
        continue
    if i == 7:
        break
    total += i
total

n, steps = 27, 0
while n != 1:
    n = n // 2 if n % 2 == 0 else 3 * n + 1
    steps += 1
steps

for i in range(3):
    pass
else:
    print("done")

for i in range(3):
    if i == 1:
        break
else:
    print("never")
print(i)

i = 0
while True:
    i += 1
    if i > 5:
        break
i

a, b = 0, 1
fib = []
while a < 100:
    fib.append(a)
    a, b = b, a + b
fib

for i, (a, b) in enumerate([(1, 2), (3, 4)]):
    print(i, a, b)

for k, v in {"a": 1, "b": 2}.items():
    print(f"{k}={v}")

x = 5
if x > 10:
    r = "big"
elif x > 3:
    r = "mid"
else:
    r = "small"
r

out = []
for row in range(3):
    for col in range(3):
        if col > row:
            break
        out.append((row, col))
out

def command(c):
    match c:
        case ["go", d]:
            return "go " + d
        case {"x": x}:
            return x
        case int(n) if n > 5:
            return "big"
        case 1 | 2:
            return "small"
        case _:
            return "?"
[command(["go", "n"]), command({"x": 9}), command(7), command(2), command("z")]

grid = [[0] * 3 for _ in range(3)]
for i in range(3):
    grid[i][i] = 1
for row in grid:
    print(" ".join(map(str, row)))

x = 10
x += 5
x -= 3
x *= 2
x //= 5
x **= 2
x %= 7
x <<= 2
x |= 1
x ^= 3
x

s = ""
for c in "abc":
    s = c + s
s

if (n := len([1, 2, 3])) > 2:
    print(n)

data = {"a": [1, 2], "b": []}
for key in sorted(data):
    if not data[key]:
        del data[key]
data

assert 1 + 1 == 2, "math"
print("fine")

pass

x = 1; y = 2
x + y

primes = []
candidate = 2
while len(primes) < 15:
    for p in primes:
        if candidate % p == 0:
            break
    else:
        primes.append(candidate)
    candidate += 1
primes

text = "the cat sat on the mat the end"
freq = {}
for word in text.split():
    freq[word] = freq.get(word, 0) + 1
sorted(freq.items(), key=lambda kv: (-kv[1], kv[0]))[:3]

a = [5, 2, 9, 1]
for i in range(len(a)):
    for j in range(len(a) - 1):
        if a[j] > a[j + 1]:
            a[j], a[j + 1] = a[j + 1], a[j]
a

lo, hi, target = 0, 100, 37
guesses = 0
while lo <= hi:
    mid = (lo + hi) // 2
    guesses += 1
    if mid == target:
        break
    if mid < target:
        lo = mid + 1
    else:
        hi = mid - 1
guesses

x = None
x

"only an expression"

# a comment

if __name__ == "__main__":
    print("main")

n = 5
"""a string
on two lines"""

class Holder:
    real = 2
a = Holder()
match 2:
    case a.real:
        r = "attribute"
    case _:
        r = "none"
r

try:
    raise ValueError(3)
except Exception as error:
    match error:
        case KeyError():
            r = "key"
        case ValueError():
            r = "value"
r
