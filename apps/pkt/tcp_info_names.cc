// SPDX-License-Identifier: Apache-2.0
// Fields of Linux's struct tcp_info by name, read from the bytes that getsockopt gives.

#include <cstddef>
#include <cstring>

#include "absl/strings/strip.h"
#include "apps/pkt/interpreter.h"
#include "stack/sockets/socket_options.h"

namespace tapwire::pkt {
namespace {

using internal::LinuxTcpInfo;

struct InfoField {
  const char* name;
  size_t offset;
  size_t size;
};

#define TW_FIELD(name) \
  { #name, offsetof(LinuxTcpInfo, name), sizeof(LinuxTcpInfo::name) }

constexpr InfoField kFields[] = {
    TW_FIELD(state),
    TW_FIELD(ca_state),
    TW_FIELD(retransmits),
    TW_FIELD(probes),
    TW_FIELD(backoff),
    TW_FIELD(options),
    TW_FIELD(rto),
    TW_FIELD(ato),
    TW_FIELD(snd_mss),
    TW_FIELD(rcv_mss),
    TW_FIELD(unacked),
    TW_FIELD(sacked),
    TW_FIELD(lost),
    TW_FIELD(retrans),
    TW_FIELD(fackets),
    TW_FIELD(last_data_sent),
    TW_FIELD(last_ack_sent),
    TW_FIELD(last_data_recv),
    TW_FIELD(last_ack_recv),
    TW_FIELD(pmtu),
    TW_FIELD(rcv_ssthresh),
    TW_FIELD(rtt),
    TW_FIELD(rttvar),
    TW_FIELD(snd_ssthresh),
    TW_FIELD(snd_cwnd),
    TW_FIELD(advmss),
    TW_FIELD(reordering),
    TW_FIELD(rcv_rtt),
    TW_FIELD(rcv_space),
    TW_FIELD(total_retrans),
    TW_FIELD(bytes_acked),
    TW_FIELD(bytes_received),
    TW_FIELD(segs_out),
    TW_FIELD(segs_in),
    TW_FIELD(notsent_bytes),
    TW_FIELD(min_rtt),
    TW_FIELD(data_segs_in),
    TW_FIELD(data_segs_out),
    TW_FIELD(delivered),
    TW_FIELD(delivered_ce),
    TW_FIELD(delivery_rate),
    TW_FIELD(pacing_rate),
    TW_FIELD(max_pacing_rate),
    TW_FIELD(reord_seen),
    TW_FIELD(bytes_sent),
    TW_FIELD(bytes_retrans),
    TW_FIELD(dsack_dups),
    TW_FIELD(rcv_ooopack),
    TW_FIELD(snd_wnd),
    TW_FIELD(rcv_wnd),
    TW_FIELD(total_rto),
    TW_FIELD(total_rto_recoveries),
    TW_FIELD(total_rto_time),
    TW_FIELD(busy_time),
    TW_FIELD(rwnd_limited),
    TW_FIELD(sndbuf_limited),
};

#undef TW_FIELD

struct Constant {
  const char* name;
  int64_t value;
};
constexpr Constant kConstants[] = {
    {"TCP_ESTABLISHED", 1},
    {"TCP_SYN_SENT", 2},
    {"TCP_SYN_RECV", 3},
    {"TCP_FIN_WAIT1", 4},
    {"TCP_FIN_WAIT2", 5},
    {"TCP_TIME_WAIT", 6},
    {"TCP_CLOSE", 7},
    {"TCP_CLOSE_WAIT", 8},
    {"TCP_LAST_ACK", 9},
    {"TCP_LISTEN", 10},
    {"TCP_CLOSING", 11},
    {"TCP_CA_Open", 0},
    {"TCP_CA_Disorder", 1},
    {"TCP_CA_CWR", 2},
    {"TCP_CA_Recovery", 3},
    {"TCP_CA_Loss", 4},
    {"TCPI_OPT_TIMESTAMPS", 1},
    {"TCPI_OPT_SACK", 2},
    {"TCPI_OPT_WSCALE", 4},
    {"TCPI_OPT_ECN", 8},
    {"TCPI_OPT_ECN_SEEN", 16},
    {"TCPI_OPT_SYN_DATA", 32},
    {"TCP_INFINITE_SSTHRESH", 0x7fffffff},
};

std::optional<int64_t> ReadField(absl::string_view name, const std::string& info) {
  // Two fields of four bits share a byte.
  if (name == "snd_wscale" || name == "rcv_wscale") {
    const size_t at = offsetof(LinuxTcpInfo, wscale);
    if (at >= info.size()) return std::nullopt;
    const auto both = static_cast<uint8_t>(info[at]);
    return name == "snd_wscale" ? both & 0x0f : both >> 4;
  }
  for (const InfoField& field : kFields) {
    if (name != field.name || field.offset + field.size > info.size()) continue;
    uint64_t value = 0;  // little-endian, as the machine is
    std::memcpy(&value, info.data() + field.offset, field.size);
    return static_cast<int64_t>(value);
  }
  return std::nullopt;
}

}  // namespace

std::optional<CodeValue> LookupTcpInfo(absl::string_view name,
                                       const std::optional<std::string>& info) {
  for (const Constant& constant : kConstants) {
    if (name == constant.name) return CodeValue::Integer(constant.value);
  }
  if (!info || !absl::ConsumePrefix(&name, "tcpi_")) return std::nullopt;
  const auto value = ReadField(name, *info);
  if (!value) return std::nullopt;
  return CodeValue::Integer(*value);
}

}  // namespace tapwire::pkt
