// SPDX-License-Identifier: Apache-2.0
// Feature words of the kernel's devices, by the ethtool requests of ioctl(2) (linux/ethtool.h), in
// the bit positions of this project: bits are matched by their names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "drivers/tap/unique_fd.h"
#include "netdev/ethtool.h"
#include "netdev/features.h"

namespace tapwire::interop {

struct KernelFeatures {
  netdev::FeatureSet active;
  netdev::FeatureSet wanted;
  netdev::FeatureSet changeable;  // by users
};

class KernelEthtool {
 public:
  // Reads the names; `device` may be any device of the namespace.
  static absl::StatusOr<KernelEthtool> Open(const std::string& device);

  // Bits that both sides have a name for.
  netdev::FeatureSet known() const { return known_; }

  absl::StatusOr<KernelFeatures> Read(const std::string& device) const;

  // ETHTOOL_SFEATURES. `flags` are ETHTOOL_F_UNSUPPORTED, ETHTOOL_F_WISH.
  struct Outcome {
    int error = 0;  // errno
    uint32_t flags = 0;
  };
  Outcome SetBulk(const std::string& device, netdev::FeatureSet valid,
                  netdev::FeatureSet wanted) const;
  // The old commands; both give 0 or an errno. kLro has none.
  int SetLegacy(const std::string& device, netdev::LegacyFeature feature, bool on) const;
  int GetLegacy(const std::string& device, netdev::LegacyFeature feature, bool& on) const;
  // Administrative state: 0 or an errno.
  int SetUp(const std::string& device, bool up) const;

 private:
  explicit KernelEthtool(drivers::UniqueFd fd) : fd_(std::move(fd)) {}
  absl::Status ReadNames(const std::string& device);
  // The ioctl's result: negative errno, or what it returns.
  int Request(const std::string& device, void* data) const;
  size_t block_count() const { return (position_of_.size() + 31) / 32; }

  drivers::UniqueFd fd_;
  std::vector<int> position_of_;  // ours by the kernel's; -1 if we have no such name
  netdev::FeatureSet known_;
};

}  // namespace tapwire::interop
