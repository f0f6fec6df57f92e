// SPDX-License-Identifier: Apache-2.0
// What is said of repeated runs: median and range, ratios of neighbouring runs, and how sure a mean
// ratio is. No I/O.
#pragma once

#include <optional>
#include <vector>

namespace tapwire::apps::lab {

struct Summary {
  double median = 0, min = 0, max = 0;
};
// Of at least one value; all zero of none. The median of an even number is the mean of the middle
// two.
Summary Summarize(std::vector<double> values);

// a[i] / b[i]: of runs that were made one after the other, so that what changes slowly on the
// machine cancels. As many as the shorter has; a zero divisor ends them.
std::vector<double> PairedRatios(const std::vector<double>& a, const std::vector<double>& b);

struct MeanRatio {
  double mean = 1;  // geometric
  double low = 1, high = 1;
};
// The geometric mean and its 95 % confidence interval: Student's t with n - 1 degrees of freedom on
// the logarithms. None for less than two ratios, or one that is not positive.
std::optional<MeanRatio> ConfidenceOfMean(const std::vector<double>& ratios);

// The 97.5 % point of Student's t distribution, for `degrees` >= 1.
double StudentT975(int degrees);

}  // namespace tapwire::apps::lab
