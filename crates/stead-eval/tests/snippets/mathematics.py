math.pi, math.e, math.tau, math.inf, math.nan

math.sqrt(2), math.sqrt(16), math.isqrt(17), math.cbrt(8)

math.floor(2.7), math.floor(-2.7), math.ceil(2.1), math.ceil(-2.1), math.trunc(-2.7)

math.sin(1), math.cos(1), math.tan(1), math.sin(math.pi)

math.asin(0.5), math.acos(0.5), math.atan(1), math.atan2(1, -1)

math.sinh(1), math.cosh(1), math.tanh(1), math.asinh(1), math.acosh(2), math.atanh(0.5)

math.exp(1), math.expm1(1e-10), math.exp2(10)

math.log(10), math.log(8, 2), math.log2(8), math.log10(1000), math.log1p(1e-10)

math.pow(2, 0.5), math.fabs(-3), math.fmod(-7, 3), math.remainder(7, 2), math.modf(3.25)

math.factorial(20), math.comb(10, 3), math.perm(5, 2), math.gcd(12, 18), math.lcm(4, 6)

math.hypot(3, 4), math.dist([0, 0], [3, 4]), math.copysign(3, -0.0)

math.degrees(math.pi), math.radians(180)

math.isnan(math.nan), math.isinf(math.inf), math.isfinite(1), math.isclose(0.1 + 0.2, 0.3)

math.fsum([0.1] * 10), math.prod([1, 2, 3, 4])

math.gamma(5), math.lgamma(1), math.erf(0.5), math.erfc(0.5)

math.frexp(8.5), math.ldexp(0.5, 4), math.ulp(1.0), math.nextafter(1.0, 2.0)

math.gcd(0, 5), math.gcd(), math.prod([]), math.fsum([])

[round(math.sin(x / 4), 6) for x in range(5)]

math.factorial(30) // math.factorial(28)

math.factorial(-1)

math.factorial(2.5)

math.floor(float("nan"))

math.ceil(float("inf"))

math.comb(3, 5), math.comb(0, 0)

math.pow(0, -1)

math.exp(1000)

int(1e20), int(float(2 ** 53)), 2 ** 53 + 1.0

10 ** 30 // 7, -10 ** 30 // 7, 10 ** 30 % 7, (10 ** 30) / 7

0.1 * 3, 1 / 3, 2 / 3, 1e308 * 10, -1e308 * 10

5 // 0.3, 5 % 0.3, -5 // 3, -5 % 3

(-8) ** (1 / 3)

2 ** 0.5 * 2 ** 0.5 == 2

1e-320, 5e-324, 1.7976931348623157e308

100 ** 0.5, 27 ** (1 / 3), 4 ** -0.5

float(10 ** 20), 10 ** 20 == 1e20, 10 ** 23 == 1e23

sum(1 / n ** 2 for n in range(1, 1000))

[n for n in range(2, 50) if all(n % d for d in range(2, int(n ** 0.5) + 1))]
