// SPDX-License-Identifier: Apache-2.0
// TCP options as they lie in the header, in their order and with all their padding: scripts name
// every byte, so that the stack's own codec, which keeps values only, does not serve here.

#include <algorithm>

#include "apps/pkt/datagram.h"
#include "netdev/base/byteorder.h"

namespace tapwire::pkt {
namespace {

constexpr uint8_t kFastOpenKind = 34, kExperimentKind = 254, kMd5Kind = 19;
constexpr uint16_t kFastOpenMagic = 0xf989;

void Append16(std::vector<uint8_t>& out, uint16_t value) {
  out.push_back(static_cast<uint8_t>(value >> 8));
  out.push_back(static_cast<uint8_t>(value));
}
void Append32(std::vector<uint8_t>& out, uint32_t value) {
  Append16(out, static_cast<uint16_t>(value >> 16));
  Append16(out, static_cast<uint16_t>(value));
}

void AppendBytes(std::vector<uint8_t>& out, uint8_t kind, const std::vector<uint8_t>& bytes) {
  out.push_back(kind);
  out.push_back(static_cast<uint8_t>(bytes.size() + 2));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

void AppendSack(std::vector<uint8_t>& out, const OptionSpec& option) {
  out.push_back(5);
  out.push_back(static_cast<uint8_t>(2 + 8 * option.sacks.size()));
  for (const auto& [left, right] : option.sacks) {
    Append32(out, left);
    Append32(out, right);
  }
}

void AppendOption(std::vector<uint8_t>& out, const OptionSpec& option) {
  switch (option.kind) {
    case OptionKind::kEol:
      return out.push_back(0);
    case OptionKind::kNop:
      return out.push_back(1);
    case OptionKind::kMss:
      out.insert(out.end(), {2, 4});
      return Append16(out, static_cast<uint16_t>(option.value));
    case OptionKind::kWindowScale:
      out.insert(out.end(), {3, 3, static_cast<uint8_t>(option.value)});
      return;
    case OptionKind::kSackPermitted:
      out.insert(out.end(), {4, 2});
      return;
    case OptionKind::kSack:
      return AppendSack(out, option);
    case OptionKind::kTimestamps:
      out.insert(out.end(), {8, 10});
      Append32(out, option.value);
      return Append32(out, option.echo);
    case OptionKind::kFastOpen:
      return AppendBytes(out, kFastOpenKind, option.bytes);
    case OptionKind::kFastOpenExperimental: {
      std::vector<uint8_t> bytes = {kFastOpenMagic >> 8, kFastOpenMagic & 0xff};
      bytes.insert(bytes.end(), option.bytes.begin(), option.bytes.end());
      return AppendBytes(out, kExperimentKind, bytes);
    }
    case OptionKind::kMd5:
      return AppendBytes(out, kMd5Kind, option.bytes);
    case OptionKind::kOther:
      return AppendBytes(out, static_cast<uint8_t>(option.value), option.bytes);
  }
}

OptionSpec Other(uint8_t kind, std::span<const uint8_t> body) {
  return {.kind = OptionKind::kOther, .value = kind, .bytes = {body.begin(), body.end()}};
}

OptionSpec ParseSackBody(std::span<const uint8_t> body) {
  OptionSpec option{.kind = OptionKind::kSack};
  for (size_t i = 0; i + 8 <= body.size(); i += 8) {
    option.sacks.emplace_back(LoadBe32(&body[i]), LoadBe32(&body[i + 4]));
  }
  return option;
}

OptionSpec ParseBody(uint8_t kind, std::span<const uint8_t> body) {
  if (kind == 2 && body.size() == 2) {
    return {.kind = OptionKind::kMss, .value = LoadBe16(body.data())};
  }
  if (kind == 3 && body.size() == 1) return {.kind = OptionKind::kWindowScale, .value = body[0]};
  if (kind == 4 && body.empty()) return {.kind = OptionKind::kSackPermitted};
  if (kind == 5 && body.size() % 8 == 0) return ParseSackBody(body);
  if (kind == 8 && body.size() == 8) {
    return {.kind = OptionKind::kTimestamps,
            .value = LoadBe32(body.data()),
            .echo = LoadBe32(body.data() + 4)};
  }
  if (kind == kFastOpenKind) {
    return {.kind = OptionKind::kFastOpen, .bytes = {body.begin(), body.end()}};
  }
  if (kind == kExperimentKind && body.size() >= 2 && LoadBe16(body.data()) == kFastOpenMagic) {
    return {.kind = OptionKind::kFastOpenExperimental, .bytes = {body.begin() + 2, body.end()}};
  }
  if (kind == kMd5Kind) return {.kind = OptionKind::kMd5, .bytes = {body.begin(), body.end()}};
  return Other(kind, body);
}

}  // namespace

std::vector<uint8_t> BuildOptionBytes(const std::vector<OptionSpec>& options) {
  std::vector<uint8_t> out;
  for (const OptionSpec& option : options) AppendOption(out, option);
  while (out.size() % 4 != 0) out.push_back(0);
  return out;
}

std::vector<OptionSpec> ParseOptionBytes(std::span<const uint8_t> bytes) {
  std::vector<OptionSpec> options;
  while (!bytes.empty()) {
    const uint8_t kind = bytes[0];
    if (kind <= 1) {
      options.push_back({.kind = kind == 0 ? OptionKind::kEol : OptionKind::kNop});
      bytes = bytes.subspan(1);
      // RFC 9293 §3.1: behind the end of the list there is only padding.
      if (kind == 0 && std::all_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b == 0; })) {
        break;
      }
      continue;
    }
    if (bytes.size() < 2 || bytes[1] < 2 || bytes[1] > bytes.size()) {
      options.push_back(Other(kind, bytes.subspan(1)));
      break;
    }
    options.push_back(ParseBody(kind, bytes.subspan(2, bytes[1] - size_t{2})));
    bytes = bytes.subspan(bytes[1]);
  }
  return options;
}

}  // namespace tapwire::pkt
