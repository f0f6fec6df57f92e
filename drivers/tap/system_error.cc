// SPDX-License-Identifier: Apache-2.0
#include "drivers/tap/system_error.h"

#include <string>
#include <system_error>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "netdev/base/status_util.h"

namespace tapwire::drivers {

absl::Status SystemError(int err, absl::string_view what, absl::string_view remedy) {
  const absl::Status plain = ErrnoStatus(err, what);
  absl::Status status(plain.code(),
                      absl::StrCat(what, ": ", std::generic_category().message(err), " (", err, ")",
                                   remedy.empty() ? "" : ": ", remedy));
  plain.ForEachPayload([&status](absl::string_view url, const absl::Cord& payload) {
    status.SetPayload(url, payload);
  });
  return status;
}

}  // namespace tapwire::drivers
