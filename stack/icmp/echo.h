// SPDX-License-Identifier: Apache-2.0
// Echo, of both families (RFC 792, RFC 4443 §4): the answer to a request, and who gets replies and
// errors about requests, by identifier.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "netdev/packet/packet.h"
#include "stack/ip.h"

namespace tapwire {

class Stack;

class EchoClient {
 public:
  virtual ~EchoClient() = default;
  // `packet` data() at the echo data.
  virtual void OnEchoReply(PacketPtr packet, const IpPacketInfo& info, uint16_t sequence) = 0;
  virtual void OnEchoError(const IcmpErrorInfo& error, uint16_t sequence) = 0;
  // The stack is going away, and its table with it: nothing is left to unbind from.
  virtual void OnStackGone() {}
};

class EchoTable {
 public:
  EchoTable() = default;
  EchoTable(const EchoTable&) = delete;
  EchoTable& operator=(const EchoTable&) = delete;
  ~EchoTable() {
    for (const auto& [identifier, client] : clients_) client->OnStackGone();
  }

  // False when the identifier is taken. The client unbinds itself before it goes.
  bool Bind(uint16_t identifier, EchoClient* client) {
    return clients_.emplace(identifier, client).second;
  }
  void Unbind(uint16_t identifier) { clients_.erase(identifier); }
  EchoClient* Find(uint16_t identifier) const {
    auto it = clients_.find(identifier);
    return it == clients_.end() ? nullptr : it->second;
  }

  // A reply with a good checksum, data() at the ICMP header. False, and nothing taken, if no client
  // has the identifier.
  bool DeliverReply(PacketPtr& packet, const IpPacketInfo& info) const;
  // An error that quotes an echo request of type `request_type`: whether it is one of ours.
  bool DeliverError(const IcmpErrorInfo& error, uint8_t request_type) const;

 private:
  absl::flat_hash_map<uint16_t, EchoClient*> clients_;
};

// Turns a request (good checksum, data() at the ICMP header) into its reply, in place, and sends it
// from the address that was asked; from one of our own if that was a group (RFC 1122 §3.2.2.6,
// RFC 4443 §4.2). kNone, or why there is no reply; counted.
DropReason AnswerEcho(Stack& stack, PacketPtr request, const IpPacketInfo& info);

}  // namespace tapwire
