// SPDX-License-Identifier: Apache-2.0
#include "tests/apps/packetdrill/segment.h"

#include <arpa/inet.h>

#include <array>
#include <cstddef>

namespace tapwire::packetdrill {
namespace {

constexpr uint8_t kTcp = 6, kUdp = 17;

void Put16(Bytes& out, uint32_t value) {
  out.push_back(static_cast<uint8_t>(value >> 8));
  out.push_back(static_cast<uint8_t>(value));
}

void Put32(Bytes& out, uint32_t value) {
  Put16(out, value >> 16);
  Put16(out, value & 0xffff);
}

uint16_t Get16(const Bytes& in, size_t at) {
  return static_cast<uint16_t>(in.at(at) << 8 | in.at(at + 1));
}

uint32_t Get32(const Bytes& in, size_t at) {
  return static_cast<uint32_t>(Get16(in, at)) << 16 | Get16(in, at + 2);
}

Bytes AddressBytes(const std::string& text) {
  const bool v6 = text.find(':') != std::string::npos;
  Bytes out(v6 ? 16 : 4);
  inet_pton(v6 ? AF_INET6 : AF_INET, text.c_str(), out.data());
  return out;
}

std::string AddressText(const Bytes& in, size_t at, size_t length) {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  inet_ntop(length == 4 ? AF_INET : AF_INET6, &in.at(at), text.data(), text.size());
  return text.data();
}

// RFC 9293 §3.1 and RFC 8200 §8.1: both pseudo-headers sum up alike.
uint16_t TransportSum(const Bytes& source, const Bytes& destination, uint8_t protocol,
                      const Bytes& message) {
  Bytes all = source;
  all.insert(all.end(), destination.begin(), destination.end());
  Put32(all, static_cast<uint32_t>(message.size()));
  Put32(all, protocol);
  all.insert(all.end(), message.begin(), message.end());
  return Checksum(all);
}

Bytes TransportBytes(const Segment& s) {
  Bytes out;
  Put16(out, s.source_port);
  Put16(out, s.destination_port);
  if (s.udp) {
    Put16(out, static_cast<uint32_t>(8 + s.payload.size()));
    Put16(out, 0);
  } else {
    Put32(out, s.seq);
    Put32(out, s.ack);
    out.push_back(static_cast<uint8_t>((20 + s.options.size()) / 4 << 4));
    out.push_back(s.flags);
    Put16(out, s.window);
    Put32(out, 0);  // checksum, urgent pointer
    out.insert(out.end(), s.options.begin(), s.options.end());
  }
  out.insert(out.end(), s.payload.begin(), s.payload.end());
  const uint16_t sum =
      TransportSum(AddressBytes(s.source), AddressBytes(s.destination), s.udp ? kUdp : kTcp, out);
  const size_t at = s.udp ? 6 : 16;
  out[at] = static_cast<uint8_t>(sum >> 8);
  out[at + 1] = static_cast<uint8_t>(sum);
  return out;
}

void ParseTransport(const Bytes& body, uint8_t protocol, Segment& s) {
  s.udp = protocol == kUdp;
  const size_t least = s.udp ? 8 : 20;
  if ((protocol != kTcp && protocol != kUdp) || body.size() < least) {
    s.sound = false;
    return;
  }
  s.sound = s.sound &&
            TransportSum(AddressBytes(s.source), AddressBytes(s.destination), protocol, body) == 0;
  s.source_port = Get16(body, 0);
  s.destination_port = Get16(body, 2);
  size_t header = 8;
  if (!s.udp) {
    s.seq = Get32(body, 4);
    s.ack = Get32(body, 8);
    header = static_cast<size_t>(body[12] >> 4) * 4;
    s.flags = body[13];
    s.window = Get16(body, 14);
    if (header < 20 || header > body.size()) {
      s.sound = false;
      return;
    }
    s.options.assign(body.begin() + 20, body.begin() + static_cast<ptrdiff_t>(header));
  }
  s.payload.assign(body.begin() + static_cast<ptrdiff_t>(header), body.end());
}

}  // namespace

uint16_t Checksum(const Bytes& bytes) {
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    sum += i % 2 == 0 ? static_cast<uint64_t>(bytes[i]) << 8 : bytes[i];
  }
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

Bytes BuildSegment(const Segment& s) {
  const Bytes body = TransportBytes(s);
  const Bytes source = AddressBytes(s.source);
  const Bytes destination = AddressBytes(s.destination);
  const uint8_t protocol = s.udp ? kUdp : kTcp;
  Bytes out;
  if (source.size() == 4) {
    Put16(out, 0x4500);
    Put16(out, static_cast<uint32_t>(20 + body.size()));
    Put32(out, 0x4000);  // identification 0, don't fragment
    Put16(out, 0xff00u | protocol);
    Put16(out, 0);
  } else {
    Put32(out, 0x60000000);
    Put16(out, static_cast<uint32_t>(body.size()));
    Put16(out, static_cast<uint32_t>(protocol << 8 | 0xff));
  }
  out.insert(out.end(), source.begin(), source.end());
  out.insert(out.end(), destination.begin(), destination.end());
  if (source.size() == 4) {
    const uint16_t sum = Checksum(out);
    out[10] = static_cast<uint8_t>(sum >> 8);
    out[11] = static_cast<uint8_t>(sum);
  }
  out.insert(out.end(), body.begin(), body.end());
  return out;
}

Segment ParseSegment(const Bytes& in) {
  Segment s;
  const bool v6 = !in.empty() && in[0] >> 4 == 6;
  const size_t header = v6 ? 40 : 20;
  s.sound = in.size() >= header && (v6 || in[0] == 0x45);
  if (!s.sound) return s;
  s.source = v6 ? AddressText(in, 8, 16) : AddressText(in, 12, 4);
  s.destination = v6 ? AddressText(in, 24, 16) : AddressText(in, 16, 4);
  s.sound = v6 ? Get16(in, 4) + size_t{40} == in.size()
               : Get16(in, 2) == in.size() && Checksum({in.begin(), in.begin() + 20}) == 0;
  ParseTransport({in.begin() + static_cast<ptrdiff_t>(header), in.end()}, v6 ? in[6] : in[9], s);
  return s;
}

}  // namespace tapwire::packetdrill
