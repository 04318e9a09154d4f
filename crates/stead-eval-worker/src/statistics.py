# The statistics module: the same names, results and sentences as CPython's, exact where that is exact.
__stead_Error = __stead_tomllib.TOMLDecodeError
__stead_LinearRegression = __stead_collections.namedtuple("LinearRegression", ("slope", "intercept"))


def __stead_exact(data):
    # Sum, sum of squares (both over one power of two), count, kind, and what is not finite.
    items = list(data)
    kind = int
    pairs = []
    strange = None
    for x in items:
        t = type(x)
        if t is float:
            kind = float
            if not math.isfinite(x):
                strange = x if strange is None else strange + x
                continue
            pairs.append(__stead_ratio(x))
        elif t is int or t is bool:
            pairs.append((int(x), 1))
        else:
            raise TypeError("can't convert type '" + t.__name__ + "' to numerator/denominator")
    bottom = 1
    for n, d in pairs:
        if d > bottom:
            bottom = d
    sx = 0
    sxx = 0
    for n, d in pairs:
        n = n * (bottom // d)
        sx += n
        sxx += n * n
    return sx, sxx, bottom, len(items), kind, strange


def __stead_number(n, d, kind):
    g = math.gcd(n, d)
    if g > 1:
        n //= g
        d //= g
    if kind is int and d == 1:
        return n
    return __stead_divide(n, d)


def __stead_divide(n, d):
    # The nearest float to n / d, ties to even.
    if n == 0:
        return 0.0
    sign = -1.0 if (n < 0) != (d < 0) else 1.0
    n = abs(n)
    d = abs(d)
    shift = __stead_bits(n) - __stead_bits(d) - 55
    if shift < -1130:
        shift = -1130
    if shift >= 0:
        q, r = divmod(n, d << shift)
    else:
        q, r = divmod(n << -shift, d)
    # 55 or 56 bits and a sticky one: fewer below the smallest normal number.
    extra = max(__stead_bits(q) - 53, -1074 - shift)
    if extra > 0:
        half = 1 << (extra - 1)
        rest = q & ((1 << extra) - 1)
        q >>= extra
        shift += extra
        if rest > half or (rest == half and (r or q & 1)):
            q += 1
    if __stead_bits(q) + shift > 1024:
        raise OverflowError("integer division result too large for a float")
    return sign * math.ldexp(float(q), shift)


def __stead_bits(n):
    return len(bin(n)) - 2


def __stead_root(n, m):
    # The nearest float to the square root of n / m.
    if n == 0:
        return 0.0
    q = (__stead_bits(n) - __stead_bits(m) - 109) // 2
    if q >= 0:
        a = math.isqrt(n // (m << 2 * q))
        a |= a * a * (m << 2 * q) != n
        return __stead_divide(a << q, 1)
    a = math.isqrt((n << -2 * q) // m)
    a |= a * a * m != (n << -2 * q)
    return __stead_divide(a, 1 << -q)


def __stead_squares(data, center):
    # The sum of squared deviations as a fraction, with count, kind, mean and what is not finite.
    if center is not None:
        parts = []
        for x in data:
            d = x - center
            parts.append(d * d)
        sx, sxx, bottom, count, kind, strange = __stead_exact(parts)
        return sx, bottom, count, kind, strange, center
    sx, sxx, bottom, count, kind, strange = __stead_exact(data)
    if not count:
        return 0, 1, 0, kind, strange, 0
    return count * sxx - sx * sx, bottom * bottom * count, count, kind, strange, (sx, bottom * count)


def __stead_mean(data):
    sx, sxx, bottom, count, kind, strange = __stead_exact(data)
    if count < 1:
        raise __stead_Error("mean requires at least one data point")
    if strange is not None:
        return strange / count
    return __stead_number(sx, bottom * count, kind)


def __stead_fmean(data, weights=None):
    data = list(data)
    if weights is None:
        total = math.fsum(data)
        if not data:
            raise __stead_Error("fmean requires at least one data point")
        return total / len(data)
    weights = list(weights)
    num = math.fsum([x * w for x, w in zip(data, weights)])
    if len(data) != len(weights):
        raise __stead_Error("data and weights must be the same length")
    den = math.fsum(weights)
    if not den:
        raise __stead_Error("sum of weights must be non-zero")
    return num / den


def __stead_geometric_mean(data):
    try:
        return math.exp(__stead_fmean([math.log(x) for x in data]))
    except ValueError:
        problem = True
    if problem:
        raise __stead_Error("geometric mean requires a non-empty dataset containing positive numbers")


def __stead_harmonic_mean(data, weights=None):
    data = list(data)
    sentence = "harmonic mean does not support negative values"
    n = len(data)
    if n < 1:
        raise __stead_Error("harmonic_mean requires at least one data point")
    if n == 1 and weights is None:
        x = data[0]
        if type(x) not in (int, float, bool):
            raise TypeError("unsupported type")
        if x < 0:
            raise __stead_Error(sentence)
        return x
    if weights is None:
        weights = [1] * n
        top, under = n, 1
    else:
        weights = list(weights)
        if len(weights) != n:
            raise __stead_Error("Number of weights does not match data size")
        for w in weights:
            if w < 0:
                raise __stead_Error(sentence)
        top, sxx, under, count, kind, strange = __stead_exact(weights)
    parts = []
    for w, x in zip(weights, data):
        if x < 0:
            raise __stead_Error(sentence)
        if w and not x:
            return 0
        parts.append(w / x if w else 0)
    sx, sxx, bottom, count, kind, strange = __stead_exact(parts)
    if strange is None and sx <= 0:
        raise __stead_Error("Weighted sum must be positive")
    if strange is not None:
        return (top / under) / strange
    return __stead_number(top * bottom, under * sx, kind)


def __stead_sorted(data):
    data = sorted(data)
    if not data:
        raise __stead_Error("no median for empty data")
    return data


def __stead_median(data):
    data = __stead_sorted(data)
    i = len(data) // 2
    if len(data) % 2 == 1:
        return data[i]
    return (data[i - 1] + data[i]) / 2


def __stead_median_low(data):
    data = __stead_sorted(data)
    return data[(len(data) - 1) // 2]


def __stead_median_high(data):
    data = __stead_sorted(data)
    return data[len(data) // 2]


def __stead_median_grouped(data, interval=1.0):
    data = __stead_sorted(data)
    n = len(data)
    x = data[n // 2]
    i = __stead_bisect.bisect_left(data, x)
    j = __stead_bisect.bisect_right(data, x, lo=i)
    bad = False
    try:
        interval = float(interval)
        x = float(x)
    except ValueError:
        bad = True
    if bad:
        raise TypeError("Value cannot be converted to a float")
    return x - interval / 2.0 + interval * (n / 2 - i) / (j - i)


def __stead_counts(data):
    counts = {}
    for x in data:
        counts[x] = counts.get(x, 0) + 1
    return counts


def __stead_mode(data):
    counts = __stead_counts(data)
    if not counts:
        raise __stead_Error("no mode for empty data")
    most = max(counts.values())
    for x, count in counts.items():
        if count == most:
            return x


def __stead_multimode(data):
    counts = __stead_counts(data)
    if not counts:
        return []
    most = max(counts.values())
    return [x for x, count in counts.items() if count == most]


def __stead_quantiles(data, *, n=4, method="exclusive"):
    if n < 1:
        raise __stead_Error("n must be at least 1")
    data = sorted(data)
    ld = len(data)
    if ld < 2:
        raise __stead_Error("must have at least two data points")
    result = []
    if method == "inclusive":
        for i in range(1, n):
            j, delta = divmod(i * (ld - 1), n)
            result.append((data[j] * (n - delta) + data[j + 1] * delta) / n)
        return result
    if method == "exclusive":
        for i in range(1, n):
            j = min(max(i * (ld + 1) // n, 1), ld - 1)
            delta = i * (ld + 1) - j * n
            result.append((data[j - 1] * (n - delta) + data[j] * delta) / n)
        return result
    raise ValueError("Unknown method: " + repr(method))


def __stead_variance(data, xbar=None):
    top, under, n, kind, strange, mean = __stead_squares(data, xbar)
    if n < 2:
        raise __stead_Error("variance requires at least two data points")
    if strange is not None:
        return strange / (n - 1)
    return __stead_number(top, under * (n - 1), kind)


def __stead_pvariance(data, mu=None):
    top, under, n, kind, strange, mean = __stead_squares(data, mu)
    if n < 1:
        raise __stead_Error("pvariance requires at least one data point")
    if strange is not None:
        return strange / n
    return __stead_number(top, under * n, kind)


def __stead_stdev(data, xbar=None):
    top, under, n, kind, strange, mean = __stead_squares(data, xbar)
    if n < 2:
        raise __stead_Error("stdev requires at least two data points")
    if strange is not None:
        raise AttributeError("'float' object has no attribute 'numerator'")
    return __stead_root(top, under * (n - 1))


def __stead_pstdev(data, mu=None):
    top, under, n, kind, strange, mean = __stead_squares(data, mu)
    if n < 1:
        raise __stead_Error("pstdev requires at least one data point")
    if strange is not None:
        raise AttributeError("'float' object has no attribute 'numerator'")
    return __stead_root(top, under * n)


def __stead_pairs(x, y, what):
    n = len(x)
    if len(y) != n:
        raise __stead_Error(what + " requires that both inputs have same number of data points")
    if n < 2:
        raise __stead_Error(what + " requires at least two data points")
    return n


def __stead_covariance(x, y, /):
    n = __stead_pairs(x, y, "covariance")
    xbar = math.fsum(x) / n
    ybar = math.fsum(y) / n
    return math.fsum([(a - xbar) * (b - ybar) for a, b in zip(x, y)]) / (n - 1)


def __stead_correlation(x, y, /):
    n = __stead_pairs(x, y, "correlation")
    xbar = math.fsum(x) / n
    ybar = math.fsum(y) / n
    sxy = math.fsum([(a - xbar) * (b - ybar) for a, b in zip(x, y)])
    sxx = math.fsum([(a - xbar) * (a - xbar) for a in x])
    syy = math.fsum([(b - ybar) * (b - ybar) for b in y])
    root = math.sqrt(sxx * syy)
    if not root:
        raise __stead_Error("at least one of the inputs is constant")
    return sxy / root


def __stead_linear_regression(x, y, /, *, proportional=False):
    n = __stead_pairs(x, y, "linear regression")
    if proportional:
        sxy = math.fsum([a * b for a, b in zip(x, y)])
        sxx = math.fsum([a * a for a in x])
    else:
        xbar = math.fsum(x) / n
        ybar = math.fsum(y) / n
        sxy = math.fsum([(a - xbar) * (b - ybar) for a, b in zip(x, y)])
        sxx = math.fsum([(a - xbar) * (a - xbar) for a in x])
    if not sxx:
        raise __stead_Error("x is constant")
    slope = sxy / sxx
    intercept = 0.0 if proportional else ybar - slope * xbar
    return __stead_LinearRegression(slope, intercept)


# Algorithm AS241 (Wichura, 1988): numerators and denominators of the three ranges, highest power first.
__stead_AS241 = (
    (
        (2.50908092873012267270e3, 3.34305755835881281050e4, 6.72657709270087008530e4, 4.59219539315498714570e4,
         1.37316937655094611250e4, 1.97159095030655144270e3, 1.33141667891784377450e2, 3.38713287279636660800e0),
        (5.22649527885285456100e3, 2.87290857357219426740e4, 3.93078958000927106100e4, 2.12137943015865958670e4,
         5.39419602142475110770e3, 6.87187007492057908300e2, 4.23133307016009112520e1, 1.0),
    ),
    (
        (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0,
         3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0),
        (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
         6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0),
    ),
    (
        (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
         2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0, 6.65790464350110377720e0),
        (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
         1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0),
    ),
)


def __stead_horner(powers, r):
    value = powers[0]
    for power in powers[1:]:
        value = value * r + power
    return value


def __stead_inv_cdf(p, mu, sigma):
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        num, den = __stead_AS241[0]
        return mu + (__stead_horner(num, r) * q / __stead_horner(den, r)) * sigma
    r = math.sqrt(-math.log(p if q <= 0.0 else 1.0 - p))
    num, den = __stead_AS241[1] if r <= 5.0 else __stead_AS241[2]
    r = r - 1.6 if r <= 5.0 else r - 5.0
    x = __stead_horner(num, r) / __stead_horner(den, r)
    return mu + ((-x if q < 0.0 else x) * sigma)


class NormalDist:
    def __init__(self, mu=0.0, sigma=1.0):
        if sigma < 0.0:
            raise __stead_Error("sigma must be non-negative")
        self.mean = self.median = self.mode = float(mu)
        self.stdev = float(sigma)
        self.variance = self.stdev * self.stdev

    def samples(self, n, *, seed=None):
        gauss = __stead_random.gauss if seed is None else __stead_random.Random(seed).gauss
        return [gauss(self.mean, self.stdev) for i in range(n)]

    def pdf(self, x):
        if not self.variance:
            raise __stead_Error("pdf() not defined when sigma is zero")
        diff = x - self.mean
        return math.exp(diff * diff / (-2.0 * self.variance)) / math.sqrt(math.tau * self.variance)

    def cdf(self, x):
        if not self.stdev:
            raise __stead_Error("cdf() not defined when sigma is zero")
        return 0.5 * (1.0 + math.erf((x - self.mean) / (self.stdev * math.sqrt(2.0))))

    def inv_cdf(self, p):
        if p <= 0.0 or p >= 1.0:
            raise __stead_Error("p must be in the range 0.0 < p < 1.0")
        if self.stdev <= 0.0:
            raise __stead_Error("cdf() not defined when sigma at or below zero")
        return __stead_inv_cdf(p, self.mean, self.stdev)

    def quantiles(self, n=4):
        return [self.inv_cdf(i / n) for i in range(1, n)]

    def overlap(self, other):
        if not isinstance(other, NormalDist):
            raise TypeError("Expected another NormalDist instance")
        x, y = self, other
        if (y.stdev, y.mean) < (x.stdev, x.mean):
            x, y = y, x
        if not x.variance or not y.variance:
            raise __stead_Error("overlap() not defined when sigma is zero")
        dv = y.variance - x.variance
        dm = abs(y.mean - x.mean)
        if not dv:
            return 1.0 - math.erf(dm / (2.0 * x.stdev * math.sqrt(2.0)))
        a = x.mean * y.variance - y.mean * x.variance
        b = x.stdev * y.stdev * math.sqrt(dm * dm + dv * math.log(y.variance / x.variance))
        x1 = (a + b) / dv
        x2 = (a - b) / dv
        return 1.0 - (abs(y.cdf(x1) - x.cdf(x1)) + abs(y.cdf(x2) - x.cdf(x2)))

    def zscore(self, x):
        if not self.stdev:
            raise __stead_Error("zscore() not defined when sigma is zero")
        return (x - self.mean) / self.stdev

    def __add__(self, other):
        if isinstance(other, NormalDist):
            return NormalDist(self.mean + other.mean, math.hypot(self.stdev, other.stdev))
        return NormalDist(self.mean + other, self.stdev)

    def __radd__(self, other):
        return self + other

    def __sub__(self, other):
        if isinstance(other, NormalDist):
            return NormalDist(self.mean - other.mean, math.hypot(self.stdev, other.stdev))
        return NormalDist(self.mean - other, self.stdev)

    def __rsub__(self, other):
        return -(self - other)

    def __mul__(self, other):
        return NormalDist(self.mean * other, self.stdev * abs(other))

    def __rmul__(self, other):
        return self * other

    def __truediv__(self, other):
        return NormalDist(self.mean / other, self.stdev / abs(other))

    def __pos__(self):
        return NormalDist(self.mean, self.stdev)

    def __neg__(self):
        return NormalDist(-self.mean, self.stdev)

    def __eq__(self, other):
        if not isinstance(other, NormalDist):
            return NotImplemented
        return self.mean == other.mean and self.stdev == other.stdev

    def __hash__(self):
        return hash((self.mean, self.stdev))

    def __repr__(self):
        return "NormalDist(mu=" + repr(self.mean) + ", sigma=" + repr(self.stdev) + ")"


def __stead_from_samples(data):
    top, under, n, kind, strange, mean = __stead_squares(data, None)
    if n < 2:
        raise __stead_Error("stdev requires at least two data points")
    return NormalDist(__stead_divide(mean[0], mean[1]), __stead_root(top, under * (n - 1)))


NormalDist.from_samples = __stead_from_samples
__stead_NormalDist = NormalDist


class statistics:
    NormalDist = __stead_NormalDist
    StatisticsError = __stead_Error
    LinearRegression = __stead_LinearRegression
    mean = __stead_mean
    fmean = __stead_fmean
    geometric_mean = __stead_geometric_mean
    harmonic_mean = __stead_harmonic_mean
    median = __stead_median
    median_low = __stead_median_low
    median_high = __stead_median_high
    median_grouped = __stead_median_grouped
    mode = __stead_mode
    multimode = __stead_multimode
    quantiles = __stead_quantiles
    variance = __stead_variance
    pvariance = __stead_pvariance
    stdev = __stead_stdev
    pstdev = __stead_pstdev
    covariance = __stead_covariance
    correlation = __stead_correlation
    linear_regression = __stead_linear_regression
