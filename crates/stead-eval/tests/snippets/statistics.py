statistics.mean([1, 2, 3, 4]), statistics.mean([1, 2, 3]), statistics.mean([1.5, 2.5, 4.0])

statistics.mean([0.1] * 10), statistics.mean([1e100, 1.0, -1e100]), statistics.mean([True, False, True])

statistics.mean([10 ** 30, 10 ** 30 + 2]), statistics.mean([1, 2.5]), statistics.mean(range(1, 101))

statistics.mean(x * x for x in range(5)), statistics.mean({"a": 1}.values()), statistics.mean((3,))

statistics.mean([])

statistics.mean(["a", "b"])

statistics.mean([float("inf"), 1]), statistics.mean([float("nan"), 1])

statistics.fmean([3.5, 4.0, 5.25]), statistics.fmean([1, 2, 3]), statistics.fmean([1, 2, 3], [1, 0, 3])

statistics.fmean([])

statistics.fmean([1, 2], [1])

statistics.fmean([1, 2], [0, 0])

round(statistics.geometric_mean([54, 24, 36]), 9), statistics.geometric_mean([1.0])

statistics.geometric_mean([])

statistics.geometric_mean([0, 1])

statistics.harmonic_mean([40, 60]), statistics.harmonic_mean([2.5, 3, 10]), statistics.harmonic_mean([5]), statistics.harmonic_mean([0, 1])

statistics.harmonic_mean([40, 60], weights=[5, 30]), statistics.harmonic_mean([1, 2, 4])

statistics.harmonic_mean([])

statistics.harmonic_mean([-1, 2])

statistics.harmonic_mean([1, 2], weights=[1])

statistics.median([1, 3, 5]), statistics.median([1, 3, 5, 7]), statistics.median([2.5, 1]), statistics.median(["a", "c", "b"])

statistics.median_low([1, 3, 5, 7]), statistics.median_high([1, 3, 5, 7]), statistics.median_low([1, 2, 3])

statistics.median([])

statistics.median_low([])

statistics.median_high([])

statistics.median_grouped([52, 52, 53, 54]), statistics.median_grouped([1, 3, 3, 5, 7], interval=2), statistics.median_grouped([1, 2, 2, 3, 4, 4, 4, 4, 4, 5])

statistics.median_grouped([])

statistics.mode([1, 1, 2, 3]), statistics.mode(["red", "blue", "blue"]), statistics.mode("abca"), statistics.mode([3, 1])

statistics.mode([])

statistics.multimode("aabbbbccddddeeffffgg"), statistics.multimode([1, 2]), statistics.multimode([])

statistics.quantiles([1, 2, 3, 4, 5]), statistics.quantiles([1, 2, 3, 4, 5], n=10), statistics.quantiles([1, 2, 3, 4], method="inclusive")

statistics.quantiles([105, 129, 87, 86, 111, 111, 89, 81, 108, 92, 110], n=4), statistics.quantiles([0.5, 1.5], n=3)

statistics.quantiles([1])

statistics.quantiles([1, 2], n=0)

statistics.quantiles([1, 2], method="other")

statistics.variance([2.75, 1.75, 1.25, 0.25, 0.5, 1.25, 3.5]), statistics.variance([1, 2, 3, 4]), statistics.variance([1, 2, 3, 4, 5])

statistics.variance([1, 2, 3], 2), statistics.variance([27.5, 30.25, 30.25, 34.5, 41.75]), statistics.variance([0.1, 0.2, 0.30000000000000004])

statistics.variance([1])

statistics.pvariance([0.0, 0.25, 0.25, 1.25, 1.5, 1.75, 2.75, 3.25]), statistics.pvariance([1, 2, 3]), statistics.pvariance([1, 2, 3, 4], 2.5), statistics.pvariance([5])

statistics.pvariance([])

statistics.stdev([1.5, 2.5, 2.5, 2.75, 3.25, 4.75]), statistics.stdev([1, 2, 3, 4]), statistics.stdev([10 ** 20, 10 ** 20 + 1]), statistics.stdev([0.1, 0.3])

statistics.stdev([1])

statistics.stdev([2, 2, 2]), statistics.pstdev([1.5, 2.5, 2.5, 2.75, 3.25, 4.75]), statistics.pstdev([1, 2, 3, 4]), statistics.pstdev([7])

statistics.pstdev([])

statistics.stdev([1e300, 2e300]), statistics.stdev([1e-300, 3e-300]), statistics.pstdev([1, 1000000, 3.5])

statistics.covariance([1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 3, 1, 2, 3, 1, 2, 3]), statistics.covariance([1, 2, 3], [9, 8, 7])

statistics.covariance([1], [2])

statistics.covariance([1, 2], [2])

statistics.correlation([1, 2, 3, 4, 5], [2, 1, 4, 3, 5]), statistics.correlation([1, 2, 3], [3, 2, 1])

statistics.correlation([1, 2], [1, 1])

statistics.correlation([1], [1])

statistics.linear_regression([1971, 1975, 1979, 1982, 1983], [1, 2, 3, 4, 5])

slope, intercept = statistics.linear_regression([1, 2, 3], [3, 5, 7]); (slope, intercept)

statistics.linear_regression([1, 2, 3], [2, 4, 6], proportional=True).slope

statistics.linear_regression([1, 1], [1, 2])

n = statistics.NormalDist(100, 15); (n.mean, n.stdev, n.variance, n.median, n.mode, n)

n = statistics.NormalDist(100, 15); (n.cdf(110), n.pdf(100), n.zscore(130), n.inv_cdf(0.975), n.inv_cdf(0.001), n.quantiles())

statistics.NormalDist(1, 2) + statistics.NormalDist(3, 4), statistics.NormalDist(1, 2) * 3, statistics.NormalDist(4, 2) / 2, -statistics.NormalDist(1, 2), 5 - statistics.NormalDist(1, 2)

statistics.NormalDist.from_samples([2.5, 3.1, 2.1, 2.4, 2.7, 3.5]), statistics.NormalDist(2, 1) == statistics.NormalDist(2, 1)

statistics.NormalDist(2.4, 1.6).overlap(statistics.NormalDist(3.2, 2.0)), statistics.NormalDist().cdf(1.96)

statistics.NormalDist(0, -1)

statistics.NormalDist().inv_cdf(1.5)

[round(statistics.NormalDist(0, 1).inv_cdf(p / 10), 12) for p in range(1, 10)]
