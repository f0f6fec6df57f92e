// SPDX-License-Identifier: Apache-2.0
// Connection: one TCP connection (RFC 9293) from SYN to CLOSED or TIME-WAIT: the transmission
// control block and its verbs. Owned by Tcp; whoever opened it holds a pointer until the observer
// is told that it is gone.
//
//   verb                     file
//   Open, Close, Abort …     connection.cc   RFC 9293 §3.10.1–3.10.6
//   Input (synchronized)     input.cc        §3.10.7.4, one function per numbered step
//   Input (SYN-SENT, -RCVD)  input_syn.cc    §3.10.7.3
//   ProcessAck               ack.cc          §3.10.7.4 fifth; RFC 5681, 6298, 6675, 7323
//   received data            receive.cc      §3.10.7.4 sixth to eighth; windows, when to ACK
//   loss recovery            recovery.cc     RFC 5681 §3.2, RFC 6582, RFC 6675
//   Output                   output.cc       what to send
//   Transmit…                transmit.cc     how to send it
//   timers                   timers.cc       RTO, persist, delayed ACK, keepalive, FIN-WAIT-2
//
// Nothing here calls user code: the observer is told after the batch, through Tcp.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "netdev/base/intrusive_list.h"
#include "netdev/base/timer_queue.h"
#include "netdev/packet/buffer_chain.h"
#include "stack/flow_key.h"
#include "stack/ip.h"
#include "stack/route.h"
#include "stack/tcp/congestion_control.h"
#include "stack/tcp/options.h"
#include "stack/tcp/reassembly.h"
#include "stack/tcp/rtt_estimator.h"
#include "stack/tcp/rtx_queue.h"
#include "stack/tcp/segment.h"
#include "stack/tcp/seq.h"
#include "stack/tcp/state.h"
#include "stack/tcp/tcp_info.h"

namespace tapwire {
class Stack;
}

namespace tapwire::tcp {

class Connection;
class Habits;
class Listener;
class Tcp;
struct Config;

// Told of a connection's events after the batch that brought them. May call anything, destroy its
// socket, open and close others.
class ConnectionObserver {
 public:
  virtual ~ConnectionObserver() = default;
  virtual void OnConnected() = 0;  // an active open is ESTABLISHED
  virtual void OnReadable() = 0;   // data arrived, or the end of the stream was reached
  virtual void OnWritable() = 0;   // the send buffer has room again, or everything was acknowledged
  virtual void OnUrgent() = 0;     // urgent data was announced (RFC 9293 MUST-32)
  // The connection is gone, and the pointer to it void: OK if both directions were closed in order,
  // else why (ECONNREFUSED, ECONNRESET, ETIMEDOUT, EHOSTUNREACH …). Unread data has been moved out
  // by ReleaseReceived() if the observer wanted it.
  virtual void OnGone(const absl::Status& status) = 0;
};

// Slots of the one timer that a connection has (architecture: deadlines by id).
enum class TimerId : uint8_t {
  kRetransmit,  // RTO; SYN and FIN too
  kPersist,     // zero-window probe, or the sender's SWS override (RFC 9293 §3.8.6.2.1)
  kDelayedAck,
  kKeepalive,
  kLifetime,  // FIN-WAIT-2 without a user; linger; an orphan's end
  kCount,
};

// Lists that a connection may be in, one of each at a time.
struct OutputTag {};
struct EventTag {};
struct AcceptTag {};

class Connection final : public ListHook<OutputTag>,
                         public ListHook<EventTag>,
                         public ListHook<AcceptTag>,
                         private Timer {
 public:
  enum Event : uint8_t {
    kConnected = 1,
    kReadable = 2,
    kWritable = 4,
    kUrgent = 8,
    kGone = 16,
  };

  // ---- Made by Tcp and Listener only ----
  Connection(Tcp& tcp, const FlowKey& flow, const Route& route,
             std::shared_ptr<SocketOptions> options);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Active OPEN (RFC 9293 §3.10.1): the SYN leaves at the end of the batch. `iss` is chosen by Tcp.
  void StartActive(Seq iss);
  // Passive OPEN: a SYN was received by `listener`; the SYN-ACK leaves at once.
  void StartPassive(const Segment& syn, Listener& listener, Seq iss);
  // The same after the SYN-ACK was sent with a cookie and nothing was kept: `syn` is what its
  // acknowledgment, which is to be given to Input() next, tells of the SYN.
  void ResumePassive(const Segment& syn, Listener& listener, Seq iss);
  // Sends the SYN-ACK of a connection that is not to be kept: destroy it afterwards. `mark` goes
  // into the low bits of the timestamp.
  void SendCookieSynAck(const Segment& syn, Seq iss, uint32_t mark);
  // RFC 9293 §3.10.7.3 and .4. Consumes the segment.
  DropReason Input(Segment& segment);
  // Sends what may be sent now; called once per connection at the end of a batch.
  void Output();
  // RFC 5927: whether the quoted sequence number is one in flight; then the error was acted upon.
  bool OnIcmpError(const IcmpErrorInfo& error, Seq quoted);
  // The stack is going away: no more output, the observer is told at once.
  void Detach();

  // ---- For the socket in front ----
  void set_observer(ConnectionObserver* observer) { observer_ = observer; }
  ConnectionObserver* observer() const { return observer_; }

  State state() const { return state_; }
  const FlowKey& flow() const { return flow_; }
  Route route() const {
    return {path_.kind,     path_.interface, flow_.local,     flow_.remote,
            path_.next_hop, path_.mtu,       path_.generation};
  }
  Tcp& tcp() const { return tcp_; }

  // SEND (§3.10.2): takes as much of `data` as the send buffer has room for, from the front.
  // Returns how many bytes. 0 also when the state does not allow it: look at CanSendData(state()).
  size_t Send(BufferChain& data);
  size_t SendCopy(std::span<const uint8_t> data);
  // What is queued from now on starts a segment of its own (MSG_EOR).
  void EndRecord();
  // Marks the last byte queued as urgent (RFC 9293 §3.8.5).
  void SendUrgent();
  size_t send_space() const;
  // No room although nothing is on its way whose acknowledgment would make some: the pool is full.
  bool is_starved() const;
  // OnWritable() when there is room again; a Send() that was not taken whole asks by itself.
  void RequestWritable() { writer_waits_ = true; }
  // No more is asked of the user while so much is unsent (TCP_NOTSENT_LOWAT). OnWritable() when it
  // is less than half of that.
  uint32_t notsent_low_water() const;
  void RequestLowUnsent() { low_water_ = true; }
  bool HasLowUnsent() const;
  size_t unsent_bytes() const;
  size_t unacked_bytes() const { return send_queue_.size(); }
  // Sends what Nagle or cork hold back (clearing TCP_CORK, setting TCP_NODELAY).
  void PushPending();

  // RECEIVE (§3.10.3). What has arrived in order and was not taken yet.
  size_t readable_bytes() const { return receive_queue_.size(); }
  const BufferChain& receive_queue() const { return receive_queue_; }
  // The peer's FIN was reached: after the readable bytes comes the end.
  bool read_closed() const { return fin_received_; }
  // Takes the first slice, or copies bytes out. Neither opens the window: Consumed() does.
  BufferSlice TakeSlice();
  size_t Read(std::span<uint8_t> into);
  // Bytes the user is done with: opens the window (RFC 9293 MUST-39).
  void Consumed(size_t bytes);
  // The user takes no more data: what arrives is acknowledged and thrown away (shutdown(RD)).
  void DiscardReceived();

  // Where the urgent data ends, counted from the first unread byte; none if nothing is pending
  // (MUST-33).
  std::optional<size_t> urgent_offset() const;

  // CLOSE (§3.10.4): FIN behind the queued data.
  void ShutdownWrite();
  // The user is gone: closes in the background. With data unread or a zero linger: a reset
  // (RFC 9293 §3.6.1, SHLD-3). The observer is not called any more. The pointer is void.
  void Release();
  // ABORT (§3.10.5): RST, and everything is dropped. The observer is not called any more. The
  // pointer is void.
  void Abort();

  // To be changed, followed by OnOptionsChanged(); shared with the listener until then.
  SocketOptions& options();
  const SocketOptions& options() const { return *options_; }
  void OnOptionsChanged();  // keepalive, buffers, congestion control, MSS, Nagle
  TcpInfo Info() const;
  // Status of a soft error that was noted and not acted upon (MUST-47, MUST-56); taken by the call.
  absl::Status TakeSoftError();

  // IP and TCP header of the SYN that opened it, if SocketOptions::save_syn was set
  // (TCP_SAVED_SYN). Taken by the call.
  std::vector<uint8_t> TakeSavedSyn();

  // Memory charged to this connection: queues with their slabs.
  size_t true_size() const;

 private:
  friend class Tcp;
  friend class Listener;
  friend class ConnectionTestPeer;
  friend class Habits;

  // A Route without the addresses that the flow has.
  struct Path {
    explicit Path(const Route& route)
        : interface(route.interface),
          mtu(route.mtu),
          generation(route.generation),
          kind(route.kind),
          next_hop(route.next_hop) {}
    Interface* interface;
    uint32_t mtu;
    uint32_t generation;
    RouteKind kind;
    IpAddress next_hop;
  };
  struct SendVars {
    Seq una, nxt, iss;
    Seq wl1, wl2;          // segment of the last window update
    Seq urgent_end;        // one past the urgent byte
    uint32_t wnd = 0;      // scaled
    uint32_t max_wnd = 0;  // largest ever seen, for SWS avoidance
    uint8_t wind_shift = 0;
    bool urgent = false;
  };
  struct ReceiveVars {
    Seq nxt, irs;
    Seq adv;            // right edge that was advertised
    Seq last_ack_sent;  // RFC 7323 Last.ACK.sent
    Seq urgent_end;
    uint32_t buffer = 0;      // limit in bytes
    uint32_t unconsumed = 0;  // taken by the user, window not yet opened for it
    uint32_t rmss = 0;        // largest segment the peer was seen to send
    uint32_t unacked = 0;     // bytes since the last acknowledgment was sent
    uint8_t wind_shift = 0;
    bool urgent = false;
  };
  struct TimestampVars {
    uint32_t offset = 0;
    uint32_t recent = 0;
    uint32_t recent_age_s = 0;
    bool ok = false;
  };

  // connection.cc
  void Open(State state, Seq iss);
  void OpenPassive(const Segment& syn, Seq iss);
  void SaveSyn(const Segment& syn);
  void EnterState(State next);
  void Fail(absl::Status status);  // to CLOSED; the observer gets the status
  void Finish();                   // to CLOSED, all is well
  void Leave();                    // out of the tables, timers and lists
  void BecomeEstablished(const Segment& segment);
  void EnterTimeWait();
  void Notify(uint8_t events);
  void ApplyBuffers();
  uint32_t SendLimit() const;
  bool MustShedData() const;
  void ApplyCongestionControl();
  void QueueFin();
  bool CanQueue() const;
  void ResetAndLeave();
  void BecomeOrphan();
  void AwaitPeersFin();
  bool RefreshRoute();
  Habits& habits();
  // The same if packets are to be sent and counted exactly as Linux does; else null.
  Habits* exact() const;
  void UpdateSmss();
  void TuneSendBuffer();
  void OnPathMtuReduced();
  Stack& stack() const;
  Time now() const;
  const Config& config() const;
  uint32_t TimestampNow() const;
  uint32_t MaxSegmentFor(uint32_t mtu) const;  // less fixed IP and TCP headers
  uint16_t AdvertisedMss() const;
  uint32_t InitialWindow() const;
  absl::Status Describe(int err, const char* what) const;
  absl::Status TimeoutStatus() const;

  // input.cc: the numbered steps of RFC 9293 §3.10.7.4. nullopt: go on.
  DropReason InputSynchronized(Segment& seg);
  std::optional<DropReason> CheckSequence(Segment& seg);
  std::optional<DropReason> CheckReset(const Segment& seg);
  std::optional<DropReason> CheckSyn(const Segment& seg);
  std::optional<DropReason> CheckAckField(Segment& seg);
  bool IsAcceptable(const Segment& seg) const;
  bool PawsRejects(const Segment& seg) const;
  DropReason AnswerUnacceptable(const Segment& seg, DropReason reason);
  void UpdateTimestampRecent(const Segment& seg);
  uint32_t NowSeconds() const;
  void TrimToWindow(Segment& seg);
  void SendChallengeAck();
  bool LimitInvalid();

  // input_syn.cc
  DropReason InputSynSent(Segment& seg);
  DropReason OnSimultaneousSyn(const Segment& seg);
  std::optional<DropReason> CheckHandshakeAck(const Segment& seg);
  bool DefersAccept(const Segment& seg);
  bool CompletesCrossedSyns(const Segment& seg) const;
  void TakeSyn(const Segment& seg);

  // ack.cc
  void ProcessAck(const Segment& seg);
  uint32_t TakeAcked(Seq ack, RtxQueue::AckResult& acked);
  bool UpdateSendWindow(const Segment& seg);
  uint32_t CountDelivered(const RtxQueue::AckResult& acked, bool duplicate);
  bool IsDsack(const Segment& seg) const;
  Duration SampleRtt(const Segment& seg, const RtxQueue::AckResult& acked, uint32_t in_flight);
  bool IsDuplicateAck(const Segment& seg, bool window_changed) const;
  void OnProgress();
  void OnFinAcked();

  // recovery.cc
  uint32_t TakeSacks(const Segment& seg, RtxQueue::AckResult& acked);
  void DetectLoss(const Segment& seg, bool duplicate, uint32_t acked_bytes, bool new_sacks);
  void OnAckInRecovery(const Segment& seg, bool duplicate, uint32_t acked_bytes);
  void EnterRecovery();
  void OnTimeoutLoss();
  uint32_t Pipe() const;

  // receive.cc
  DropReason ProcessText(Segment& seg);
  void ProcessUrgent(const Segment& seg);
  void DeliverInOrder(Segment& seg);
  DropReason QueueOutOfOrder(Segment& seg);
  void ProcessFin();
  void OnDataReceived(const Segment& seg, uint32_t bytes);
  void DecideAck();
  uint32_t FreeReceiveSpace() const;
  // The window that a SYN offers.
  uint32_t FirstWindow() const;
  // `size` or what Config::half_window_segments leaves of it.
  uint32_t BoundToWindow(uint32_t size) const;
  // Whether cwnd may grow: it, not the application, bounded what was sent (RFC 7661 §4.1).
  bool IsCwndUsed() const;
  // Config::min_burst_segments and the pace that goes with it.
  uint32_t BurstLimit(uint32_t size) const;
  uint32_t AdvertisedWindow();
  void MaybeSendWindowUpdate();
  void TuneReceiveBuffer(uint32_t consumed);

  // output.cc
  bool SendRetransmissions();
  void SendNewData();
  bool SendOneChunk();
  bool MaySendSmall(uint32_t length, uint32_t queued) const;
  bool MayBuildSuperPackets(const netdev::NetDevice& device) const;
  uint32_t ChunkLimit() const;    // payload of one packet, cut late
  uint32_t SegmentSize() const;   // payload of one segment with the present options
  uint32_t UsableWindow() const;  // what the peer's window leaves for new data
  uint32_t UnsentBytes() const;
  void MaybeSendFin();
  void DecideTimers();
  void ScheduleOutput();
  bool HasPendingFin() const { return fin_queued_ && !fin_sent_; }

  // transmit.cc
  struct Range {
    Seq seq;
    uint32_t length = 0;
    bool fin = false;
    bool retransmission = false;
  };
  uint32_t TransmitRange(const Range& range);
  PacketPtr BuildPayload(Seq seq, uint32_t length);
  void TransmitSyn(bool retransmission);
  PacketPtr AllocateSegment(uint32_t payload);
  void TransmitAck();
  void TransmitProbe();
  void TransmitReset();
  wire::TcpOptions BuildOptions(bool syn) const;
  void AddSackBlocks(wire::TcpOptions& options) const;
  netdev::TxResult SendSegment(PacketPtr packet, Seq seq, wire::TcpFlags flags);
  void OnAckSent();

  // timers.cc
  void Arm(TimerId id, Time deadline);
  void Cancel(TimerId id);
  bool IsArmed(TimerId id) const;
  void OnExpired() override;
  void OnTimer(TimerId id);
  void OnRetransmitTimer();
  void OnHandshakeTimeout();
  void OnPersistTimer();
  void OnKeepaliveTimer();
  void OnLifetimeTimer();
  void RestartRetransmit();
  void ArmPersist();
  void RestartKeepalive();
  Duration Rto() const;
  bool UserTimeoutExceeded() const;
  void AdviseNegatively();

  Tcp& tcp_;
  FlowKey flow_;
  Path path_;
  std::shared_ptr<SocketOptions> options_;
  ConnectionObserver* observer_ = nullptr;
  // While in SYN-RECEIVED from a passive open (MUST-11), and until it is accepted.
  Listener* listener_ = nullptr;

  State state_ = State::kClosed;
  RecoveryState recovery_ = RecoveryState::kOpen;
  uint8_t events_ = 0;
  uint8_t retransmits_ = 0;      // timeouts in a row
  uint8_t probes_ = 0;           // unanswered window or keepalive probes in a row
  uint8_t persist_backoff_ = 0;  // doublings since the window closed
  uint8_t quick_acks_ = 0;       // left at the start
  bool sack_ok_ : 1 = false;
  bool wscale_ok_ : 1 = false;
  bool fin_queued_ : 1 = false;
  bool fin_sent_ : 1 = false;
  bool fin_received_ : 1 = false;
  bool discard_received_ : 1 = false;
  bool released_ : 1 = false;     // no user any more
  bool gone_ : 1 = false;         // out of the tables, waits to be destroyed
  bool ack_pending_ : 1 = false;  // something arrived that is not acknowledged yet
  bool ack_now_ : 1 = false;      // … and must be at the next Output()
  bool pingpong_ : 1 = false;     // request and answer alternate: delayed ACKs pay
  bool active_open_ : 1 = false;
  bool push_pending_ : 1 = false;  // Nagle and cork do not hold back what is queued
  bool cwnd_limited_ : 1 = false;
  bool force_retransmit_ : 1 = false;  // one segment, whatever the pipe (RFC 5681 §3.2 step 3)
  bool writer_waits_ : 1 = false;
  bool buried_ : 1 = false;     // in Tcp's graveyard
  bool deferred_ : 1 = false;   // its handshake has ended, but for the data it waits for
  bool low_water_ : 1 = false;  // more was unsent than SocketOptions::notsent_low_water

  SendVars snd_;
  ReceiveVars rcv_;
  TimestampVars ts_;
  std::unique_ptr<Habits> habits_;  // rarely used state; null until needed
  uint16_t peer_mss_ = 536;         // MUST-15 until the SYN says otherwise
  uint16_t most_in_flight_ = 0;     // segments, since nothing was
  uint32_t smss_ = 536;             // payload and options of one segment
  uint32_t dup_acks_ = 0;
  Seq recovery_point_;
  RttEstimator rtt_;
  CongestionControlSlot cc_;
  RtxQueue rtx_;
  BufferChain send_queue_;  // from SND.UNA on: unacknowledged, then unsent
  BufferChain receive_queue_;
  std::unique_ptr<Reassembly> reassembly_;  // while there are holes
  std::optional<wire::TcpSackBlock> dsack_;
  uint32_t send_limit_ = 0;

  std::array<Time, static_cast<size_t>(TimerId::kCount)> deadlines_;
  Time last_received_{};  // for keepalive
  Time last_data_received_{};
  Time last_data_sent_{};
  Time last_invalid_{};      // for the limit of RFC 5961 §7
  Time unanswered_since_{};  // first transmission of what is being retransmitted or probed
  Time tune_start_{};        // receive autotuning: one measurement per RTT
  uint32_t tune_bytes_ = 0;
  absl::Status status_;  // why it ended, until the observer is told
  absl::Status soft_error_;

  struct Counts {
    uint64_t bytes_acked = 0, bytes_received = 0, bytes_sent = 0, bytes_retrans = 0;
    uint32_t segs_out = 0, segs_in = 0, data_segs_out = 0, data_segs_in = 0, retrans_segs = 0;
    uint32_t delivered = 0;
  } counts_;
};

}  // namespace tapwire::tcp
