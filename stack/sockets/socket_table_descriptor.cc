// SPDX-License-Identifier: Apache-2.0
#include "stack/sockets/socket_table_descriptor.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace tapwire::internal {

std::span<uint8_t> Transfer::Next() const {
  size_t skip = done;
  for (const iovec& piece : iov) {
    if (skip < piece.iov_len) {
      return {static_cast<uint8_t*>(piece.iov_base) + skip, piece.iov_len - skip};
    }
    skip -= piece.iov_len;
  }
  return {};
}

// The pending error is told once.
int SocketDescriptor::TakeError() { return -std::exchange(error_, 0); }

int SocketDescriptor::GetOption(const OptionBuffer& out) {
  const int result = GetOwnOption(out);
  if (result == 0 && out.level == SOL_SOCKET && out.name == SO_ERROR) error_ = 0;
  return result;
}

int SocketDescriptor::SetOption(const OptionInput& in) {
  const int result = SetOwnOption(in);
  if (result == 0) OnCommonChanged();
  return result;
}

}  // namespace tapwire::internal
