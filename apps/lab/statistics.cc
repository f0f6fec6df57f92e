// SPDX-License-Identifier: Apache-2.0
#include "apps/lab/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace tapwire::apps::lab {

Summary Summarize(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {median, values.front(), values.back()};
}

std::vector<double> PairedRatios(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(a.size(), b.size()) && b[i] > 0; ++i) {
    ratios.push_back(a[i] / b[i]);
  }
  return ratios;
}

double StudentT975(int degrees) {
  static constexpr std::array<double, 10> kTable = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706,
                                                    2.4469,  2.3646, 2.3060, 2.2622, 2.2281};
  if (degrees < 1) return kTable[0];
  const auto index = static_cast<size_t>(degrees - 1);
  if (index < kTable.size()) return kTable[index];
  // The expansion about the normal distribution's point; good to four digits from here on.
  const double z = 1.959964, n = degrees;
  const double z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
  return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * n * n * n);
}

std::optional<MeanRatio> ConfidenceOfMean(const std::vector<double>& ratios) {
  if (ratios.size() < 2) return std::nullopt;
  const auto n = static_cast<double>(ratios.size());
  double sum = 0, squares = 0;
  for (const double ratio : ratios) {
    if (!(ratio > 0)) return std::nullopt;
    sum += std::log(ratio);
  }
  const double mean = sum / n;
  for (const double ratio : ratios) squares += std::pow(std::log(ratio) - mean, 2);
  const double error = std::sqrt(squares / (n - 1) / n);
  const double reach = StudentT975(static_cast<int>(ratios.size()) - 1) * error;
  return MeanRatio{std::exp(mean), std::exp(mean - reach), std::exp(mean + reach)};
}

}  // namespace tapwire::apps::lab
