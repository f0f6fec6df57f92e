// SPDX-License-Identifier: Apache-2.0
// The snapshot of a connection that TCP_INFO and the tools show.

#include "stack/tcp/tcp_info.h"

#include <algorithm>

#include "stack/stack.h"
#include "stack/tcp/config.h"
#include "stack/tcp/connection.h"
#include "stack/tcp/habits.h"
#include "stack/tcp/tcp.h"

namespace tapwire::tcp {
namespace {

uint32_t Microseconds(Duration d) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(d).count();
  return static_cast<uint32_t>(std::clamp<int64_t>(us, 0, UINT32_MAX));
}

uint32_t MillisecondsSince(Time then, Time now) {
  return then == Time() ? 0 : Microseconds(now - then) / 1000;
}

}  // namespace

TcpInfo Connection::Info() const {
  const uint32_t size = SegmentSize();
  TcpInfo info;
  info.state = state_;
  info.ca_state = recovery_;
  info.retransmits = retransmits_;
  info.probes = probes_;
  info.backoff = rtt_.backoff();
  info.timestamps = ts_.ok;
  info.sack = sack_ok_;
  info.window_scaling = wscale_ok_;
  info.snd_wscale = snd_.wind_shift;
  info.rcv_wscale = rcv_.wind_shift;
  info.rto_us = Microseconds(Rto());
  info.ato_us = Microseconds(config().delayed_ack);
  info.snd_mss = size;
  info.rcv_mss = rcv_.rmss;
  info.advmss = AdvertisedMss();
  info.pmtu = path_.mtu;
  const RtxQueue::Segments segments = rtx_.CountSegments();
  info.unacked_segs = segments.total;
  info.sacked_segs = sack_ok_ ? segments.sacked : dup_acks_;
  info.lost_segs = segments.lost;
  info.retrans_segs = segments.resent;
  info.delivered_segs = counts_.delivered;
  info.rtt_us = Microseconds(rtt_.srtt());
  info.rttvar_us = Microseconds(rtt_.rttvar());
  info.min_rtt_us = Microseconds(rtt_.min_rtt());
  if (cc_) {
    info.snd_cwnd_bytes = cc_->cwnd();
    info.snd_ssthresh_bytes = cc_->ssthresh();
    info.congestion_control = std::string(cc_->name());
  }
  info.snd_wnd = snd_.wnd;
  info.rcv_wnd = Distance(rcv_.nxt, rcv_.adv);
  info.rcv_space = rcv_.buffer;
  info.notsent_bytes = UnsentBytes();
  info.bytes_acked = counts_.bytes_acked;
  info.bytes_received = counts_.bytes_received;
  info.bytes_sent = counts_.bytes_sent;
  info.bytes_retrans = counts_.bytes_retrans;
  info.segs_out = counts_.segs_out;
  info.segs_in = counts_.segs_in;
  info.data_segs_out = counts_.data_segs_out;
  info.data_segs_in = counts_.data_segs_in;
  info.total_retrans_segs = counts_.retrans_segs;
  info.last_data_sent_ms = MillisecondsSince(last_data_sent_, now());
  info.last_data_recv_ms = MillisecondsSince(last_data_received_, now());
  info.last_ack_recv_ms = MillisecondsSince(last_received_, now());
  if (const Habits* linux = exact()) linux->Fill(info);
  return info;
}

}  // namespace tapwire::tcp
