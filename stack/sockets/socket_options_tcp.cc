// SPDX-License-Identifier: Apache-2.0
// IPPROTO_TCP:
//
//   TCP_NODELAY TCP_MAXSEG TCP_CORK TCP_KEEPIDLE TCP_KEEPINTVL TCP_KEEPCNT TCP_SYNCNT
//   TCP_WINDOW_CLAMP TCP_QUICKACK TCP_CONGESTION TCP_USER_TIMEOUT
//   TCP_INFO (read only), TCP_CC_INFO (always empty)
//   TCP_LINGER2 TCP_DEFER_ACCEPT TCP_NOTSENT_LOWAT TCP_SAVE_SYN TCP_SAVED_SYN TCP_INQ

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>

#include "stack/sockets/socket_options.h"
#include "stack/tcp/congestion_control.h"

// Newer than some C libraries.
#ifndef TCP_CC_INFO
#define TCP_CC_INFO 26
#endif
#ifndef TCP_INQ
#define TCP_INQ 36
#endif

namespace tapwire::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kMinMss = 88;
constexpr int kMaxMss = 32767;
constexpr int kMaxKeepaliveSeconds = 32767;
constexpr int kMaxKeepaliveProbes = 127;
constexpr int kMaxSynRetries = 127;
constexpr int kMaxLinger2Seconds = 120;
constexpr int kMinWindowClamp = 1152;       // half of the least SO_RCVBUF
constexpr size_t kCongestionNameSize = 16;  // TCP_CA_NAME_MAX, with its NUL

int SecondsOf(Duration duration) {
  return static_cast<int>(std::chrono::duration_cast<seconds>(duration).count());
}

// TCP_DEFER_ACCEPT in seconds stands for a number of SYN-ACKs, whose interval starts at 1 s and
// doubles up to 120 s.
int RetriesFor(int wanted_s) {
  if (wanted_s <= 0) return 0;
  int retries = 1;
  int timeout = 1;
  for (int period = 1; wanted_s > period && retries < 255; ++retries) {
    timeout = std::min(timeout * 2, 120);
    period += timeout;
  }
  return retries;
}

int SecondsFor(int retries) {
  if (retries <= 0) return 0;
  int period = 1;
  int timeout = 1;
  while (--retries > 0) {
    timeout = std::min(timeout * 2, 120);
    period += timeout;
  }
  return period;
}

int PutCongestion(const OptionBuffer& out, const std::string& name) {
  std::array<char, kCongestionNameSize> padded = {};
  std::copy_n(name.begin(), std::min(name.size(), kCongestionNameSize - 1), padded.begin());
  return out.Put(padded.data(), padded.size());
}

int ReadCongestion(const OptionInput& in, std::string& name) {
  if (static_cast<int>(in.length) < 1) return -EINVAL;
  if (in.value == nullptr) return -EFAULT;
  const char* text = static_cast<const char*>(in.value);
  const std::string wanted(text,
                           strnlen(text, std::min<size_t>(in.length, kCongestionNameSize - 1)));
  if (!tcp::CongestionControlSlot::IsKnown(wanted)) return -ENOENT;
  name = wanted;
  return 0;
}

int ReadMaxSegment(int value, tcp::SocketOptions& o) {
  if (value != 0 && (value < kMinMss || value > kMaxMss)) return -EINVAL;
  o.max_segment = static_cast<uint16_t>(value);
  return 0;
}

int ReadWindowClamp(int value, const TcpFacts& facts, tcp::SocketOptions& o) {
  if (value == 0 && !facts.closed) return -EINVAL;
  o.window_clamp = value == 0 ? 0 : static_cast<uint32_t>(std::max(value, kMinWindowClamp));
  return 0;
}

int ReadLinger2(int value, TcpOptionState& o) {
  if (value < 0 || value > kMaxLinger2Seconds) {
    o.linger2_s = value < 0 ? -1 : kMaxLinger2Seconds;
  } else if (value == 0) {
    o.linger2_s.reset();
  } else {
    o.linger2_s = value;
  }
  o.socket.fin_wait_2.reset();
  if (o.linger2_s) o.socket.fin_wait_2 = seconds(*o.linger2_s);
  return 0;
}

int ReadFlag(int value, bool& flag) {
  if (value < 0 || value > 1) return -EINVAL;
  flag = value != 0;
  return 0;
}

int PutSavedSyn(const OptionBuffer& out, const TcpFacts& facts) {
  if (!facts.take_saved_syn) return out.Put(nullptr, 0);
  const std::vector<uint8_t> syn = facts.take_saved_syn();
  return out.Put(syn.data(), syn.size());
}

int SetKeepalive(int name, int value, tcp::SocketOptions& o) {
  const int most = name == TCP_KEEPCNT ? kMaxKeepaliveProbes : kMaxKeepaliveSeconds;
  if (value < 1 || value > most) return -EINVAL;
  if (name == TCP_KEEPIDLE) o.keepalive_idle = seconds(value);
  if (name == TCP_KEEPINTVL) o.keepalive_interval = seconds(value);
  if (name == TCP_KEEPCNT) o.keepalive_probes = value;
  return 0;
}

}  // namespace

int GetTcpOption(const OptionBuffer& out, const TcpOptionState& options, const TcpFacts& facts) {
  const tcp::SocketOptions& o = options.socket;
  const tcp::Config& config = *facts.config;
  const bool user_mss = facts.closed || facts.listening;
  switch (out.name) {
    case TCP_NODELAY:
      return out.PutInt(o.nodelay);
    case TCP_CORK:
      return out.PutInt(o.cork);
    case TCP_MAXSEG:
      return out.PutInt(user_mss && o.max_segment != 0 ? o.max_segment
                                                       : static_cast<int>(facts.mss));
    case TCP_KEEPIDLE:
      return out.PutInt(SecondsOf(o.keepalive_idle.value_or(config.keepalive_idle)));
    case TCP_KEEPINTVL:
      return out.PutInt(SecondsOf(o.keepalive_interval.value_or(config.keepalive_interval)));
    case TCP_KEEPCNT:
      return out.PutInt(o.keepalive_probes.value_or(config.keepalive_probes));
    case TCP_SYNCNT:
      return out.PutInt(o.syn_retries != 0 ? o.syn_retries : config.syn_retries);
    case TCP_LINGER2:
      return out.PutInt(options.linger2_s.value_or(SecondsOf(config.fin_wait_2)));
    case TCP_DEFER_ACCEPT:
      return out.PutInt(SecondsFor(o.defer_accept));
    case TCP_WINDOW_CLAMP:
      return out.PutInt(static_cast<int>(o.window_clamp));
    case TCP_QUICKACK:
      return out.PutInt(options.quick_ack_told);
    case TCP_USER_TIMEOUT:
      return out.PutInt(
          static_cast<int>(std::chrono::duration_cast<milliseconds>(o.user_timeout).count()));
    case TCP_CONGESTION:
      return PutCongestion(
          out, o.congestion_control.empty() ? config.congestion_control : o.congestion_control);
    case TCP_INFO:
      return out.Put(&facts.info, sizeof(facts.info));
    case TCP_CC_INFO:
      return out.Put(nullptr, 0);
    case TCP_NOTSENT_LOWAT:
      return out.PutInt(static_cast<int>(o.notsent_low_water));
    case TCP_SAVE_SYN:
      return out.PutInt(o.save_syn);
    case TCP_SAVED_SYN:
      return PutSavedSyn(out, facts);
    case TCP_INQ:
      return out.PutInt(options.tell_unread);
    default:
      return -ENOPROTOOPT;
  }
}

int SetTcpOption(const OptionInput& in, TcpOptionState& options, const TcpFacts& facts) {
  tcp::SocketOptions& o = options.socket;
  if (in.name == TCP_CONGESTION) return ReadCongestion(in, o.congestion_control);
  int value = 0;
  if (const int bad = in.GetInt(value)) return bad;
  switch (in.name) {
    case TCP_NODELAY:
      o.nodelay = value != 0;
      return 0;
    case TCP_CORK:
      o.cork = value != 0;
      return 0;
    case TCP_MAXSEG:
      return ReadMaxSegment(value, o);
    case TCP_KEEPIDLE:
    case TCP_KEEPINTVL:
    case TCP_KEEPCNT:
      return SetKeepalive(in.name, value, o);
    case TCP_SYNCNT:
      if (value < 1 || value > kMaxSynRetries) return -EINVAL;
      o.syn_retries = value;
      return 0;
    case TCP_LINGER2:
      return ReadLinger2(value, options);
    case TCP_DEFER_ACCEPT:
      o.defer_accept = RetriesFor(value);
      return 0;
    case TCP_WINDOW_CLAMP:
      return ReadWindowClamp(value, facts, o);
    case TCP_QUICKACK:
      o.quick_ack = options.quick_ack_told = value != 0;
      return 0;
    case TCP_USER_TIMEOUT:
      if (value < 0) return -EINVAL;
      o.user_timeout = milliseconds(value);
      return 0;
    case TCP_NOTSENT_LOWAT:
      o.notsent_low_water = static_cast<uint32_t>(value);
      return 0;
    case TCP_SAVE_SYN:
      return ReadFlag(value, o.save_syn);
    case TCP_INQ:
      return ReadFlag(value, options.tell_unread);
    default:
      return -ENOPROTOOPT;
  }
}

namespace {

uint8_t LinuxState(tcp::State state) {
  switch (state) {
    case tcp::State::kEstablished:
      return 1;
    case tcp::State::kSynSent:
      return 2;
    case tcp::State::kSynReceived:
      return 3;
    case tcp::State::kFinWait1:
      return 4;
    case tcp::State::kFinWait2:
      return 5;
    case tcp::State::kTimeWait:
      return 6;
    case tcp::State::kClosed:
      return kLinuxTcpClose;
    case tcp::State::kCloseWait:
      return 8;
    case tcp::State::kLastAck:
      return 9;
    case tcp::State::kClosing:
      return 11;
  }
  return kLinuxTcpClose;
}

// Linux has no threshold yet as the largest int; windows in segments.
uint32_t SegmentsOf(uint32_t bytes, uint32_t mss) {
  if (bytes >= 0x7fffffff) return 0x7fffffff;
  return mss == 0 ? bytes : bytes / mss;
}

void ConvertCounts(const tcp::TcpInfo& info, LinuxTcpInfo& out) {
  out.unacked = info.unacked_segs;
  out.sacked = info.sacked_segs;
  out.lost = info.lost_segs;
  out.retrans = info.retrans_segs;
  out.total_retrans = info.total_retrans_segs;
  out.delivered = info.delivered_segs;
  out.rcv_ooopack = info.out_of_order_segs;
  out.dsack_dups = info.dsacks;
  out.total_rto = static_cast<uint16_t>(info.timeouts);
  out.total_rto_recoveries = static_cast<uint16_t>(info.timeout_recoveries);
  out.total_rto_time = info.timeout_ms;
  out.busy_time = info.busy_us;
  out.rwnd_limited = info.window_limited_us;
  out.sndbuf_limited = info.buffer_limited_us;
  out.bytes_acked = info.bytes_acked;
  out.bytes_received = info.bytes_received;
  out.bytes_sent = info.bytes_sent;
  out.bytes_retrans = info.bytes_retrans;
  out.segs_out = info.segs_out;
  out.segs_in = info.segs_in;
  out.data_segs_in = info.data_segs_in;
  out.data_segs_out = info.data_segs_out;
  out.notsent_bytes = info.notsent_bytes;
}

}  // namespace

LinuxTcpInfo ToLinux(const tcp::TcpInfo& info) {
  LinuxTcpInfo out = {};
  out.state = LinuxState(info.state);
  out.ca_state = static_cast<uint8_t>(info.ca_state);
  out.retransmits = info.retransmits;
  out.probes = info.probes;
  out.backoff = info.backoff;
  out.options = static_cast<uint8_t>((info.timestamps ? TCPI_OPT_TIMESTAMPS : 0) |
                                     (info.sack ? TCPI_OPT_SACK : 0) |
                                     (info.window_scaling ? TCPI_OPT_WSCALE : 0));
  out.wscale = static_cast<uint8_t>((info.snd_wscale & 15) | (info.rcv_wscale << 4));
  out.rto = info.rto_us;
  out.ato = info.ato_us;
  out.snd_mss = info.snd_mss;
  out.rcv_mss = info.rcv_mss;
  out.advmss = info.advmss;
  out.pmtu = info.pmtu;
  out.rtt = info.rtt_us;
  out.rttvar = info.rttvar_us;
  out.min_rtt = info.min_rtt_us;
  out.snd_cwnd = SegmentsOf(info.snd_cwnd_bytes, info.snd_mss);
  out.snd_ssthresh = SegmentsOf(info.snd_ssthresh_bytes, info.snd_mss);
  out.reordering = 3;
  out.rcv_space = info.rcv_space;
  out.rcv_ssthresh = info.rcv_wnd;
  out.snd_wnd = info.snd_wnd;
  out.rcv_wnd = info.rcv_wnd;
  out.last_data_sent = info.last_data_sent_ms;
  out.last_data_recv = info.last_data_recv_ms;
  out.last_ack_recv = info.last_ack_recv_ms;
  ConvertCounts(info, out);
  if (!info.linux_habits) return out;
  out.rcv_ssthresh = info.rcv_ssthresh;
  if (info.rtt_us == 0) {
    out.min_rtt = UINT32_MAX;
    out.rttvar = 250'000;
  }
  if (info.state == tcp::State::kSynSent) out.options = out.wscale = 0;
  return out;
}

}  // namespace tapwire::internal
