// SPDX-License-Identifier: Apache-2.0
#include "stack/tcp/state.h"

#include <array>
#include <cstddef>

namespace tapwire::tcp {
namespace {

constexpr size_t kStates = static_cast<size_t>(State::kTimeWait) + 1;

constexpr size_t Index(State state) { return static_cast<size_t>(state); }

constexpr std::array<absl::string_view, kStates> kNames = {
    "CLOSED",     "SYN-SENT",   "SYN-RECEIVED", "ESTABLISHED", "FIN-WAIT-1",
    "FIN-WAIT-2", "CLOSE-WAIT", "CLOSING",      "LAST-ACK",    "TIME-WAIT"};

template <typename... To>
constexpr uint16_t Set(To... to) {
  return static_cast<uint16_t>(((1U << Index(to)) | ... | 0U));
}

// Where each state leads by RFC 9293 §3.3.2, figure 5. That everything leads to CLOSED (a reset
// either way, note 3, or the end of TIME-WAIT and LAST-ACK) is not repeated in each row.
constexpr std::array<uint16_t, kStates> kArrows = {
    // CLOSED. A connection of a Listener comes into being with the SYN, so LISTEN's arrow to
    // SYN-RECEIVED starts here.
    Set(State::kSynSent, State::kSynReceived),
    // SYN-SENT; to SYN-RECEIVED when both ends open at once (§3.5, figure 7).
    Set(State::kSynReceived, State::kEstablished),
    // SYN-RECEIVED.
    Set(State::kEstablished, State::kFinWait1),
    // ESTABLISHED.
    Set(State::kFinWait1, State::kCloseWait),
    // FIN-WAIT-1; to TIME-WAIT when the FIN comes with the acknowledgment of ours (note 2).
    Set(State::kFinWait2, State::kClosing, State::kTimeWait),
    Set(State::kTimeWait),  // FIN-WAIT-2
    Set(State::kLastAck),   // CLOSE-WAIT
    Set(State::kTimeWait),  // CLOSING
    Set(),                  // LAST-ACK
    Set(),                  // TIME-WAIT
};

}  // namespace

absl::string_view StateName(State state) {
  return Index(state) < kStates ? kNames[Index(state)] : "?";
}

bool IsLegalTransition(State from, State to) {
  if (Index(from) >= kStates || Index(to) >= kStates) return false;
  if (to == State::kClosed) return from != State::kClosed;
  return (kArrows[Index(from)] & Set(to)) != 0;
}

}  // namespace tapwire::tcp
