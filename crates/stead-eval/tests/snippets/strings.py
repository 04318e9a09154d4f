"Hello".upper(), "Hello".lower(), "hello world".title(), "hello".capitalize(), "Hello".swapcase()

"  a b ".strip(), "xxaxx".strip("x"), "  a".lstrip(), "a  ".rstrip()

"a,b,c".split(","), "a b  c".split(), "a,b,c".split(",", 1), "a,b,c".rsplit(",", 1)

",".join(["a", "b"]), "".join("abc"), "-".join(str(i) for i in range(3))

"hello".replace("l", "L"), "hello".replace("l", "L", 1)

"hello".find("l"), "hello".rfind("l"), "hello".find("z"), "hello".index("e"), "hello".count("l")

"hello".startswith("he"), "hello".endswith(("lo", "x")), "hello".startswith("l", 2)

"abc".isalpha(), "123".isdigit(), "a1".isalnum(), " ".isspace(), "ABC".isupper(), "abc".islower(), "Ab".istitle()

"42".zfill(5), "-42".zfill(5), "a".center(5, "*"), "a".ljust(3, "."), "a".rjust(3, ".")

"a\nb\nc".splitlines(), "a\r\nb".splitlines(True)

"a=b=c".partition("="), "a=b=c".rpartition("="), "abc".partition("x")

"abc".translate(str.maketrans("ab", "xy")), "abc".translate(str.maketrans({"a": "1", "b": None}))

"ß".upper(), "ÀÉ".lower(), "ß".casefold(), "İ".lower()

"tab\there".expandtabs(4)

"prefix-body".removeprefix("prefix-"), "body.txt".removesuffix(".txt")

"{} {}".format(1, "a"), "{1} {0}".format("a", "b"), "{x}-{y:>4}".format(x=1, y=2)

"{0[a]} {1[0]}".format({"a": 1}, [9]), "{:,}".format(1234567), "{:08.3f}".format(3.14159)

"{!r} {!s}".format("a", "a"), "{{}}".format(), "{:>{w}}".format("a", w=5)

"{a} and {b}".format_map({"a": 1, "b": 2})

f"{1 + 1} {'a'!r} {3.14159:.2f} {42:05d} {255:#x} {1234567:,} {0.25:.1%}"

f"{'x':>5}|{'x':<5}|{'x':^5}|{'x':*^7}"

f"{10:b} {10:o} {10:x} {10:X} {10:e} {1e10:g} {12345.678:.3g} {5:+d} {-5: d}"

f"{'nested ' + f'{1 + 1}'}", f"{{literal}}", f"{1:{5}}", f"{3.14159:.{2}f}"

name = "W"; f"{name=} {1 + 1=}"

"abc" < "abd", "Z" < "a", "" < "a", "abc" == "abc"

"abc" "def"[1], "abc"[0] + "def"[-1]

list("abc"), tuple("ab"), set("aa"), sorted(set("banana"))

"hello world foo".split()[1][::-1]

[c for c in "hello" if c in "aeiou"]

{c: "banana".count(c) for c in sorted(set("banana"))}

" ".join(w.capitalize() for w in "the quick brown fox".split())

"racecar" == "racecar"[::-1]

"a-b_c d".replace("-", " ").replace("_", " ").split()

"%s is %d years and %.1f%% done" % ("X", 3, 99.5)

"%(a)s-%(b)03d" % {"a": "x", "b": 7}

"%5.1f|%-8s|%+d|%e" % (3.14159, "ab", 5, 12345.678)

"%r %s %c %o" % ("a", "a", "A", 8)

"line1\nline2".split("\n"), len("a\\b"), r"\n", "\x41\u00e9\N{BULLET}"

"abc".encode("utf-8").hex(), bytes.fromhex("616263").decode()

"x".isidentifier(), "1x".isidentifier(), "a b".isidentifier()

"12.5".replace(".", "").isdigit(), "½".isnumeric(), "²".isdigit(), "٣".isdecimal()

"mississippi".count("ss"), "aaa".count("aa"), "abc".count("")

"hello"[1:-1], "hello"[10:], "hello"[-100:2]

"a" * 0, "ab" * -1

"αβγ"[::-1], len("αβγ"), "日本語".find("本")

"snake_case_name".split("_"), "".join(p.title() for p in "snake_case_name".split("_"))

max("hello"), min("hello"), sorted("hello", key=lambda c: (-"hello".count(c), c))

"1,2;3".replace(";", ",").split(","), [int(x) for x in "1 2 3".split()]

str(b"ab"), repr(b"a\x00\xff'"), "a\0b", repr("\x7f\x80\u200b")

"{:>10}|{:<10}|{:^10}".format("r", "l", "c")

"{:d} {:5d} {:<5d}| {:05d} {:+d}".format(1, 2, 3, 4, 5)

"{:.3s}|{:5.1s}|".format("abcdef", "xyz")

"{:e} {:g} {:%} {:n}".format(1234.5, 0.00001, 0.5, 7)

"\t".join(["a", "b"]), "a\tb".split("\t"), "a  b".split(" ")

"Hello, World".casefold() == "hello, world", "a.b.c".rsplit(".", 2)
