1 // 0

5 % 0

1.5 / 0

{[]: 1}

{{}}

a, b = [1, 2, 3]

max([])

min(())

[1] < [None]

1 if else 2

x = = 2

def f(:
    pass

print("unclosed

if True:
print(1)

for in range(3): pass

x +

"a" "b

1 = x

def f(a):
    return a
f()

def f(a):
    return a
f(1, 2)

try:
    1 / 0
except ZeroDivisionError:
    raise

def f():
    x += 1
x = 1
f()

math.sqrt(-1)

math.log(0)

math.acos(2)
