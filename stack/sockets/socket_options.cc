// SPDX-License-Identifier: Apache-2.0
// SOL_SOCKET, IPPROTO_IP and IPPROTO_IPV6, with Linux's ranges, roundings and order of checks.

#include "stack/sockets/socket_options.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace tapwire::internal {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

// Linux tells twice what was asked for, its bookkeeping included, and never less than these.
constexpr size_t kMinSendBuffer = 4608;
constexpr size_t kMinReceiveBuffer = 2304;
constexpr int kMaxTos = 255;

timeval ToTimeval(Duration duration) {
  const auto us = std::chrono::duration_cast<microseconds>(duration).count();
  return {static_cast<time_t>(us / 1'000'000), static_cast<suseconds_t>(us % 1'000'000)};
}

int ReadTimeout(const OptionInput& in, Duration& timeout) {
  timeval value;
  if (const int bad = in.Get(&value, sizeof(value))) return bad;
  if (value.tv_usec < 0 || value.tv_usec >= 1'000'000) return -EDOM;
  // Linux: a negative time is no wait at all; zero is for ever.
  constexpr time_t kMaxSeconds = 100'000'000;
  timeout = value.tv_sec < 0
                ? Duration(1)
                : seconds(std::min(value.tv_sec, kMaxSeconds)) + microseconds(value.tv_usec);
  return 0;
}

int ReadLinger(const OptionInput& in, std::optional<Duration>& linger) {
  struct linger value;
  if (const int bad = in.Get(&value, sizeof(value))) return bad;
  linger.reset();
  if (value.l_onoff != 0) linger = seconds(static_cast<unsigned>(value.l_linger));
  return 0;
}

int PutLinger(const OptionBuffer& out, const std::optional<Duration>& linger) {
  struct linger value = {};
  value.l_onoff = linger ? 1 : 0;
  if (linger)
    value.l_linger = static_cast<int>(std::chrono::duration_cast<seconds>(*linger).count());
  return out.Put(&value, sizeof(value));
}

// The size as getsockopt tells it, from the user bytes that are kept.
int PutBuffer(const OptionBuffer& out, size_t set, size_t automatic, size_t least) {
  const size_t size = set == 0 ? automatic : std::max(2 * set, least);
  return out.PutInt(static_cast<int>(std::min<size_t>(size, 0x7fffffff)));
}

int ReadBuffer(const OptionInput& in, size_t limits_max, size_t least, size_t& set) {
  int value = 0;
  if (const int bad = in.GetInt(value)) return bad;
  // Linux compares unsigned: a negative size is a huge one.
  set = std::clamp<size_t>(static_cast<unsigned>(value), least / 2, std::max(limits_max, least));
  return 0;
}

int ReadBool(const OptionInput& in, bool& flag) {
  int value = 0;
  if (const int bad = in.GetInt(value)) return bad;
  flag = value != 0;
  return 0;
}

// More than half of the buffer would never be reached; the option's 0 is 1, a negative one "most".
int LowWater(int value, const CommonOptions& o, const SocketFacts& facts) {
  const size_t half = (o.receive_buffer != 0 ? 2 * o.receive_buffer : facts.receive_buffer_max) / 2;
  const auto most = static_cast<int>(std::min<size_t>(half, 0x7fffffff));
  if (value < 0) value = 0x7fffffff;
  return std::max(o.type == SOCK_STREAM ? std::min(value, most) : value, 1);
}

int ReadRange(const OptionInput& in, int low, int high, int& target) {
  int value = 0;
  if (const int bad = in.GetInt(value)) return bad;
  if (value < low || value > high) return -EINVAL;
  target = value;
  return 0;
}

// The IP level takes a single byte, too.
int ReadSmall(const OptionInput& in, int& value) {
  if (in.value == nullptr && in.length > 0) return -EFAULT;
  if (in.length >= sizeof(int)) return in.GetInt(value);
  value = in.length >= 1 ? *static_cast<const uint8_t*>(in.value) : 0;
  return 0;
}

int GetSocket(const OptionBuffer& out, const CommonOptions& o, const SocketFacts& facts) {
  switch (out.name) {
    case SO_ERROR:
      return out.PutInt(facts.error);
    case SO_TYPE:
      return out.PutInt(o.type);
    case SO_DOMAIN:
      return out.PutInt(o.family == IpFamily::kV4 ? AF_INET : AF_INET6);
    case SO_PROTOCOL:
      return out.PutInt(o.protocol);
    case SO_ACCEPTCONN:
      return out.PutInt(facts.listening);
    case SO_REUSEADDR:
      return out.PutInt(o.reuse_address);
    case SO_REUSEPORT:
      return out.PutInt(o.reuse_port);
    case SO_KEEPALIVE:
      return out.PutInt(o.keepalive);
    case SO_BROADCAST:
      return out.PutInt(o.broadcast);
    case SO_OOBINLINE:
      return out.PutInt(o.oob_inline);
    case SO_PRIORITY:
      return out.PutInt(o.priority);
    case SO_LINGER:
      return PutLinger(out, o.linger);
    case SO_SNDBUF:
      return PutBuffer(out, o.send_buffer, facts.send_buffer, kMinSendBuffer);
    case SO_RCVBUF:
      return PutBuffer(out, o.receive_buffer, facts.receive_buffer, kMinReceiveBuffer);
    case SO_RCVLOWAT:
      return out.PutInt(o.receive_low_water);
    case SO_SNDLOWAT:
      return out.PutInt(1);
    case SO_RCVTIMEO:
    case SO_SNDTIMEO: {
      const timeval value = ToTimeval(out.name == SO_RCVTIMEO ? o.receive_timeout : o.send_timeout);
      return out.Put(&value, sizeof(value));
    }
    default:
      return -ENOPROTOOPT;
  }
}

int SetSocket(const OptionInput& in, CommonOptions& o, const SocketFacts& facts) {
  int value = 0;
  if (in.name != SO_LINGER && in.name != SO_RCVTIMEO && in.name != SO_SNDTIMEO) {
    if (const int bad = in.GetInt(value)) return bad;
  }
  switch (in.name) {
    case SO_TYPE:
    case SO_DOMAIN:
    case SO_PROTOCOL:
    case SO_ERROR:
    case SO_ACCEPTCONN:
    case SO_SNDLOWAT:
      return -ENOPROTOOPT;
    case SO_REUSEADDR:
      return ReadBool(in, o.reuse_address);
    case SO_REUSEPORT:
      return ReadBool(in, o.reuse_port);
    case SO_KEEPALIVE:
      return ReadBool(in, o.keepalive);
    case SO_BROADCAST:
      return ReadBool(in, o.broadcast);
    case SO_OOBINLINE:
      return ReadBool(in, o.oob_inline);
    case SO_PRIORITY:
      if (value < 0 || value > 6) return -EPERM;
      o.priority = value;
      return 0;
    case SO_LINGER:
      return ReadLinger(in, o.linger);
    case SO_SNDBUF:
      return ReadBuffer(in, facts.send_buffer_max, kMinSendBuffer, o.send_buffer);
    case SO_RCVBUF:
      return ReadBuffer(in, facts.receive_buffer_max, kMinReceiveBuffer, o.receive_buffer);
    case SO_RCVLOWAT:
      o.receive_low_water = LowWater(value, o, facts);
      return 0;
    case SO_RCVTIMEO:
      return ReadTimeout(in, o.receive_timeout);
    case SO_SNDTIMEO:
      return ReadTimeout(in, o.send_timeout);
    default:
      return -ENOPROTOOPT;
  }
}

int GetIp(const OptionBuffer& out, const CommonOptions& o, const SocketFacts& facts) {
  switch (out.name) {
    case IP_TOS:
      return out.PutSmall(o.tos);
    case IP_TTL:
      return out.PutSmall(o.ttl < 0 ? facts.default_ttl : o.ttl);
    case IP_MTU:
      if (!facts.path_mtu) return -ENOTCONN;
      // An IPv4 packet is never larger (RFC 791 §3.1), whatever the device takes.
      return out.PutInt(static_cast<int>(std::min<uint32_t>(*facts.path_mtu, 65535)));
    case IP_MTU_DISCOVER:
      return out.PutSmall(o.mtu_discover);
    case IP_RECVERR:
      return out.PutSmall(o.receive_errors);
    default:
      return -ENOPROTOOPT;
  }
}

int SetIp(const OptionInput& in, CommonOptions& o) {
  int value = 0;
  if (const int bad = ReadSmall(in, value)) return bad;
  switch (in.name) {
    case IP_TOS:
      // RFC 3168: on a stream the ECN bits are not the user's.
      o.tos = o.type == SOCK_STREAM ? (value & 0xfc) | (o.tos & 3) : value & kMaxTos;
      return 0;
    case IP_TTL:
      if (in.length < 1 || (value != -1 && (value < 1 || value > 255))) return -EINVAL;
      o.ttl = value;
      return 0;
    case IP_MTU_DISCOVER:
      if (value < IP_PMTUDISC_DONT || value > IP_PMTUDISC_OMIT) return -EINVAL;
      o.mtu_discover = value;
      return 0;
    case IP_RECVERR:
      o.receive_errors = value != 0;
      return 0;
    default:
      return -ENOPROTOOPT;
  }
}

int GetIpv6(const OptionBuffer& out, const CommonOptions& o, const SocketFacts& facts) {
  switch (out.name) {
    case IPV6_V6ONLY:
      return out.PutInt(o.v6_only);
    case IPV6_UNICAST_HOPS:
      return out.PutInt(o.hop_limit < 0 ? facts.default_hop_limit : o.hop_limit);
    case IPV6_TCLASS:
      return out.PutInt(o.traffic_class);
    case IPV6_MTU:
      if (!facts.path_mtu) return -ENOTCONN;
      return out.PutInt(static_cast<int>(*facts.path_mtu));
    case IPV6_MTU_DISCOVER:
      return out.PutInt(o.mtu_discover);
    case IPV6_RECVERR:
      return out.PutInt(o.receive_errors);
    default:
      return -ENOPROTOOPT;
  }
}

int SetIpv6(const OptionInput& in, CommonOptions& o, const SocketFacts& facts) {
  switch (in.name) {
    case IPV6_V6ONLY:
      if (in.length < sizeof(int) || facts.bound) return -EINVAL;
      return ReadBool(in, o.v6_only);
    case IPV6_UNICAST_HOPS:
      return ReadRange(in, -1, 255, o.hop_limit);
    case IPV6_TCLASS: {
      int value = 0;
      if (const int bad = ReadRange(in, -1, 255, value)) return bad;
      if (value < 0) value = 0;
      o.traffic_class = o.type == SOCK_STREAM ? (value & 0xfc) | (o.traffic_class & 3) : value;
      return 0;
    }
    case IPV6_MTU_DISCOVER:
      return ReadRange(in, IP_PMTUDISC_DONT, IP_PMTUDISC_OMIT, o.mtu_discover);
    case IPV6_RECVERR:
      return ReadBool(in, o.receive_errors);
    default:
      return -ENOPROTOOPT;
  }
}

}  // namespace

int OptionBuffer::Put(const void* from, size_t size) const {
  if (length == nullptr) return -EFAULT;
  if (static_cast<int>(*length) < 0) return -EINVAL;
  const size_t n = std::min<size_t>(*length, size);
  if (value == nullptr && n > 0) return -EFAULT;
  if (n > 0) std::memcpy(value, from, n);
  *length = static_cast<socklen_t>(n);
  return 0;
}

int OptionBuffer::PutSmall(int n) const {
  if (length != nullptr && *length > 0 && *length < sizeof(int) && n >= 0 && n <= 255) {
    const auto byte = static_cast<uint8_t>(n);
    return Put(&byte, 1);
  }
  return PutInt(n);
}

int OptionInput::Get(void* into, size_t size) const {
  // Linux reads an int first, whatever the option is.
  if (static_cast<int>(length) < 0 || length < sizeof(int)) return -EINVAL;
  if (value == nullptr) return -EFAULT;
  if (length < size) return -EINVAL;
  std::memcpy(into, value, size);
  return 0;
}

int GetCommonOption(const OptionBuffer& out, const CommonOptions& options,
                    const SocketFacts& facts) {
  switch (out.level) {
    case SOL_SOCKET:
      return GetSocket(out, options, facts);
    case IPPROTO_IP:
      return GetIp(out, options, facts);
    case IPPROTO_IPV6:
      if (options.family == IpFamily::kV6) return GetIpv6(out, options, facts);
      return -EOPNOTSUPP;
    default:
      // Linux: the two families differ here.
      return options.family == IpFamily::kV4 ? -EOPNOTSUPP : -ENOPROTOOPT;
  }
}

int SetCommonOption(const OptionInput& in, CommonOptions& options, const SocketFacts& facts) {
  switch (in.level) {
    case SOL_SOCKET:
      return SetSocket(in, options, facts);
    case IPPROTO_IP:
      return SetIp(in, options);
    case IPPROTO_IPV6:
      return options.family == IpFamily::kV6 ? SetIpv6(in, options, facts) : -ENOPROTOOPT;
    default:
      return -ENOPROTOOPT;
  }
}

}  // namespace tapwire::internal
