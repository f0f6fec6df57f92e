// SPDX-License-Identifier: Apache-2.0
// What a received ICMP error quotes, and what follows from it (RFC 1122 §3.2.2, RFC 4443 §2.4(d),
// RFC 5927): the quoted datagram is looked at hard, since anybody can send an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "netdev/base/drop_reason.h"
#include "stack/ip.h"

namespace tapwire {

class Stack;

struct IcmpQuote {
  IpAddress source, destination;
  uint8_t protocol = 0;
  size_t length = 0;                   // of the whole quoted datagram, as its header says
  std::span<const uint8_t> transport;  // what is there of it, at least eight bytes
};

// Reads a quoted IP packet: kNone, kIcmpQuoteTruncated, or kIcmpQuoteMismatch for what no transport
// could recognise (another version, a later fragment).
DropReason ParseIcmpQuote(IpFamily family, std::span<const uint8_t> bytes, IcmpQuote& quote);

// Takes an error (kind, type, code, value set; `bytes`: behind its eight header bytes; `info`: of
// the ICMP message itself) to the transport that sent what it quotes, and a path MTU from it to the
// cache if the transport knows the quote. kNone, or why it was ignored; not counted yet.
DropReason DistributeIcmpError(Stack& stack, IcmpErrorInfo error, std::span<const uint8_t> bytes,
                               const IpPacketInfo& info);

}  // namespace tapwire
