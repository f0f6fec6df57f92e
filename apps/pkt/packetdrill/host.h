// SPDX-License-Identifier: Apache-2.0
// Host: the stack behind the plug-in, on a link that only the script speaks on. Everybody can be
// reached over it. Its own addresses are given, or learned: the program does not tell them.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "apps/pkt/packetdrill/flags.h"
#include "apps/pkt/packetdrill/script_waiter.h"
#include "apps/pkt/script_device.h"
#include "apps/pkt/world.h"
#include "netdev/base/seeded_random.h"
#include "netdev/net_context.h"
#include "stack/sockets/socket_table.h"
#include "stack/stack.h"

namespace tapwire::packetdrill {

class Host {
 public:
  // `settings_path`: see SettingsFile. Errors: addresses that the stack refuses. The caller is the
  // program's main thread.
  static absl::StatusOr<std::unique_ptr<Host>> Create(const Flags& flags,
                                                      const std::string& settings_path);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  SocketTable& sockets() { return *sockets_; }
  ScriptWaiter& waiter() { return waiter_; }

  // Before bind() and connect(), so that the local address is one of ours. A connection without
  // any gets a fallback address.
  void PrepareBind(const sockaddr* address, socklen_t length);
  void PrepareConnect(const sockaddr* address, socklen_t length);
  // Before socket(), listen() and connect(): settings hold for what is made from here on.
  void ReadSettings();

  // One datagram from the link. False: no memory.
  bool Inject(std::span<const uint8_t> datagram);

  enum class Received : uint8_t { kDatagram, kNothing, kDamaged };
  // The next datagram that a script can speak of, waiting for it in virtual time. kDamaged: it must
  // not be on a wire (wrong checksum or length), a message is on stderr, and it is dropped.
  Received Receive(pkt::SentDatagram& out);

 private:
  explicit Host(const Flags& flags, const std::string& settings_path);

  absl::Status Configure();
  absl::Status AddWayOut(const IpAddress& gateway);
  bool IsFixed(IpFamily family) const;
  bool HasAddress(IpFamily family) const;
  void Learn(const IpAddress& address);

  const Flags flags_;
  SettingsFile settings_;
  pkt::ScriptClock clock_;
  SeededRandom random_{1};  // scripts are repeatable
  netdev::NetContext context_;
  ScriptWaiter waiter_;
  pkt::ScriptDevice* device_ = nullptr;
  Interface* interface_ = nullptr;
  std::unique_ptr<Stack> stack_;
  std::unique_ptr<SocketTable> sockets_;
};

}  // namespace tapwire::packetdrill
