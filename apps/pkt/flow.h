// SPDX-License-Identifier: Apache-2.0
// Flow: the one connection or UDP exchange that a script talks about, and the map between the
// script's numbers and those on the wire. The peer's numbers are the script's own; ours are not
// known before our SYN is seen, and our timestamps only as they appear.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/pkt/ast.h"
#include "apps/pkt/datagram.h"
#include "netdev/wire/ip_address.h"

namespace tapwire::pkt {

class Flow {
 public:
  // A local port of 0 is learned from the first packet.
  Flow(const Endpoint& local, const Endpoint& remote, bool udp)
      : local_(local), remote_(remote), udp_(udp) {}

  const Endpoint& local() const { return local_; }
  const Endpoint& remote() const { return remote_; }
  bool udp() const { return udp_; }
  // The script's descriptor; -1 while there is none (a connection not accepted yet).
  int fd = -1;

  // Whether a packet of the stack belongs here; learns the local end.
  bool Owns(const Ends& ends, bool udp);
  Ends Outbound() const { return {local_, remote_}; }
  Ends Inbound() const { return {remote_, local_}; }

  // ---- Inbound ----

  // The segment with the numbers of the wire. Notes the peer's timestamps and initial number.
  TcpSpec ToWire(const TcpSpec& script);
  uint32_t LocalToWire(uint32_t script) const { return script + local_offset_; }
  // The peer's first data byte in the script's numbers.
  std::optional<uint32_t> first_peer_byte() const { return first_peer_byte_; }

  // ---- Outbound ----

  // If `expected` is a SYN of ours, its number and that of `actual` are the same from now on,
  // unless they were before.
  void LearnIsn(const TcpSpec& expected, const TcpSpec& actual);
  // A segment from the wire in the script's numbers; timestamps stay as they are.
  TcpSpec ToScript(const TcpSpec& wire) const;
  // Our TSval of the script is this one on the wire.
  void LearnTimestamp(uint32_t script, uint32_t wire);
  // The TSval on the wire that the script's one would be if our clock ticked as written.
  std::optional<uint32_t> PredictTimestamp(uint32_t script) const;
  // The first pair of timestamps, script and wire.
  std::optional<std::pair<uint32_t, uint32_t>> first_timestamp() const {
    if (timestamps_.empty()) return std::nullopt;
    return timestamps_.front();
  }
  // Where `seq` (of the script) lies in the stream that was written to the socket; none before the
  // SYN was seen.
  std::optional<uint32_t> StreamOffset(uint32_t seq) const;

  // What the script has written to and read from the socket, to compare with the segments.
  std::string written;
  uint64_t bytes_read = 0;
  bool urgent_seen = false;  // the streams are not simply what was written any more

 private:
  uint32_t EchoToWire(uint32_t script) const;

  Endpoint local_, remote_;
  bool udp_ = false;
  bool isn_known_ = false;
  bool new_incarnation_ = false;  // the peer sent a SYN since: ours may have a new number
  uint32_t script_isn_ = 0;
  uint32_t local_offset_ = 0;  // wire = script + offset
  std::optional<uint32_t> first_peer_byte_;
  std::vector<std::pair<uint32_t, uint32_t>> timestamps_;  // script, wire
};

}  // namespace tapwire::pkt
