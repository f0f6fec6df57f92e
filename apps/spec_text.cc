// SPDX-License-Identifier: Apache-2.0
#include "apps/spec_text.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "drivers/tap/tap_link.h"

namespace tapwire::apps {
namespace {

// SimpleAtoi() also takes signs and spaces.
bool AllDigits(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); });
}

}  // namespace

bool IsHostAddress(const IpPrefix& prefix) {
  const IpAddress& address = prefix.address;
  const int width = address.is_v4() ? 32 : 128;
  const bool has_subnet_address = prefix.length > 0 && prefix.length < width - 1;  // RFC 3021, 6164
  const std::optional<Ipv4Address> broadcast = prefix.Broadcast();
  return !address.IsUnspecified() && !address.IsMulticast() && !address.IsLimitedBroadcast() &&
         !(has_subnet_address && address == prefix.Network()) &&
         !(broadcast.has_value() && address == IpAddress(*broadcast));
}

absl::Status SpecText::Bad(absl::string_view problem) const {
  return absl::InvalidArgumentError(absl::StrCat(flag_, " ", text_, ": ", problem));
}

std::vector<SpecText::Pair> SpecText::Pairs() const {
  std::vector<Pair> pairs;
  for (absl::string_view part : absl::StrSplit(text_, ',')) {
    const size_t equals = part.find('=');
    const bool has_value = equals != absl::string_view::npos;
    pairs.push_back({part.substr(0, equals),
                     has_value ? part.substr(equals + 1) : absl::string_view(), has_value});
  }
  return pairs;
}

absl::StatusOr<bool> SpecText::Switch(absl::string_view key, absl::string_view value) const {
  if (value == "on" || value == "1" || value == "true") return true;
  if (value == "off" || value == "0" || value == "false") return false;
  return Bad(absl::StrCat(key, "= takes on or off, not '", value, "'"));
}

absl::StatusOr<uint32_t> SpecText::Number(absl::string_view value, uint32_t low,
                                          uint32_t high) const {
  uint32_t number = 0;
  if (!AllDigits(value) || !absl::SimpleAtoi(value, &number) || number < low || number > high) {
    return Bad(absl::StrCat("'", value, "' is not a number from ", low, " to ", high));
  }
  return number;
}

absl::StatusOr<int32_t> SpecText::SignedNumber(absl::string_view value) const {
  int32_t number = 0;
  absl::string_view digits = value;
  if (!digits.empty() && digits[0] == '-') digits.remove_prefix(1);
  if (!AllDigits(digits) || !absl::SimpleAtoi(value, &number)) {
    return Bad(absl::StrCat("'", value, "' is not a number"));
  }
  return number;
}

absl::StatusOr<MacAddress> SpecText::Mac(absl::string_view value) const {
  const std::optional<MacAddress> mac = MacAddress::Parse(value);
  if (!mac || !mac->IsUnicast() || mac->IsZero()) {
    return Bad(absl::StrCat("'", value, "' is not a unicast MAC address"));
  }
  return *mac;
}

absl::StatusOr<IpPrefix> SpecText::HostPrefix(absl::string_view key,
                                              absl::string_view value) const {
  const std::optional<IpPrefix> prefix = IpPrefix::Parse(value);
  if (!prefix) return Bad(absl::StrCat("'", value, "' is not ADDRESS/LENGTH"));
  if (!IsHostAddress(*prefix)) {
    return Bad(absl::StrCat(key, "=", value, " is not the address of a host"));
  }
  return *prefix;
}

absl::StatusOr<std::string> SpecText::Name(absl::string_view value) const {
  const absl::Status valid = drivers::CheckTapName(value);
  if (!valid.ok()) return Bad(valid.message());
  return std::string(value);
}

}  // namespace tapwire::apps
