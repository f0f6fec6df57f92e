// SPDX-License-Identifier: Apache-2.0
// Packet lines: direction, IP fields, then a TCP segment, a UDP datagram or an ICMP message.

#include <cstdint>
#include <string>

#include "apps/pkt/ast.h"
#include "apps/pkt/token_stream.h"

namespace tapwire::pkt {
namespace {

struct EcnName {
  const char* name;
  EcnSpec value;
};
constexpr EcnName kEcnNames[] = {
    {"noecn", EcnSpec::kNotEct}, {"ect0", EcnSpec::kEct0}, {"ect1", EcnSpec::kEct1},
    {"ect01", EcnSpec::kEct01},  {"ce", EcnSpec::kCe},
};

bool IsIpWord(const Token& token) {
  for (const EcnName& ecn : kEcnNames) {
    if (token.IsWord(ecn.name)) return true;
  }
  return token.IsWord("tos") || token.IsWord("ttl") || token.IsWord("flowlabel") ||
         token.IsWord("tclass") || token.IsWord("hlim");
}

bool ParseIpField(TokenStream& in, IpSpec& ip) {
  for (const EcnName& ecn : kEcnNames) {
    if (!in.AcceptWord(ecn.name)) continue;
    ip.ecn = ecn.value;
    return true;
  }
  if (in.AcceptWord("tos") || in.AcceptWord("tclass")) {
    return in.TakeInteger("a TOS byte", ip.tos.emplace());
  }
  if (in.AcceptWord("ttl") || in.AcceptWord("hlim")) {
    return in.TakeInteger("a TTL", ip.ttl.emplace());
  }
  if (in.AcceptWord("flowlabel")) {
    uint64_t label = 0;
    if (!in.TakeNumber("a flow label", 0xfffff, label)) return false;
    ip.flow_label = static_cast<uint32_t>(label);
    return true;
  }
  return in.Fail("expected a field of the IP header, found " + in.Found());
}

// [ect0], (ce), [tos 0x10, ttl 5]; nothing if the bracket belongs to something else.
bool ParseIpSpec(TokenStream& in, IpSpec& ip) {
  const bool bracket = in.Peek().Is('[') || in.Peek().Is('(');
  if (!bracket || !IsIpWord(in.Peek(1))) return true;
  const char close = in.Take().Is('[') ? ']' : ')';
  do {
    if (!ParseIpField(in, ip)) return false;
  } while (in.Accept(','));
  return in.Expect(close);
}

int FlagBit(char c) {
  switch (c) {
    case 'F':
      return 0x01;
    case 'S':
      return 0x02;
    case 'R':
      return 0x04;
    case 'P':
      return 0x08;
    case '.':
      return 0x10;
    case 'U':
      return 0x20;
    case 'E':
      return 0x40;
    case 'W':
      return 0x80;
    default:
      return -1;
  }
}

bool AddFlags(TokenStream& in, const Token& token, uint8_t& flags) {
  for (const char c : token.text) {
    if (c == 'A' || (c >= '0' && c <= '9')) return in.Unsupported("AccECN flags");
    const int bit = FlagBit(c);
    if (bit < 0) return in.Fail("'" + token.text + "' is no set of TCP flags");
    if ((flags & bit) != 0) return in.Fail("TCP flag given twice in '" + token.text + "'");
    flags = static_cast<uint8_t>(flags | bit);
  }
  return true;
}

// Tokens that touch each other: "S", ".", "SEW", "P.", "F.", "-".
bool ParseFlags(TokenStream& in, uint8_t& flags) {
  if (in.Accept('-')) return true;
  bool more = true;
  bool any = false;
  while (more) {
    const Token& token = in.Peek();
    if (token.kind != TokenKind::kWord && !token.Is('.')) break;
    if (!AddFlags(in, token, flags)) return false;
    more = token.Touches(in.Peek(1));
    in.Take();
    any = true;
  }
  return any || in.Fail("expected TCP flags, found " + in.Found());
}

bool ParseTcp(TokenStream& in, TcpSpec& tcp) {
  if (!ParseFlags(in, tcp.flags) || !ParseSequence(in, tcp.seq, tcp.length)) return false;
  if (in.AcceptWord("ack") && !in.TakeInteger("an acknowledgment number", tcp.ack.emplace())) {
    return false;
  }
  if (in.AcceptWord("win") && !in.TakeInteger("a window", tcp.window.emplace())) return false;
  if (in.AcceptWord("urg") && !in.TakeInteger("an urgent pointer", tcp.urgent.emplace())) {
    return false;
  }
  if (in.SameLine() && in.Peek().Is('<')) return ParseTcpOptions(in, tcp);
  return true;
}

bool ParseUdp(TokenStream& in, UdpSpec& udp) {
  uint64_t length = 0;
  if (!in.Expect('(') || !in.TakeNumber("a length", 65507, length) || !in.Expect(')')) return false;
  udp.length = static_cast<uint32_t>(length);
  return true;
}

constexpr const char* kUnsupportedProtocols[] = {"ipv4", "ipv6", "gre",  "mpls",
                                                 "esp",  "ah",   "sctp", "udplite"};

}  // namespace

bool ParseSequence(TokenStream& in, uint32_t& seq, uint32_t& length) {
  uint32_t end = 0;
  if (!in.TakeInteger("a sequence number", seq) || !in.Expect(':')) return false;
  const Pos pos = in.Peek().pos;
  if (!in.TakeInteger("a sequence number", end) || !in.Expect('(')) return false;
  if (!in.TakeInteger("a payload length", length) || !in.Expect(')')) return false;
  constexpr uint32_t kMaxPayload = 1u << 20;
  if (length > kMaxPayload) return in.FailAt(pos, "payload above 1 MiB", false);
  if (seq + length != end) {
    return in.FailAt(pos,
                     absl::StrCat("sequence numbers and length do not fit: ", seq, " + ", length,
                                  " is ", seq + length, ", not ", end),
                     false);
  }
  return true;
}

bool ParsePacket(TokenStream& in, PacketSpec& packet) {
  packet.inbound = in.Take().Is('<');
  if (!ParseIpSpec(in, packet.ip)) return false;
  for (const char* protocol : kUnsupportedProtocols) {
    if (in.Peek().IsWord(protocol)) return in.Unsupported(std::string(protocol) + " packets");
  }
  if (in.AcceptWord("udp")) return ParseUdp(in, packet.body.emplace<UdpSpec>());
  if (in.Peek().Is('[') || in.Peek().IsWord("icmp") || in.Peek().IsWord("icmpv6")) {
    return ParseIcmp(in, packet.body.emplace<IcmpSpec>());
  }
  return ParseTcp(in, packet.body.emplace<TcpSpec>());
}

}  // namespace tapwire::pkt
