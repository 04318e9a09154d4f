a = [1, 2]; a.append(3); a.extend([4, 5]); a.insert(0, 0); a

a = [3, 1, 2]; a.sort(); a.reverse(); a

a = [1, 2, 3, 2]; a.remove(2); (a, a.index(3), a.count(2))

a = [1, 2, 3]; (a.pop(), a.pop(0), a)

a = [1, 2, 3]; b = a.copy(); b.clear(); (a, b)

a = [1, 2, 3, 4]; a[1:3] = [9]; a

a = [1, 2, 3, 4]; del a[0]; del a[-1]; a

a = list(range(10)); del a[2:5]; del a[::2]; a

a = [5, 3, 8]; a.sort(key=lambda x: -x); a

a = [[0] * 2 for _ in range(2)]; a[0][0] = 1; a

a = b = [1]; a += [2]; b

a, b = 1, 2; a, b = b, a; (a, b)

a, *b, c = range(5); (a, b, c)

(a, b), c = (1, 2), 3; (a, b, c)

d = {"a": 1}; d["b"] = 2; d.update(c=3); d

d = {"a": 1, "b": 2}; (d.get("a"), d.get("z"), d.get("z", 0))

d = {"a": 1, "b": 2}; (list(d.keys()), list(d.values()), list(d.items()))

d = {"a": 1}; (d.setdefault("a", 9), d.setdefault("b", 9), d)

d = {"a": 1, "b": 2}; (d.pop("a"), d.pop("z", None), d)

d = {"a": 1, "b": 2}; del d["a"]; d

d = {1: "x", 2: "y"}; {v: k for k, v in d.items()}

dict([("a", 1), ("b", 2)]), dict(a=1), dict(zip("ab", [1, 2])), dict.fromkeys("ab", 0)

{"a": 1} | {"b": 2}, {"a": 1} == {"a": 1}

d = {"b": 1, "a": 2}; (sorted(d), sorted(d.items(), key=lambda kv: kv[1]), list(reversed(list(d))))

d = {}; d.setdefault("k", []).append(1); d

d = {"a": {"b": [1, 2, {"c": 3}]}}; d["a"]["b"][2]["c"]

d = {"a": 1, "b": 2}; d.popitem(), d

d = {"a": 1}; "a" in d, "z" in d, len(d), bool(d)

s = {1, 2}; s.add(3); s.discard(9); s.remove(1); sorted(s)

{1, 2} | {3}, {1, 2} & {2, 3}, {1, 2} - {2}, {1, 2} ^ {2, 3}

{1, 2}.union([3]), {1, 2}.intersection([2]), {1, 2}.difference([2]), {1}.issubset({1, 2}), {1, 2}.issuperset({1}), {1}.isdisjoint({2})

s = {1}; s.update([2, 3]); s.clear(); s

frozenset([1, 2]) & {2}, len(frozenset("aab"))

t = (1, 2, 3); (t.index(2), t.count(3), t[0], t[-1], t + (4,), t * 2)

[x ** 2 for x in range(5)], [x for x in range(10) if x % 2], [(x, y) for x in range(2) for y in "ab"]

{x: x * x for x in range(3)}, {x % 3 for x in range(10)}

[[j for j in range(i)] for i in range(4)]

[x if x > 2 else -x for x in range(5)]

sum(x * x for x in range(10)), max(len(w) for w in ["a", "bbb"]), list(x + 1 for x in [1, 2])

[y for x in [[1, 2], [3]] for y in x]

matrix = [[1, 2, 3], [4, 5, 6]]; [list(r) for r in zip(*matrix)]

list(zip([1, 2], [3, 4], [5, 6])), dict(enumerate("ab"))

r = range(0, 10, 3); (list(r), len(r), r[1], 6 in r, r[-1], r)

words = ["x", "y", "x"]; counts = {}; [counts.update({w: counts.get(w, 0) + 1}) for w in words]; counts

sorted([{"n": 2}, {"n": 1}], key=lambda d: d["n"])

sorted([(1, "b"), (1, "a"), (0, "c")]), sorted([1, 2, 3], key=lambda x: -x)

[1, 2, 3] == [1, 2, 3], [1, 2] < [1, 3], [1] != [2]

any(x > 2 for x in [1, 2, 3]), all(x > 0 for x in [1, 2, 3])

list(filter(lambda x: x % 2 == 0, range(6))), [*map(str, [1, 2])]

a = [1, 2, 3]; a[0], a[2] = a[2], a[0]; a

x = [1, [2, [3, [4]]]]; x[1][1][1][0]

a = []; a.append(a[:]); a

a = [0] * 5; a[1:4] = [1, 2, 3]; a[::2], a

d = {(1, 2): "t", "s": None, 3.5: True}; d

d = {"x": 1}; e = d.copy(); e["x"] = 2; (d, e)

list({"a": 1}), list({"a": 1}.items())[0], tuple({"k": "v"})

a = [3, 1, 2]; (sorted(a), a, a.sort(), a)

s = sorted({"b", "a"} | {"c"}); s

nums = [4, 8, 15, 16, 23, 42]; (nums[len(nums) // 2], sum(nums) / len(nums), nums[1:-1])
