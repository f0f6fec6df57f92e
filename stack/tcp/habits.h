// SPDX-License-Identifier: Apache-2.0
// Habits: state that few connections need: where records end (MSG_EOR), the SYN
// of a passive open (TCP_SAVE_SYN), and with Config::linux_habits what stands
// behind the ways in which Linux differs from the RFCs: proportional rate
// reduction (RFC 9937), the use of cwnd, tail loss probes (RFC 8985 §7) and the
// clocks of TCP_INFO. It lives beside the connection so that an idle one
// without it stays small.
#pragma once

#include <cstdint>
#include <vector>

#include "netdev/base/time.h"
#include "stack/tcp/seq.h"

namespace tapwire::tcp {

class Connection;
struct TcpInfo;

class Habits {
 public:
  // Outlived by the connection. `exact`: Config::linux_habits.
  Habits(Connection& connection, bool exact) : c_(connection), exact_(exact) {}

  bool exact() const { return exact_; }

  // ---- Records ----
  void EndRecord(Seq end);
  // How much of `length` bytes from `from` on may go into one segment.
  uint32_t CutAtRecord(Seq from, uint32_t length);
  bool IsRecordEnd(Seq at) const;

  std::vector<uint8_t> saved_syn;
  uint32_t out_of_order = 0;  // segments that came ahead of RCV.NXT
  uint32_t dsacks = 0;        // that the peer sent

  // ---- All below: exact() only ----

  void OnEstablished();
  // The window offered does not exceed this, which grows with what arrives (Linux's rcv_ssthresh).
  uint32_t window_limit() const { return window_limit_; }
  void OnDataReceived(uint32_t bytes);
  // `segments` of the size of the day left, for the first time or again.
  void OnSent(uint32_t segments, uint32_t payload, bool retransmission);
  // After SND.UNA moved, or SACK blocks came.
  void OnAck(Seq una);
  void OnTimeout();
  // After output, or an acknowledgment that left nothing to do.
  void UpdateClocks();

  // Whether what was sent in one go used cwnd up; `sent`: anything was (Linux's
  // cwnd validation).
  void ValidateWindow(bool sent);
  // RFC 5681 §4.1 as Linux does it: halved for each RTO that passed.
  void RestartAfterIdle();

  // RFC 9937: begins at the loss, goes on with each acknowledgment until the
  // recovery point.
  void BeginReduction();
  void Reduce(uint32_t delivered, bool newly_lost, bool advanced);
  void EndReduction();
  // After a timeout: one segment beside what is in flight.
  void OnLoss();
  bool reducing() const { return reducing_; }

  // ---- Tail loss probes ----
  // When the probe is to go; none if there is to be none, but the RTO.
  // `restart`: the RTO begins anew.
  bool SchedulesProbe(bool restart, Time& when);
  bool probe_armed = false;
  void SendProbe();
  void OnAckForProbe(Seq ack, bool advanced, bool new_sacks, bool dsack);

  void Fill(TcpInfo& info) const;

 private:
  void ForgetOldRecords();
  enum class Clock : uint8_t { kNone, kBusy, kWindow, kBuffer };
  void SetClock(Clock clock);
  uint32_t size() const;

  Connection& c_;
  std::vector<Seq> record_ends_;  // ascending, all within one window
  bool exact_;
  bool reducing_ = false;
  bool probe_out_ = false;     // probe_end_ counts …
  bool probe_resent_ = false;  // … and the probe was a copy
  Clock clock_ = Clock::kNone;
  Time clock_start_{};
  Duration busy_{}, window_{}, buffer_{};
  uint32_t prior_cwnd_ = 0, prr_delivered_ = 0, prr_out_ = 0;  // segments
  Seq usage_end_;  // the use of cwnd is judged anew behind it
  Seq probe_end_;
  uint32_t receive_space_ = 0;
  uint32_t window_limit_ = UINT32_MAX;
  uint32_t timeouts_ = 0, timeout_recoveries_ = 0;
  Duration timeout_time_{};
  Time timeout_start_{};
};

}  // namespace tapwire::tcp
