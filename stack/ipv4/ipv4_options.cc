// SPDX-License-Identifier: Apache-2.0
#include "stack/ipv4/ipv4_options.h"

#include <cstddef>
#include <optional>

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

}  // namespace tapwire
