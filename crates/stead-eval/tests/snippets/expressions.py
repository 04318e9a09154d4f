1 + 2 * 3 - 4 / 5

7 // 2, -7 // 2, 7 % 3, -7 % 3, 7 % -3

2 ** 10, 2 ** -1, (-2) ** 3

2 ** 100

123456789 ** 20 % 1000007

-3 // 2, divmod(-7, 2), divmod(7, -2)

7.5 // 2, 7.5 % 2, -7.5 % 2

1 < 2 < 3, 1 < 2 > 3, 1 == 1.0 == True

not True or False and True

"a" or "b", "" or "b", "a" and "b", "" and "b"

None is None, 1 is not None

5 & 3, 5 | 3, 5 ^ 3, ~5, 5 << 2, 20 >> 2

True + True, True * 5, False - 1

1 if 2 > 1 else 0

[1, 2] + [3], [0] * 3, (1,) + (2, 3)

"ab" * 3 + "c"

3 in [1, 2, 3], 4 not in (1, 2), "b" in "abc", "k" in {"k": 1}

0.1 + 0.2

1e100, 1e-7, 123456789012345.678, 1.0, 1e16, 0.00001

float("inf"), -float("inf"), float("nan")

int("42"), int("-7"), int(3.99), int(-3.99), int("ff", 16), int("0b101", 0)

float("3.5"), float("1e3"), float(7)

str(1.5), str(True), str(None), str([1, "a"])

bool(0), bool(""), bool([]), bool(0.0), bool("0"), bool([0])

abs(-5), abs(-2.5), abs(3)

min(3, 1, 2), max([4, 9, 2]), min("b", "a"), max("apple", "fig", key=len)

min([], default=7), max((1, 2), (1, 3))

sum([1, 2, 3]), sum([1.5, 2.5]), sum([[1], [2]], [])

round(2.5), round(3.5), round(-2.5), round(2.675, 2), round(1234.5678, -2), round(1.005, 2)

round(5), round(1234, -2), round(0.5), round(1.5), round(1e20, 2)

round(2.5, 0), round(-0.4), round(12345.6789, 3), round(1/3, 5)

pow(2, 10), pow(2, 10, 1000), pow(3, -1, 7)

bin(10), hex(255), oct(8), bin(-5)

chr(65), ord("a"), chr(8364), ord("é")

len("héllo"), len([1, 2]), len({"a": 1}), len(range(10))

sorted([3, 1, 2]), sorted("hello"), sorted([3, 1, 2], reverse=True), sorted(["b", "A", "c"], key=str.lower)

list(reversed([1, 2, 3])), list(range(5)), list(range(10, 0, -3))

list(zip([1, 2, 3], "abc")), list(enumerate("ab")), list(enumerate("ab", 1))

list(map(lambda x: x * 2, [1, 2])), list(filter(None, [0, 1, "", "a"]))

list(map(lambda a, b: a + b, [1, 2], [3, 4]))

any([0, 0, 1]), all([1, 1, 0]), any([]), all([])

type(1) is int, type("a") is str, isinstance(1, (int, str)), isinstance(True, int)

hash(1) == hash(1.0), hash("a") == hash("a")

repr("it's"), repr('say "hi"'), repr("both ' and \""), repr("tab\t nl\n")

(1,), (), (1, 2), [()], [(1,)]

{"a": 1, "b": [1, 2]}, {1, }, set(), frozenset([1])

1_000_000, 0xff, 0o17, 0b11, 1e3, .5

"con" "cat" 'ena' "ted"

(lambda x, y=2: x * y)(3), (lambda *a: sum(a))(1, 2, 3)

[1, 2, 3][-1], "hello"[1:4], "hello"[::-1], [1, 2, 3, 4, 5][::2], (1, 2, 3)[1:]

list(range(10))[2:8:3], "abcdef"[-3:], "abcdef"[:-3], [1, 2, 3][5:]

[*range(3), *"ab"], {**{"a": 1}, "b": 2}, (*[1], 2)

complex(1, 2), (1 + 2j) * (3 - 1j), abs(3 + 4j)

10 / 2, 10 // 2.0, 2 ** 0.5

(x := 5) + x

"%d items, %s, %.2f, %5d|%-5d|, %x, %%" % (3, "ok", 3.14159, 42, 42, 255)

print(1, 2, 3, sep="-", end="!\n")

print("a", "b"); print(); print([1], {"a": 1}, None)

iter([1, 2]) is not None, next(iter([7])), next(iter([]), "none")

callable(len), callable(1), callable(lambda: 0)

ascii("é€a"), ascii("plain")

bytes(3), b"ab" + b"c", b"abc"[0], list(b"ab"), "é".encode(), b"\xc3\xa9".decode()

(5).bit_length(), (255).bit_length(), (0).bit_length(), (-8).bit_length()

(0.5).as_integer_ratio(), (0.1).as_integer_ratio(), (3).as_integer_ratio()

(2.0).is_integer(), (2.5).is_integer()

(10).bit_count(), (255).bit_count()

Ellipsis, NotImplemented

slice(1, 5, 2), slice(3)

format(3.14159, ".2f"), format(1234567, ","), format(255, "x"), format("a", ">5"), format(0.5, "%")

3 .real, (3).imag, (3).numerator, (3).denominator, (2.5).real

(1, 2) < (1, 3), [1, 2] == [1, 2], {1, 2} <= {1, 2, 3}, "a" < "b"

sorted({"a": 3, "b": 1}, key={"a": 3, "b": 1}.get)

list(map(str.upper, ["a", "b"])), list(map("x-{}".format, [1, 2]))

add = [].append; add(1); s = {1}; list(map(s.union, [[2], [3]]))

str.upper("a"), list(map(str.strip, [" a "])), str.join("-", ["a", "b"])

x = 5; del x; x = 6; x
