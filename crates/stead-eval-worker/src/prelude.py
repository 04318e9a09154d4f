# What every evaluation finds besides the builtins. Names that begin with __ are ours: the gate lets no code say them.
import bisect as __stead_bisect
import collections as __stead_collections
import json as __stead_json
import math
import random as __stead_random
import tomllib as __stead_tomllib

__stead_value = None
vfs_reads = {}
# Names of the reference evaluator. Its `pow` is that of math; here `pow` is the builtin, which takes integers.
PI = math.pi
TAU = math.tau
E = math.e
pi = math.pi
e = math.e
acos = math.acos
acosh = math.acosh
asin = math.asin
asinh = math.asinh
atan = math.atan
atan2 = math.atan2
atanh = math.atanh
ceil = math.ceil
copysign = math.copysign
cos = math.cos
cosh = math.cosh
degrees = math.degrees
exp = math.exp
fabs = math.fabs
factorial = math.factorial
floor = math.floor
fmod = math.fmod
frexp = math.frexp
fsum = math.fsum
hypot = math.hypot
isinf = math.isinf
isnan = math.isnan
ldexp = math.ldexp
log = math.log
log10 = math.log10
log1p = math.log1p
modf = math.modf
radians = math.radians
sin = math.sin
sinh = math.sinh
sqrt = math.sqrt
tan = math.tan
tanh = math.tanh
trunc = math.trunc
__stead_given = {"PI": PI, "TAU": TAU, "E": E, "pi": pi, "e": e}
__stead_round = round
__stead_pow = pow


def write_text(path, content, mode="create"):
    __stead_write_text(path, content, mode)


class __stead_Deleted:
    pass


__stead_deleted = __stead_Deleted()


# A name that `del` takes anywhere in the code is read as `__stead_read(x, "x")`.
def __stead_read(value, name):
    if value is not __stead_deleted:
        return value
    if name in __stead_builtins:
        return __stead_builtins[name]
    raise NameError("name '" + name + "' is not defined")


def __stead_read_local(value, name):
    if value is not __stead_deleted:
        return value
    raise UnboundLocalError("cannot access local variable '" + name + "' where it is not associated with a value")


# What a name means again after `del` of a variable that hid it.
__stead_builtins = {
    "abs": abs, "all": all, "any": any, "bin": bin, "bool": bool, "bytes": bytes, "chr": chr, "complex": complex,
    "dict": dict, "divmod": divmod, "enumerate": enumerate, "filter": filter, "float": float, "format": format,
    "frozenset": frozenset, "hash": hash, "hex": hex, "id": id, "int": int, "isinstance": isinstance, "iter": iter,
    "len": len, "list": list, "map": map, "max": max, "min": min, "next": next, "oct": oct, "ord": ord,
    "print": print, "range": range, "repr": repr, "reversed": reversed, "set": set, "slice": slice,
    "sorted": sorted, "str": str, "sum": sum, "tuple": tuple, "type": type, "zip": zip,
}

# The interpreter's exceptions have one string. The arguments of the others are kept here, by class and message.
__stead_arguments = {}


def __stead_exception(kind, *arguments):
    if not arguments:
        return kind()
    if len(arguments) == 1 and type(arguments[0]) is str:
        return kind(arguments[0])
    if len(arguments) == 2 and kind in __stead_errnos:
        message = "[Errno " + str(arguments[0]) + "] " + str(arguments[1])
    else:
        message = str(arguments[0]) if len(arguments) == 1 else str(arguments)
    error = kind(message)
    __stead_arguments[(type(error).__name__, message)] = arguments
    return error


__stead_errnos = (OSError, FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)


def __stead_exception_arguments(error):
    given = error.args
    return __stead_arguments.get((type(error).__name__, given[0]), given) if given else given


# The interpreter's class of an exception is not equal to the builtin: `type(x)` reaches this as `__stead_type(x)`.
def __stead_type(x):
    return __stead_classes.get(type(x).__name__, type(x)) if isinstance(x, BaseException) else type(x)


__stead_classes = {
    "ArithmeticError": ArithmeticError, "AssertionError": AssertionError, "AttributeError": AttributeError,
    "BaseException": BaseException, "Exception": Exception, "FileExistsError": FileExistsError,
    "FileNotFoundError": FileNotFoundError, "IndexError": IndexError, "IsADirectoryError": IsADirectoryError,
    "KeyError": KeyError, "LookupError": LookupError, "MemoryError": MemoryError, "NameError": NameError,
    "NotADirectoryError": NotADirectoryError, "NotImplementedError": NotImplementedError, "OSError": OSError,
    "OverflowError": OverflowError, "PermissionError": PermissionError, "RecursionError": RecursionError,
    "RuntimeError": RuntimeError, "StopIteration": StopIteration, "SyntaxError": SyntaxError,
    "TimeoutError": TimeoutError, "TypeError": TypeError, "UnboundLocalError": UnboundLocalError,
    "ValueError": ValueError, "ZeroDivisionError": ZeroDivisionError,
}


def __stead_delete_item(of, at):
    if type(of) is list:
        if type(at) is int and not -len(of) <= at < len(of):
            raise IndexError("list assignment index out of range")
        of.pop(at)
    elif type(of) is dict or isinstance(of, dict):
        of.pop(at)
    else:
        raise TypeError("'" + type(of).__name__ + "' object doesn't support item deletion")


def __stead_delete_slice(of, lower, upper, step):
    if type(of) is not list:
        raise TypeError("'" + type(of).__name__ + "' object doesn't support item deletion")
    gone = set(range(len(of))[lower:upper:step])
    of[:] = [item for index, item in enumerate(of) if index not in gone]


def __stead_dump(names):
    texts = {}
    for name, value in names.items():
        if name.startswith("__") or name == "vfs_reads":
            continue
        if name in __stead_given and value is __stead_given[name]:
            continue
        try:
            texts[name] = __stead_json.dumps(value, allow_nan=False)
        except (TypeError, RecursionError):
            pass
        except ValueError:
            # A cycle, or a number that JSON does not have.
            try:
                __stead_json.dumps(value)
                texts[name] = None
            except ValueError:
                pass
    return texts


def __stead_fill(template, names):
    parts = template.split("{")
    filled = parts[0]
    for part in parts[1:]:
        name, closed, rest = part.partition("}")
        if closed and name in names and not name.startswith("__") and names[name] is not __stead_deleted:
            filled += str(names[name]) + rest
        else:
            filled += "{" + part
    return filled


def round(number, ndigits=None):
    # The decimal text of a float is exact, so its rounding is too.
    if type(number) is float and ndigits is not None and type(ndigits) is int and math.isfinite(number):
        if ndigits > 330:
            return number
        if ndigits >= 0:
            return float("%.*f" % (ndigits, number))
        if ndigits < -310:
            return math.copysign(0.0, number)
        unit = 10 ** -ndigits
        n, d = __stead_ratio(number)
        whole, rest = divmod(abs(n), d * unit)
        if 2 * rest > d * unit or (2 * rest == d * unit and whole % 2):
            whole += 1
        return math.copysign(float(whole * unit), number)
    if ndigits is None:
        return __stead_round(number)
    return __stead_round(number, ndigits)


def callable(object, /):
    return type(object) in __stead_callables


def ascii(object, /):
    text = ""
    for c in repr(object):
        n = ord(c)
        if n < 128:
            text += c
        elif n < 256:
            text += "\\x%02x" % n
        elif n < 65536:
            text += "\\u%04x" % n
        else:
            text += "\\U%08x" % n
    return text


__stead_callables = (type(len), type(ascii), type(read_text), type(int))


def __stead_ratio(x):
    if type(x) is not float:
        return int(x), 1
    m, e = math.frexp(x)
    n, e = int(m * 9007199254740992.0), e - 53
    if e >= 0:
        return n << e, 1
    if not n:
        return 0, 1
    # The lowest terms: the power of two that n shares with the denominator goes.
    shared = min(len(bin(n & -n)) - 3, -e)
    return n >> shared, 1 << (-e - shared)


def pow(base, exp, mod=None):
    if mod is None:
        return __stead_pow(base, exp)
    if type(exp) is int and exp < 0 and type(base) is int and type(mod) is int:
        a, b, x, y = base % mod, mod, 1, 0
        while b:
            a, b, x, y = b, a % b, y, x - a // b * y
        if a not in (1, -1):
            raise ValueError("base is not invertible for the given modulus")
        return __stead_pow(x * a % mod, -exp, mod)
    return __stead_pow(base, exp, mod)


# What the interpreter's numbers and strings do not have: `x.name(...)` reaches these as `__stead_call_name(x, ...)`.
def __stead_call_bit_length(x):
    return len(bin(abs(x))) - 2 if x and isinstance(x, int) else 0 if isinstance(x, int) else x.bit_length()


def __stead_call_bit_count(x):
    return bin(x).count("1") if isinstance(x, int) else x.bit_count()


def __stead_call_as_integer_ratio(x):
    if type(x) is float and not math.isfinite(x):
        if x == x:
            raise OverflowError("cannot convert Infinity to integer ratio")
        raise ValueError("cannot convert NaN to integer ratio")
    return __stead_ratio(x) if isinstance(x, (int, float)) else x.as_integer_ratio()


def __stead_call_is_integer(x):
    if type(x) is float:
        return math.isfinite(x) and x == math.floor(x)
    return x.is_integer()


def __stead_call_conjugate(x):
    return x if isinstance(x, (int, float)) else complex(x.real, -x.imag)


def __stead_call_format_map(x, mapping):
    return x.format(**mapping) if type(x) is str else x.format_map(mapping)


def __stead_call_maketrans(x, a, b=None, c=None):
    if x is not str:
        return x.maketrans(a, b, c)
    if b is None:
        return {ord(k) if type(k) is str else k: v for k, v in a.items()}
    if len(a) != len(b):
        raise ValueError("the first two maketrans arguments must have equal length")
    table = {ord(x): ord(y) for x, y in zip(a, b)}
    for x in c or "":
        table[ord(x)] = None
    return table


def __stead_call_translate(x, table):
    if type(x) is not str:
        return x.translate(table)
    out = []
    for c in x:
        to = table.get(ord(c), c)
        if to is not None:
            out.append(chr(to) if type(to) is int else to)
    return "".join(out)


# A method that is not called at once: `x.name` reaches this as `__stead_attribute(x, "name")`.
__stead_plain = (str, list, dict, set, tuple, frozenset, bytes)
__stead_parts = {
    "real": lambda x: +x,
    "imag": lambda x: 0 * x if type(x) is float else 0,
    "numerator": lambda x: int(x),
    "denominator": lambda x: 1,
}


def __stead_attribute(x, name):
    if name == "args" and isinstance(x, BaseException):
        return __stead_exception_arguments(x)
    if type(x) in (int, bool, float) and name in __stead_parts:
        return __stead_parts[name](x)
    if type(x) is type(int) and x in __stead_plain:
        if name == "fromkeys":
            return lambda *a: x.fromkeys(*a)
        if name == "maketrans":
            return lambda *a: __stead_call_maketrans(x, *a)
        call = __stead_methods.get(name)
        return __stead_getattr(x, name) if call is None else call
    if type(x) in __stead_plain:
        call = __stead_methods.get(name)
        if call is not None:
            return lambda *a, **k: call(x, *a, **k)
    return __stead_getattr(x, name)


__stead_getattr = getattr
__stead_methods = {
    "append": lambda x, *a, **k: x.append(*a, **k),
    "extend": lambda x, *a, **k: x.extend(*a, **k),
    "insert": lambda x, *a, **k: x.insert(*a, **k),
    "remove": lambda x, *a, **k: x.remove(*a, **k),
    "pop": lambda x, *a, **k: x.pop(*a, **k),
    "clear": lambda x, *a, **k: x.clear(*a, **k),
    "index": lambda x, *a, **k: x.index(*a, **k),
    "count": lambda x, *a, **k: x.count(*a, **k),
    "sort": lambda x, *a, **k: x.sort(*a, **k),
    "reverse": lambda x, *a, **k: x.reverse(*a, **k),
    "copy": lambda x, *a, **k: x.copy(*a, **k),
    "get": lambda x, *a, **k: x.get(*a, **k),
    "keys": lambda x, *a, **k: x.keys(*a, **k),
    "values": lambda x, *a, **k: x.values(*a, **k),
    "items": lambda x, *a, **k: x.items(*a, **k),
    "setdefault": lambda x, *a, **k: x.setdefault(*a, **k),
    "update": lambda x, *a, **k: x.update(*a, **k),
    "popitem": lambda x, *a, **k: x.popitem(*a, **k),
    "add": lambda x, *a, **k: x.add(*a, **k),
    "discard": lambda x, *a, **k: x.discard(*a, **k),
    "union": lambda x, *a, **k: x.union(*a, **k),
    "intersection": lambda x, *a, **k: x.intersection(*a, **k),
    "difference": lambda x, *a, **k: x.difference(*a, **k),
    "symmetric_difference": lambda x, *a, **k: x.symmetric_difference(*a, **k),
    "issubset": lambda x, *a, **k: x.issubset(*a, **k),
    "issuperset": lambda x, *a, **k: x.issuperset(*a, **k),
    "isdisjoint": lambda x, *a, **k: x.isdisjoint(*a, **k),
    "upper": lambda x, *a, **k: x.upper(*a, **k),
    "lower": lambda x, *a, **k: x.lower(*a, **k),
    "title": lambda x, *a, **k: x.title(*a, **k),
    "capitalize": lambda x, *a, **k: x.capitalize(*a, **k),
    "swapcase": lambda x, *a, **k: x.swapcase(*a, **k),
    "casefold": lambda x, *a, **k: x.casefold(*a, **k),
    "strip": lambda x, *a, **k: x.strip(*a, **k),
    "lstrip": lambda x, *a, **k: x.lstrip(*a, **k),
    "rstrip": lambda x, *a, **k: x.rstrip(*a, **k),
    "split": lambda x, *a, **k: x.split(*a, **k),
    "rsplit": lambda x, *a, **k: x.rsplit(*a, **k),
    "splitlines": lambda x, *a, **k: x.splitlines(*a, **k),
    "join": lambda x, *a, **k: x.join(*a, **k),
    "replace": lambda x, *a, **k: x.replace(*a, **k),
    "find": lambda x, *a, **k: x.find(*a, **k),
    "rfind": lambda x, *a, **k: x.rfind(*a, **k),
    "rindex": lambda x, *a, **k: x.rindex(*a, **k),
    "startswith": lambda x, *a, **k: x.startswith(*a, **k),
    "endswith": lambda x, *a, **k: x.endswith(*a, **k),
    "isalpha": lambda x, *a, **k: x.isalpha(*a, **k),
    "isdigit": lambda x, *a, **k: x.isdigit(*a, **k),
    "isalnum": lambda x, *a, **k: x.isalnum(*a, **k),
    "isspace": lambda x, *a, **k: x.isspace(*a, **k),
    "isupper": lambda x, *a, **k: x.isupper(*a, **k),
    "islower": lambda x, *a, **k: x.islower(*a, **k),
    "istitle": lambda x, *a, **k: x.istitle(*a, **k),
    "isnumeric": lambda x, *a, **k: x.isnumeric(*a, **k),
    "isdecimal": lambda x, *a, **k: x.isdecimal(*a, **k),
    "isidentifier": lambda x, *a, **k: x.isidentifier(*a, **k),
    "zfill": lambda x, *a, **k: x.zfill(*a, **k),
    "center": lambda x, *a, **k: x.center(*a, **k),
    "ljust": lambda x, *a, **k: x.ljust(*a, **k),
    "rjust": lambda x, *a, **k: x.rjust(*a, **k),
    "partition": lambda x, *a, **k: x.partition(*a, **k),
    "rpartition": lambda x, *a, **k: x.rpartition(*a, **k),
    "encode": lambda x, *a, **k: x.encode(*a, **k),
    "decode": lambda x, *a, **k: x.decode(*a, **k),
    "format": lambda x, *a, **k: x.format(*a, **k),
    "expandtabs": lambda x, *a, **k: x.expandtabs(*a, **k),
    "removeprefix": lambda x, *a, **k: x.removeprefix(*a, **k),
    "removesuffix": lambda x, *a, **k: x.removesuffix(*a, **k),
    "translate": __stead_call_translate,
    "hex": lambda x, *a, **k: x.hex(*a, **k),
}
