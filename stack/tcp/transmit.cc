// SPDX-License-Identifier: Apache-2.0
// How a segment is sent: payload by reference to the send queue's slabs, options, header, checksum
// and segmentation metadata, then IP. Each retransmission is built afresh; no packet is kept.

#include <algorithm>
#include <utility>

#include "netdev/csum_offload.h"
#include "netdev/wire/ip_protocol.h"
#include "netdev/wire/tcp.h"
#include "stack/interface.h"
#include "stack/stack.h"
#include "stack/tcp/config.h"
#include "stack/tcp/connection.h"
#include "stack/tcp/habits.h"
#include "stack/tcp/tcp.h"

namespace tapwire::tcp {
namespace {

// Below this a copy into the head is cheaper than a reference.
constexpr uint32_t kCopyBelow = 512;

}  // namespace

// ---- Options ----

wire::TcpOptions Connection::BuildOptions(bool syn) const {
  wire::TcpOptions options;
  if (syn) {
    options.mss = AdvertisedMss();
    options.sack_permitted = sack_ok_;
    if (wscale_ok_) options.window_scale = rcv_.wind_shift;
  }
  if (ts_.ok) options.timestamps = wire::TcpTimestamps{TimestampNow(), ts_.recent};
  if (!syn && sack_ok_) AddSackBlocks(options);
  return options;
}

// RFC 2883 §4: a duplicate first; RFC 2018 §4: then the latest.
void Connection::AddSackBlocks(wire::TcpOptions& options) const {
  if (!dsack_ && reassembly_ == nullptr) return;
  const size_t room = options.timestamps ? 3 : 4;
  if (dsack_) options.AddSackBlock(*dsack_);
  if (reassembly_ == nullptr) return;
  std::array<wire::TcpSackBlock, wire::TcpOptions::kMaxSackBlocks> blocks;
  const size_t count =
      reassembly_->SackBlocks(std::span(blocks).first(room - options.sack_block_count));
  for (size_t i = 0; i < count; ++i) options.AddSackBlock(blocks[i]);
}

// ---- Segments ----

netdev::TxResult Connection::SendSegment(PacketPtr packet, Seq seq, wire::TcpFlags flags) {
  const auto payload = static_cast<uint32_t>(packet->length());
  wire::TcpFields fields;
  fields.src_port = flow_.local_port;
  fields.dst_port = flow_.remote_port;
  fields.seq = seq.value();
  fields.ack = flags.ack() ? rcv_.nxt.value() : 0;
  fields.flags = flags;
  fields.window =
      flags.syn() ? static_cast<uint16_t>(std::min<uint32_t>(Distance(rcv_.nxt, rcv_.adv), 65535))
                  : static_cast<uint16_t>(AdvertisedWindow());
  fields.options = BuildOptions(flags.syn());
  if (snd_.urgent && snd_.urgent_end > seq) {
    // MUST-62; farther than 65,535 the pointer says "further on" (RFC 9293 §3.8.5).
    fields.flags |= wire::TcpFlags::kUrg;
    fields.urgent_pointer =
        static_cast<uint16_t>(std::min<uint32_t>(Distance(seq, snd_.urgent_end), 65535));
  }
  fields.Emit(packet->Push(fields.length()));
  netdev::SetPartialChecksum(*packet, {flow_.local, flow_.remote, wire::IpProtocol::kTcp},
                             wire::TcpHeader::kChecksumOffset);
  const uint32_t size =
      BoundToWindow(smss_ - static_cast<uint32_t>(fields.length() - wire::TcpHeader::kMinLength));
  if (payload > size) {
    packet->meta.gso.type = flow_.remote.is_v4() ? GsoType::kTcpv4 : GsoType::kTcpv6;
    packet->meta.gso.size = static_cast<uint16_t>(size);
    packet->meta.gso.segs = static_cast<uint16_t>((payload + size - 1) / size);
  }
  if (flags.ack()) OnAckSent();
  ++counts_.segs_out;
  const IpSendOptions ip{.protocol = wire::IpProtocol::kTcp,
                         .ttl = options_->ttl,
                         .tos = options_->tos,
                         .dont_fragment = true};
  const netdev::TxResult result = stack().SendIp(std::move(packet), route(), ip);
  if (!netdev::TxOk(result)) stack().mib().tcp.out_errors.Inc();
  return result;
}

void Connection::OnAckSent() {
  rcv_.last_ack_sent = rcv_.nxt;
  rcv_.unacked = 0;
  dsack_.reset();
  if (!ack_pending_) return;
  ack_pending_ = ack_now_ = false;
  if (quick_acks_ > 0) --quick_acks_;
  Cancel(TimerId::kDelayedAck);
}

PacketPtr Connection::AllocateSegment(uint32_t payload) {
  PacketPtr packet = stack().pool().AllocatePacket(payload);
  if (packet == nullptr) stack().mib().tcp.out_errors.Inc();
  return packet;
}

PacketPtr Connection::BuildPayload(Seq seq, uint32_t length) {
  const uint32_t offset = Distance(snd_.una, seq);
  const bool copy = length <= kCopyBelow;
  PacketPtr packet = AllocateSegment(copy ? length : 0);
  if (packet == nullptr || length == 0) return packet;
  if (copy) {
    send_queue_.CopyOut(offset, packet->Put(length));
    return packet;
  }
  bool full = false;
  send_queue_.ForEachSlice(offset, length, [&](const BufferSlice& slice) {
    if (!full && !packet->AddFrag(slice.slab(), slice.offset(), slice.size())) full = true;
  });
  return packet;
}

// Returns how many sequence numbers were sent: fewer than asked for when the fragments do not fit
// into one packet, 0 without memory.
uint32_t Connection::TransmitRange(const Range& range) {
  PacketPtr packet = BuildPayload(range.seq, range.length);
  if (packet == nullptr || (range.length > 0 && packet->length() == 0)) return 0;
  const auto payload = static_cast<uint32_t>(packet->length());
  const bool fin = range.fin && payload == range.length;
  wire::TcpFlags flags = wire::TcpFlags::kAck;
  // MUST-61: the last segment of what is queued.
  const Seq queue_end = snd_.una + static_cast<uint32_t>(send_queue_.size());
  const bool burst = config().push_bursts && payload > SegmentSize();
  const bool record_end = habits_ != nullptr && habits_->IsRecordEnd(range.seq + payload);
  if (payload > 0 && (burst || record_end || range.seq + payload == queue_end)) {
    flags |= wire::TcpFlags::kPsh;
  }
  if (fin) flags |= wire::TcpFlags::kFin;
  const uint32_t length = payload + (fin ? 1u : 0u);
  if (payload > 0 && ack_pending_) pingpong_ = true;  // an answer went with the acknowledgment
  const netdev::TxResult result = SendSegment(std::move(packet), range.seq, flags);
  // A path MTU that shrank meanwhile: the route is stale now, and the next try has its size.
  if (result == netdev::TxResult::kTooBig && path_.generation != stack().route_generation())
    ScheduleOutput();
  last_data_sent_ = now();
  if (Habits* linux = exact()) {
    const uint32_t segments = std::max((payload + SegmentSize() - 1) / SegmentSize(), 1u);
    linux->OnSent(segments, payload, range.retransmission);
  }
  TcpCounters& mib = stack().mib().tcp;
  if (range.retransmission) {
    mib.retrans_segs.Inc();
    ++counts_.retrans_segs;
    counts_.bytes_retrans += payload;
    if (recovery_ == RecoveryState::kRecovery) stack().mib().tcp_ext.fast_retrans.Inc();
    return length;
  }
  // What the device refused counts as sent and lost: the timer brings it back, backing off.
  mib.out_segs.Inc();
  if (payload > 0 && exact() == nullptr) ++counts_.data_segs_out;
  counts_.bytes_sent += payload;
  if (unanswered_since_ == Time()) unanswered_since_ = now();
  rtx_.OnSent({.seq = range.seq, .length = length, .xmit_time = now(), .fin = fin});
  snd_.nxt += length;
  fin_sent_ = fin_sent_ || fin;
  if (!IsArmed(TimerId::kRetransmit)) {
    RestartRetransmit();  // RFC 6298 §5.1
  } else if (Habits* linux = exact(); linux != nullptr && config().tail_loss_probes) {
    // RFC 8985 §7.2: the probe waits for the end of what is sent.
    Time when{};
    if (linux->SchedulesProbe(false, when)) Arm(TimerId::kRetransmit, when);
  }
  return length;
}

void Connection::TransmitSyn(bool retransmission) {
  PacketPtr packet = AllocateSegment(0);
  if (!retransmission || rtx_.empty()) {
    snd_.nxt = snd_.iss + 1;
    if (rtx_.empty()) rtx_.OnSent({.seq = snd_.iss, .length = 1, .xmit_time = now(), .syn = true});
    unanswered_since_ = now();
    RestartRetransmit();
  } else {
    rtx_.MarkAllLost(false);
    rtx_.OnResent(snd_.iss, 1, now());
  }
  if (state_ == State::kSynSent) {
    // The window of a SYN is what TakeSyn() will hold us to.
    rcv_.adv = rcv_.nxt + FirstWindow();
  }
  if (packet == nullptr) return;
  wire::TcpFlags flags = wire::TcpFlags::kSyn;
  if (state_ != State::kSynSent) flags |= wire::TcpFlags::kAck;
  static_cast<void>(SendSegment(std::move(packet), snd_.iss, flags));
  (retransmission ? stack().mib().tcp.retrans_segs : stack().mib().tcp.out_segs).Inc();
}

void Connection::TransmitAck() {
  PacketPtr packet = AllocateSegment(0);
  if (packet == nullptr) {
    Arm(TimerId::kDelayedAck, now() + config().delayed_ack);
    return;
  }
  stack().mib().tcp.out_segs.Inc();
  static_cast<void>(SendSegment(std::move(packet), snd_.nxt, wire::TcpFlags::kAck));
}

// An old sequence number, so that the peer must answer (RFC 9293 §3.8.4, §3.8.6.1; SHLD-12).
void Connection::TransmitProbe() {
  PacketPtr packet = AllocateSegment(0);
  if (packet == nullptr) return;
  stack().mib().tcp.out_segs.Inc();
  static_cast<void>(SendSegment(std::move(packet), snd_.una - 1, wire::TcpFlags::kAck));
}

void Connection::TransmitReset() { tcp_.SendReset(flow_, route(), snd_.nxt, rcv_.nxt); }

}  // namespace tapwire::tcp
