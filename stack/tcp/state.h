// SPDX-License-Identifier: Apache-2.0
// Connection states (RFC 9293 §3.3.2). LISTEN is a Listener and TIME-WAIT a compact entry of its
// own, so a Connection is never in either.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace tapwire::tcp {

enum class State : uint8_t {
  kClosed,
  kSynSent,
  kSynReceived,
  kEstablished,
  kFinWait1,
  kFinWait2,
  kCloseWait,
  kClosing,
  kLastAck,
  kTimeWait,  // reported by TcpInfo only
};

// "ESTABLISHED", "FIN-WAIT-1", … as RFC 9293 spells them.
absl::string_view StateName(State state);
// Whether figure 5 of RFC 9293 §3.3.2 (with the abort of §3.10.5) has an arrow from one to the
// other.
bool IsLegalTransition(State from, State to);

// States in which the peer's data is still taken.
constexpr bool CanReceiveData(State s) {
  return s == State::kEstablished || s == State::kFinWait1 || s == State::kFinWait2;
}
// States in which the user's data is still sent.
constexpr bool CanSendData(State s) { return s == State::kEstablished || s == State::kCloseWait; }
// A FIN of ours has been queued or sent.
constexpr bool HasClosedSend(State s) {
  return s == State::kFinWait1 || s == State::kFinWait2 || s == State::kClosing ||
         s == State::kLastAck || s == State::kTimeWait;
}
// Synchronized states (RFC 9293 §3.5.2): both sides know the other's sequence numbers.
constexpr bool IsSynchronized(State s) { return s >= State::kEstablished; }

}  // namespace tapwire::tcp
