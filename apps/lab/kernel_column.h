// SPDX-License-Identifier: Apache-2.0
// The kernel as further variants of a lab, if it can be had.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "apps/lab/kernel_net.h"
#include "apps/lab/result.h"
#include "apps/lab/turns.h"

namespace tapwire::apps::lab {

class KernelColumn {
 public:
  // Sets the pairs up, unless not `wanted` or not root.
  KernelColumn(bool wanted, KernelClient where);

  // Why there is none; empty if there is.
  const std::string& problem() const { return problem_; }

  // Adds a variant for each pair. They refer to this object.
  using Run = absl::AnyInvocable<absl::StatusOr<double>(const KernelPair&, const RunTime&)>;
  void AddTo(std::vector<Variant>& variants, absl::FunctionRef<Run()> make_run) const;

 private:
  struct Entry {
    KernelPath path;
    KernelPair pair;
  };

  std::string problem_;
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace tapwire::apps::lab
