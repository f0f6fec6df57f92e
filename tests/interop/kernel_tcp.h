// SPDX-License-Identifier: Apache-2.0
// A TCP socket of the kernel, non-blocking, in the namespace of the calling thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "drivers/tap/unique_fd.h"
#include "netdev/wire/ip_address.h"

namespace tapwire::interop {

class KernelTcp {
 public:
  // Listens on every address of the family.
  static KernelTcp Listen(IpFamily family, uint16_t port, int backlog = 128);
  // Begins to connect; Writable() and error() tell how that went.
  static KernelTcp Connect(const Endpoint& peer);

  // A connection that waits to be accepted.
  std::optional<KernelTcp> Accept();

  void SetOption(int level, int name, int value);
  uint16_t port() const;
  // Something can be written, or writing fails: so it is once connect() has ended.
  bool Writable() const;
  // Takes the pending error (SO_ERROR); 0 if there is none.
  int TakeError();

  // The number of bytes that the kernel took, 0 if none. Other errors than EAGAIN: see error().
  size_t Send(std::span<const uint8_t> data);
  size_t Send(const std::string& text);
  // Takes in all there is. True once the stream has ended: in order, or by error().
  bool Receive();
  const std::string& received() const { return received_; }
  bool ended() const { return ended_; }
  // The errno of the Send() or Receive() that failed; 0 if none did.
  int error() const { return error_; }

  void ShutdownWrite();
  void Close() { fd_.Reset(); }
  // Closes with SO_LINGER 0: a reset.
  void CloseWithReset();

 private:
  explicit KernelTcp(int fd) : fd_(fd) {}

  drivers::UniqueFd fd_;
  std::string received_;
  bool ended_ = false;
  int error_ = 0;
};

}  // namespace tapwire::interop
