// SPDX-License-Identifier: Apache-2.0
#include "apps/perf/units.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tapwire::apps::perf {
namespace {

constexpr absl::string_view kPrefixes[] = {"", "K", "M", "G", "T"};
constexpr int kSteps = 4;
constexpr char kLetters[] = "kmgt";

std::string Format(double amount, int step, absl::string_view label) {
  const absl::string_view prefix = kPrefixes[step];
  if (amount < 9.995) return absl::StrFormat("%4.2f %s%s", amount, prefix, label);
  if (amount < 99.95) return absl::StrFormat("%4.1f %s%s", amount, prefix, label);
  return absl::StrFormat("%4.0f %s%s", amount, prefix, label);
}

std::string FormatAdaptive(double amount, double base, absl::string_view label) {
  int step = 0;
  for (; amount >= base && step < kSteps; ++step) amount /= base;
  return Format(amount, step, label);
}

// 1 for k, 2 for m, …; 0: not such a letter.
int StepOf(char letter) {
  const size_t at = absl::string_view(kLetters).find(
      static_cast<char>(absl::ascii_tolower(static_cast<unsigned char>(letter))));
  return at == absl::string_view::npos ? 0 : static_cast<int>(at) + 1;
}

}  // namespace

std::string FormatBytes(double bytes) { return FormatAdaptive(bytes, 1024, "Bytes"); }

std::string FormatRate(double bits_per_second, char unit) {
  const bool in_bytes = absl::ascii_isupper(static_cast<unsigned char>(unit));
  const double amount = in_bytes ? bits_per_second / 8 : bits_per_second;
  const double base = in_bytes ? 1024 : 1000;
  const absl::string_view label = in_bytes ? "Bytes" : "bits";
  const int step = StepOf(unit);
  if (step == 0) return FormatAdaptive(amount, base, label);
  return Format(amount / std::pow(base, step), step, label);
}

absl::StatusOr<uint64_t> ParseAmount(absl::string_view text, uint64_t step) {
  double factor = 1;
  absl::string_view number = text;
  if (!number.empty() && StepOf(number.back()) > 0) {
    factor = std::pow(static_cast<double>(step), StepOf(number.back()));
    number.remove_suffix(1);
  }
  double value = 0;
  // Nothing but digits and a point: no sign, exponent, "inf" or "nan".
  const bool plain =
      !number.empty() && number.find_first_not_of("0123456789.") == absl::string_view::npos;
  if (!plain || !absl::SimpleAtod(number, &value) || value * factor >= 9.2e18) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not an amount: wanted a number with K, M, G or T behind it"));
  }
  return static_cast<uint64_t>(value * factor);
}

}  // namespace tapwire::apps::perf
