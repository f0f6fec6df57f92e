// SPDX-License-Identifier: Apache-2.0
// The two labs: what is measured, in which order, for how long.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "apps/lab/result.h"

namespace tapwire::apps::lab {

struct LabOptions {
  double seconds = 2;  // of a run
  int pairs = 5;
  bool kernel = true;  // its figures too, as root
  bool others = true;  // macvlan-rx: clients on another thread and behind a TAP too
  std::vector<size_t> flows = {10, 100, 200, 300, 400, 500};
  // Told what is measured next.
  absl::AnyInvocable<void(absl::string_view)> progress = [](absl::string_view) {};
};

// kCancelled after Ctrl-C, which `Interruption` has to be listening for.
absl::StatusOr<FeaturesResult> RunFeaturesLab(LabOptions& options);
absl::StatusOr<RxResult> RunRxLab(LabOptions& options);

}  // namespace tapwire::apps::lab
