// SPDX-License-Identifier: Apache-2.0
#include "stack/ipv4/ipv4_options.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>

#include "netdev/base/byteorder.h"

namespace tapwire {
namespace {

constexpr size_t kTypeAndLength = 2;

// RFC 791 §3.1: the pointer counts from 1 at the type byte; the smallest legal one points just
// behind the fixed part. The offset in the option of a byte that breaks this.
std::optional<size_t> FaultInList(const wire::Ipv4Option& option, size_t fixed_bytes) {
  if (option.data.size() + kTypeAndLength < fixed_bytes) return 1;
  if (option.data[0] <= fixed_bytes) return 2;
  return std::nullopt;
}

std::optional<size_t> FaultIn(const wire::Ipv4Option& option) {
  switch (option.type) {
    case wire::Ipv4OptionType::kRecordRoute:
      return FaultInList(option, 3);
    case wire::Ipv4OptionType::kTimestamp:
      return FaultInList(option, 4);
    default:
      return std::nullopt;
  }
}

bool IsSourceRoute(uint8_t type) {
  return type == wire::Ipv4OptionType::kLooseSourceRoute ||
         type == wire::Ipv4OptionType::kStrictSourceRoute;
}

Ipv4OptionsVerdict Bad(size_t offset_in_options) {
  return {DropReason::kIpv4BadOptions,
          static_cast<uint8_t>(wire::Ipv4Header::kMinLength + offset_in_options)};
}

}  // namespace

Ipv4OptionsVerdict CheckIpv4Options(const wire::Ipv4Header& header) {
  if (header.header_length() == wire::Ipv4Header::kMinLength) return {};
  wire::Ipv4OptionIterator options(header.options());
  bool source_route = false;
  while (const auto option = options.Next()) {
    if (const auto fault = FaultIn(*option)) return Bad(option->offset + *fault);
    source_route = source_route || IsSourceRoute(option->type);
  }
  if (options.malformed()) return Bad(options.error_offset());
  // Deviation: RFC 1122 §3.2.1.8 (c) has a completed source route passed up and reversed in
  // replies. All are refused (RFC 7126 §4.3): they serve to get round filters, and nothing else
  // sends them.
  if (source_route) return {DropReason::kIpv4SourceRoute, 0};
  return {};
}

namespace {

constexpr size_t kAddressBytes = 4;
constexpr size_t kTimestampBytes = 4;
// RFC 791 §3.1: the time is not in milliseconds since midnight UT.
constexpr uint32_t kNonStandardTime = 0x80000000;

enum TimestampKind : uint8_t { kTimesOnly = 0, kWithAddresses = 1, kPrespecified = 3 };

// `option` starts at its type byte. The pointer counts from 1.
bool RecordAddress(std::span<uint8_t> option, Ipv4Address here) {
  const size_t at = option[2] - size_t{1};
  if (at + kAddressBytes > option.size()) return false;  // full
  here.CopyTo(&option[at]);
  option[2] = static_cast<uint8_t>(option[2] + kAddressBytes);
  return true;
}

// RFC 791 §3.1: hosts that could not register are counted in four bits, which do not go round here.
bool CountOverflow(std::span<uint8_t> option) {
  if (option[3] >= 0xf0) return false;
  option[3] = static_cast<uint8_t>(option[3] + 0x10);
  return true;
}

bool RecordTime(std::span<uint8_t> option, Ipv4Address here, Time now) {
  const uint8_t kind = option[3] & 0x0f;
  if (kind != kTimesOnly && kind != kWithAddresses && kind != kPrespecified) return false;
  const size_t address_bytes = kind == kTimesOnly ? 0 : kAddressBytes;
  const size_t at = option[2] - size_t{1};
  if (at + address_bytes + kTimestampBytes > option.size()) {
    return kind != kPrespecified && CountOverflow(option);
  }
  if (kind == kPrespecified && Ipv4Address::FromBytes(option.subspan(at, kAddressBytes)) != here) {
    return false;
  }
  if (kind == kWithAddresses) here.CopyTo(&option[at]);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch());
  StoreBe32(&option[at + address_bytes], static_cast<uint32_t>(ms.count()) | kNonStandardTime);
  option[2] = static_cast<uint8_t>(option[2] + address_bytes + kTimestampBytes);
  return true;
}

}  // namespace

bool RecordHop(std::span<uint8_t> options, Ipv4Address here, Time now) {
  bool written = false;
  wire::Ipv4OptionIterator walk(options);
  while (const auto option = walk.Next()) {
    if (option->data.empty()) continue;
    const std::span<uint8_t> bytes =
        options.subspan(option->offset, kTypeAndLength + option->data.size());
    if (option->type == wire::Ipv4OptionType::kRecordRoute) written |= RecordAddress(bytes, here);
    if (option->type == wire::Ipv4OptionType::kTimestamp) written |= RecordTime(bytes, here, now);
  }
  return written;
}

void BlankUncopiedOptions(std::span<uint8_t> options) {
  wire::Ipv4OptionIterator walk(options);
  while (const auto option = walk.Next()) {
    if (option->copied() || option->type == wire::Ipv4OptionType::kNop) continue;
    const std::span<uint8_t> bytes =
        options.subspan(option->offset, kTypeAndLength + option->data.size());
    std::fill(bytes.begin(), bytes.end(), wire::Ipv4OptionType::kNop);
  }
}

}  // namespace tapwire
