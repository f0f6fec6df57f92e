// SPDX-License-Identifier: Apache-2.0
// The data side of one test, the same for client and server: streams that send or receive, the
// counters, and the interval lines.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/perf/iperf3_meter.h"
#include "apps/perf/iperf3_protocol.h"
#include "apps/perf/iperf3_report.h"
#include "apps/uv_timer.h"
#include "netdev/net_context.h"
#include "stack/sockets/tcp_socket.h"

namespace tapwire::apps::iperf3 {

// Options of the sockets of a test.
TcpSocket::Options SocketOptionsOf(const Params& params);
// True if our TCP has a congestion control of that name.
bool IsKnownCongestionControl(const std::string& name);

class TestRun {
 public:
  struct Callbacks {
    // The number of bytes or blocks of the parameters has been moved. Called once.
    std::function<void()> on_amount;
    // A stream failed, and the control connection did not say why within half a second.
    std::function<void(const Error&)> on_error;
  };
  // `interval_s` 0: one interval from start to end. All references outlive the run.
  TestRun(uv_loop_t* loop, netdev::NetContext& context, Report& report, double interval_s);

  void SetUp(const Params& params, bool counts_amount, Callbacks callbacks);
  // Streams get their ids in the order they are added.
  void AddStream(std::unique_ptr<TcpSocket> socket, bool sender);
  size_t size() const { return streams_.size(); }
  std::vector<StreamInfo> infos() const { return meter_.infos(); }

  void Start();  // counters and clock to zero, receivers read
  void StartSending();
  // The end of the test: the last interval is reported, nothing counts any more. What still arrives
  // is read and thrown away, so that the peer can go on. Harmless before Start().
  void Finish();
  bool started() const { return meter_.started(); }
  uint64_t moved_bytes() const { return moved_bytes_; }

  Results MakeResults() const;
  const Meter& meter() const { return meter_; }

  // Closes all streams; `closed` runs once when they are gone (at once if there are none).
  void Close(const std::function<void()>& closed);

 private:
  struct Stream {
    std::unique_ptr<TcpSocket> socket;
    size_t offset = 0;       // within the block that is being written
    int64_t burst_left = 0;  // blocks that may follow without looking at the rate
    bool ended = false;      // failed, or ended by the peer
  };
  // getrusage() of this process.
  struct CpuTimes {
    double user_s = 0, system_s = 0;
  };
  static CpuTimes ReadCpu();

  void Pump(size_t index);
  void PumpAll();
  bool MayStartBlock(size_t index);
  bool WriteSome(size_t index);
  void Read(size_t index);
  void Moved(size_t index, size_t bytes);
  void StreamFailed(size_t index, const absl::Status& status);
  bool AmountReached() const;
  void NoteAmount();
  std::vector<TcpSample> Samples() const;
  void ScheduleTick();
  void OnTick();
  void OnOmitEnd();
  Time Now();

  uv_loop_t* loop_;
  netdev::NetContext& context_;
  Report& report_;
  double interval_s_;
  Params params_;
  bool counts_amount_ = false;
  Callbacks callbacks_;
  Meter meter_;
  std::vector<Stream> streams_;
  std::vector<uint8_t> block_, read_buffer_;
  uint64_t moved_bytes_ = 0;  // of all streams since the start, never reset
  uint64_t ticks_ = 0;
  bool sending_ = false, finished_ = false, amount_noted_ = false;
  UvTimer tick_timer_, omit_timer_, pace_timer_, pump_timer_, amount_timer_, error_timer_;
  Time start_;
  CpuTimes cpu_at_start_;
  CpuUse cpu_;
  std::string congestion_;  // that of the first stream
};

}  // namespace tapwire::apps::iperf3
