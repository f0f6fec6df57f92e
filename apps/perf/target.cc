// SPDX-License-Identifier: Apache-2.0
#include "apps/perf/target.h"

#include "absl/strings/str_cat.h"
#include "apps/host.h"

namespace tapwire::apps::perf {

absl::StatusOr<Endpoint> ParseTarget(const std::string& text, uint16_t port,
                                     std::optional<IpFamily> family, Host& host) {
  const size_t percent = text.find('%');
  const std::optional<IpAddress> address = IpAddress::Parse(text.substr(0, percent));
  if (!address) {
    return absl::InvalidArgumentError(absl::StrCat(text, ": is not an IPv4 or IPv6 address"));
  }
  if (family && address->family() != *family) {
    return absl::InvalidArgumentError(absl::StrCat(text, ": is not of the family asked for"));
  }
  const std::string zone = percent == std::string::npos ? "" : text.substr(percent + 1);
  const std::string& name = host.interface().device().name();
  const uint32_t index = host.interface().index();
  if (!zone.empty() && zone != name && zone != absl::StrCat(index)) {
    return absl::InvalidArgumentError(
        absl::StrCat(text, ": no interface '", zone, "'; there is ", name));
  }
  return Endpoint{*address, port, !zone.empty() || address->IsLinkLocal() ? index : 0};
}

}  // namespace tapwire::apps::perf
