// SPDX-License-Identifier: Apache-2.0
#include "tests/interop/kernel_features.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "netdev/base/status_util.h"

namespace tapwire::interop {
namespace {

using netdev::FeatureSet;
using netdev::LegacyFeature;

// The requests end in arrays of unknown length, so they are written as their 32-bit words.
using Words = std::vector<uint32_t>;

struct LegacyCommands {
  uint32_t get = 0;
  uint32_t set = 0;
};

LegacyCommands CommandsOf(LegacyFeature feature) {
  switch (feature) {
    case LegacyFeature::kRxCsum:
      return {ETHTOOL_GRXCSUM, ETHTOOL_SRXCSUM};
    case LegacyFeature::kTxCsum:
      return {ETHTOOL_GTXCSUM, ETHTOOL_STXCSUM};
    case LegacyFeature::kSg:
      return {ETHTOOL_GSG, ETHTOOL_SSG};
    case LegacyFeature::kTso:
      return {ETHTOOL_GTSO, ETHTOOL_STSO};
    case LegacyFeature::kGso:
      return {ETHTOOL_GGSO, ETHTOOL_SGSO};
    case LegacyFeature::kGro:
      return {ETHTOOL_GGRO, ETHTOOL_SGRO};
    case LegacyFeature::kLro:
      break;
  }
  return {};
}

ifreq RequestFor(const std::string& device) {
  ifreq request = {};
  std::strncpy(request.ifr_name, device.c_str(), IFNAMSIZ - 1);
  return request;
}

FeatureSet Bit(int position) { return FeatureSet::FromBits(uint64_t{1} << position); }

}  // namespace

absl::StatusOr<KernelEthtool> KernelEthtool::Open(const std::string& device) {
  drivers::UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "socket");
  KernelEthtool ethtool(std::move(fd));
  TW_RETURN_IF_ERROR(ethtool.ReadNames(device));
  return ethtool;
}

int KernelEthtool::Request(const std::string& device, void* data) const {
  ifreq request = RequestFor(device);
  request.ifr_data = static_cast<char*>(data);
  const int result = ioctl(fd_.get(), SIOCETHTOOL, &request);
  return result < 0 ? -errno : result;
}

absl::Status KernelEthtool::ReadNames(const std::string& device) {
  // struct ethtool_sset_info with one number behind it.
  struct {
    uint32_t cmd = ETHTOOL_GSSET_INFO;
    uint32_t reserved = 0;
    uint64_t sset_mask = uint64_t{1} << ETH_SS_FEATURES;
    uint32_t count = 0;
    uint32_t padding = 0;
  } info;
  if (const int result = Request(device, &info); result < 0) {
    return ErrnoStatus(-result, absl::StrCat(device, ": ETHTOOL_GSSET_INFO"));
  }
  // struct ethtool_gstrings.
  constexpr size_t kHead = 3;
  Words strings(kHead + info.count * size_t{ETH_GSTRING_LEN} / 4);
  strings[0] = ETHTOOL_GSTRINGS;
  strings[1] = ETH_SS_FEATURES;
  strings[2] = info.count;
  if (const int result = Request(device, strings.data()); result < 0) {
    return ErrnoStatus(-result, absl::StrCat(device, ": ETHTOOL_GSTRINGS"));
  }
  const char* text = reinterpret_cast<const char*>(&strings[kHead]);
  for (uint32_t i = 0; i < info.count; ++i, text += ETH_GSTRING_LEN) {
    const absl::string_view name(text, strnlen(text, ETH_GSTRING_LEN));
    const auto feature = name.empty() ? std::nullopt : netdev::FeatureByName(name);
    position_of_.push_back(feature ? static_cast<int>(*feature) : -1);
    if (feature) known_ |= *feature;
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFeatures> KernelEthtool::Read(const std::string& device) const {
  // struct ethtool_gfeatures: per 32 bits the words available, requested, active, never_changed.
  constexpr size_t kHead = 2, kWords = 4;
  Words request(kHead + kWords * block_count());
  request[0] = ETHTOOL_GFEATURES;
  request[1] = static_cast<uint32_t>(block_count());
  if (const int result = Request(device, request.data()); result < 0) {
    return ErrnoStatus(-result, absl::StrCat(device, ": ETHTOOL_GFEATURES"));
  }
  KernelFeatures features;
  for (size_t i = 0; i < position_of_.size(); ++i) {
    if (position_of_[i] < 0) continue;
    const uint32_t* block = &request[kHead + i / 32 * kWords];
    const auto has = [&](size_t word) { return (block[word] >> (i % 32) & 1) != 0; };
    if (has(0) && !has(3)) features.changeable |= Bit(position_of_[i]);
    if (has(1)) features.wanted |= Bit(position_of_[i]);
    if (has(2)) features.active |= Bit(position_of_[i]);
  }
  return features;
}

KernelEthtool::Outcome KernelEthtool::SetBulk(const std::string& device, FeatureSet valid,
                                              FeatureSet wanted) const {
  // struct ethtool_sfeatures: per 32 bits the words valid, requested.
  constexpr size_t kHead = 2, kWords = 2;
  Words request(kHead + kWords * block_count());
  request[0] = ETHTOOL_SFEATURES;
  request[1] = static_cast<uint32_t>(block_count());
  for (size_t i = 0; i < position_of_.size(); ++i) {
    if (position_of_[i] < 0) continue;
    const uint32_t bit = 1U << i % 32;
    uint32_t* block = &request[kHead + i / 32 * kWords];
    if (valid.HasAny(Bit(position_of_[i]))) block[0] |= bit;
    if (wanted.HasAny(Bit(position_of_[i]))) block[1] |= bit;
  }
  const int result = Request(device, request.data());
  return result < 0 ? Outcome{.error = -result, .flags = 0}
                    : Outcome{.error = 0, .flags = static_cast<uint32_t>(result)};
}

int KernelEthtool::SetLegacy(const std::string& device, LegacyFeature feature, bool on) const {
  ethtool_value value = {.cmd = CommandsOf(feature).set, .data = on};
  return std::max(0, -Request(device, &value));
}

int KernelEthtool::GetLegacy(const std::string& device, LegacyFeature feature, bool& on) const {
  ethtool_value value = {.cmd = CommandsOf(feature).get, .data = 0};
  const int result = Request(device, &value);
  on = value.data != 0;
  return std::max(0, -result);
}

int KernelEthtool::SetUp(const std::string& device, bool up) const {
  ifreq request = RequestFor(device);
  if (ioctl(fd_.get(), SIOCGIFFLAGS, &request) != 0) return errno;
  const int flags = up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP;
  request.ifr_flags = static_cast<short>(flags);
  return ioctl(fd_.get(), SIOCSIFFLAGS, &request) == 0 ? 0 : errno;
}

}  // namespace tapwire::interop
