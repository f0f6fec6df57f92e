// SPDX-License-Identifier: Apache-2.0
// Variants measured by turns, A B A B …, so that what changes slowly on the machine meets all of
// them alike; runs in which something else used the processors are repeated.
#pragma once

#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"

namespace tapwire::apps::lab {

struct RunTime {
  double warm_up_s = 0;  // not measured
  double measured_s = 0;
};

struct Variant {
  std::string name = {};
  // One run; the rate that was measured.
  absl::AnyInvocable<absl::StatusOr<double>(const RunTime&)> run;
  // Its failure ends its own series only: figures beside ours.
  bool optional = false;
  double time_share = 1;  // of the measured time
};

struct Series {
  std::string name = {};
  std::vector<double> values = {};  // one per pair, in the order they were measured
  std::string problem = {};         // of an optional variant that failed; `values` is empty then
};

class Turns {
 public:
  // `pairs`: runs of each variant.
  explicit Turns(int pairs) : pairs_(pairs) {}

  // One short run of each, which does not count; then `pairs` rounds in the order given. Results in
  // the order of `variants`. kCancelled after Ctrl-C.
  absl::StatusOr<std::vector<Series>> Measure(std::vector<Variant>& variants, double seconds);

  int repeated() const { return repeated_; }    // runs that were thrown away
  int disturbed() const { return disturbed_; }  // runs that count although they were disturbed

 private:
  absl::StatusOr<double> RunQuietly(Variant& variant, const RunTime& time);

  int pairs_;
  int repeated_ = 0, disturbed_ = 0;
};

}  // namespace tapwire::apps::lab
