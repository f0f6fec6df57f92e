// SPDX-License-Identifier: Apache-2.0
#include "netdev/base/drop_reason.h"

#include <array>

namespace tapwire {
namespace {

struct Text {
  const char* name;
  const char* help;
};

#define TAPWIRE_DROP_REASON_TEXT_(id, name, help) Text{name, help},
constexpr std::array<Text, kDropReasonCount> kTexts = {
    {TAPWIRE_DROP_REASONS(TAPWIRE_DROP_REASON_TEXT_)}};
#undef TAPWIRE_DROP_REASON_TEXT_

}  // namespace

absl::string_view DropReasonName(DropReason reason) {
  return kTexts[static_cast<size_t>(reason)].name;
}

absl::string_view DropReasonHelp(DropReason reason) {
  return kTexts[static_cast<size_t>(reason)].help;
}

}  // namespace tapwire
