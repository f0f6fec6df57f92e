// SPDX-License-Identifier: Apache-2.0
#include "apps/perf/iperf3_run.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "netdev/base/status_util.h"
#include "stack/tcp/congestion_control.h"

namespace tapwire::apps::iperf3 {
namespace {

// The receive buffer of the user, into which every byte is copied as from a kernel's socket.
constexpr size_t kReadSize = 128 * 1024;
// Blocks written in one go at most: other streams and timers want their turn.
constexpr int kBlocksPerTurn = 256;
// An interval shorter than this share is not worth a line if nothing was moved in it.
constexpr double kShortInterval = 0.1;
// Whoever ends a test may close data and control connections in any order: the control connection
// knows the better reason.
constexpr double kErrorGrace = 0.5;
// Numbers of streams in reports start here, where a process has its first sockets.
constexpr int kFirstNumber = 5;

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

TcpSocket::Options SocketOptionsOf(const Params& params) {
  TcpSocket::Options options;
  options.nodelay = params.nodelay;
  options.max_segment = static_cast<uint16_t>(params.mss);
  options.send_buffer = options.receive_buffer = static_cast<size_t>(params.window);
  options.tos = static_cast<uint8_t>(params.tos);
  if (IsKnownCongestionControl(params.congestion)) options.congestion_control = params.congestion;
  return options;
}

bool IsKnownCongestionControl(const std::string& name) {
  return tcp::CongestionControlSlot::IsKnown(name);
}

TestRun::TestRun(uv_loop_t* loop, netdev::NetContext& context, Report& report, double interval_s)
    : loop_(loop),
      context_(context),
      report_(report),
      interval_s_(interval_s),
      tick_timer_(loop),
      omit_timer_(loop),
      pace_timer_(loop),
      pump_timer_(loop),
      amount_timer_(loop),
      error_timer_(loop) {}

// The loop's clock too: timers count from when it was read last, and would end too early.
Time TestRun::Now() {
  uv_update_time(loop_);
  return context_.RefreshNow();
}

void TestRun::SetUp(const Params& params, bool counts_amount, Callbacks callbacks) {
  params_ = params;
  counts_amount_ = counts_amount;
  callbacks_ = std::move(callbacks);
  // Of no pattern that a link could compress.
  block_.resize(static_cast<size_t>(params.length));
  context_.random().Fill(block_);
  read_buffer_.resize(kReadSize);
}

void TestRun::AddStream(std::unique_ptr<TcpSocket> socket, bool sender) {
  const size_t index = streams_.size();
  meter_.AddStream({.id = StreamId(index),
                    .number = kFirstNumber + 2 * static_cast<int>(index),
                    .sender = sender,
                    .local = socket->local(),
                    .remote = socket->remote()});
  streams_.push_back({.socket = std::move(socket)});
}

void TestRun::Start() {
  start_ = Now();
  cpu_at_start_ = ReadCpu();
  meter_.Start(start_, params_.omit_s > 0);
  if (params_.omit_s > 0) {
    omit_timer_.Start(static_cast<double>(params_.omit_s), [this] { OnOmitEnd(); });
  }
  ScheduleTick();
  // Senders too: the end of a connection shows on its read side.
  for (size_t i = 0; i < streams_.size(); ++i) {
    const absl::Status status = streams_[i].socket->ReadyStart([this, i] { Read(i); });
    if (!status.ok()) StreamFailed(i, status);
  }
}

void TestRun::StartSending() {
  sending_ = true;
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (meter_.info(i).sender) streams_[i].socket->SetWritableCallback([this, i] { Pump(i); });
  }
  PumpAll();
}

void TestRun::PumpAll() {
  for (size_t i = 0; i < streams_.size() && sending_; ++i) Pump(i);
  if (sending_ && params_.bandwidth > 0) {
    const double pause = std::max(static_cast<double>(params_.pacing_timer_us) * 1e-6, 0.001);
    pace_timer_.Start(std::min(pause, 1.0), [this] { PumpAll(); });
  }
}

// ---- Sending ----

void TestRun::Pump(size_t index) {
  Stream& stream = streams_[index];
  if (!meter_.info(index).sender) return;
  for (int blocks = 0; sending_ && !stream.ended;) {
    if (stream.offset == 0) {
      if (blocks++ == kBlocksPerTurn) {
        return pump_timer_.Start(0, [this] { PumpAll(); });
      }
      if (!MayStartBlock(index)) return;
    }
    if (!WriteSome(index)) return;
  }
}

bool TestRun::MayStartBlock(size_t index) {
  if (AmountReached()) return false;
  if (params_.bandwidth == 0) return true;
  Stream& stream = streams_[index];
  if (stream.burst_left == 0) {
    const double bits = static_cast<double>(meter_.totals(index).bytes) * 8;
    const double seconds = meter_.SecondsSinceStart(Now());
    if (bits > static_cast<double>(params_.bandwidth) * seconds) return false;
    stream.burst_left = std::max<int64_t>(params_.burst, 1);
  }
  --stream.burst_left;
  return true;
}

// False: no more for now.
bool TestRun::WriteSome(size_t index) {
  Stream& stream = streams_[index];
  const std::span<const uint8_t> block = block_;
  const absl::StatusOr<size_t> sent = stream.socket->TryWrite(block.subspan(stream.offset));
  if (!sent.ok()) {
    if (IsWouldBlock(sent.status())) return false;
    if (sent.status().code() == absl::StatusCode::kResourceExhausted) {
      pump_timer_.Start(0.001, [this] { PumpAll(); });
    } else {
      StreamFailed(index, sent.status());
    }
    return false;
  }
  stream.offset = (stream.offset + *sent) % block_.size();
  Moved(index, *sent);
  return true;
}

// ---- Receiving ----

void TestRun::Read(size_t index) {
  Stream& stream = streams_[index];
  while (!stream.ended) {
    const absl::StatusOr<size_t> got = stream.socket->TryRead(read_buffer_);
    if (!got.ok()) {
      if (!IsWouldBlock(got.status())) StreamFailed(index, got.status());
      return;
    }
    if (*got == 0) {  // the control connection will say what that means
      stream.ended = !meter_.info(index).sender;
      return;
    }
    if (!meter_.info(index).sender) Moved(index, *got);
  }
}

void TestRun::Moved(size_t index, size_t bytes) {
  // What a sender adds before it learns that enough has come does not count.
  if (finished_ || (amount_noted_ && !meter_.info(index).sender)) return;
  moved_bytes_ += bytes;
  meter_.Add(index, bytes);
  if (streams_[index].offset == 0) NoteAmount();
}

// Of what is sent, if anything is; blocks are counted by their bytes.
bool TestRun::AmountReached() const {
  if (!counts_amount_ || (params_.num == 0 && params_.blockcount == 0)) return false;
  const uint64_t moved = meter_.total_bytes(params_.client_sends());
  if (params_.num != 0) return moved >= static_cast<uint64_t>(params_.num);
  const double wanted =
      static_cast<double>(params_.blockcount) * static_cast<double>(params_.length);
  return static_cast<double>(moved) >= wanted;
}

void TestRun::NoteAmount() {
  if (amount_noted_ || !AmountReached() || meter_.omitting()) return;
  amount_noted_ = true;
  // From the loop: we may be in the middle of a stream's callback.
  amount_timer_.Start(0, [this] { callbacks_.on_amount(); });
}

void TestRun::StreamFailed(size_t index, const absl::Status& status) {
  streams_[index].ended = true;
  if (finished_) return;
  const bool sender = meter_.info(index).sender;
  const Error error{sender ? ErrorCode::kStreamWrite : ErrorCode::kStreamRead, "",
                    StatusToErrno(status)};
  error_timer_.Start(kErrorGrace, [this, error] { callbacks_.on_error(error); });
}

// ---- Intervals ----

std::vector<TcpSample> TestRun::Samples() const {
  std::vector<TcpSample> samples(streams_.size());
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (!meter_.info(i).sender) continue;
    const tcp::TcpInfo info = streams_[i].socket->Info();
    samples[i] = {.retransmits = info.total_retrans_segs,
                  .cwnd = info.snd_cwnd_bytes,
                  .snd_wnd = info.snd_wnd,
                  .rtt_us = info.rtt_us,
                  .rttvar_us = info.rttvar_us,
                  .pmtu = info.pmtu};
  }
  return samples;
}

// Ticks are multiples of the interval from the start, however late each one comes. The one that
// falls on the planned end waits a little, so that the end makes the last line.
void TestRun::ScheduleTick() {
  if (interval_s_ <= 0) return;
  const double elapsed = meter_.SecondsSinceStart(Now());
  // Those that a busy process has missed are skipped.
  ticks_ = std::max(ticks_ + 1, static_cast<uint64_t>(elapsed / interval_s_) + 1);
  double at = static_cast<double>(ticks_) * interval_s_;
  const double end = static_cast<double>(params_.time_s);
  if (end > 0 && !meter_.omitting() && at > end - interval_s_ * kShortInterval && at <= end) {
    at = end + interval_s_ * kShortInterval;
  }
  tick_timer_.Start(std::max(at - elapsed, 0.0), [this] { OnTick(); });
}

void TestRun::OnTick() {
  report_.OnInterval(meter_.EndInterval(Now(), Samples()));
  ScheduleTick();
}

void TestRun::OnOmitEnd() {
  const Time now = Now();
  if (interval_s_ > 0 && meter_.SecondsOfInterval(now) > interval_s_ * (1 - kShortInterval)) {
    report_.OnInterval(meter_.EndInterval(now, Samples()));
  }
  meter_.EndOmit(now, Samples());
  ticks_ = 0;
  ScheduleTick();
}

void TestRun::Finish() {
  if (finished_ || !meter_.started()) return;
  sending_ = false;
  // What has arrived counts.
  for (size_t i = 0; i < streams_.size(); ++i) Read(i);
  finished_ = true;
  for (UvTimer* timer :
       {&tick_timer_, &omit_timer_, &pace_timer_, &pump_timer_, &amount_timer_, &error_timer_}) {
    timer->Stop();
  }
  const Time now = Now();
  const std::vector<TcpSample> samples = Samples();
  const bool worth_a_line = meter_.interval_bytes() > 0 || interval_s_ <= 0 ||
                            meter_.SecondsOfInterval(now) >= interval_s_ * kShortInterval;
  if (worth_a_line) report_.OnInterval(meter_.EndInterval(now, samples));
  meter_.Finish(now, samples);
  if (!streams_.empty()) congestion_ = streams_[0].socket->Info().congestion_control;
  const CpuTimes cpu = ReadCpu();
  const double wall = std::chrono::duration<double>(now - start_).count();
  if (wall > 0) {
    cpu_.user = (cpu.user_s - cpu_at_start_.user_s) / wall * 100;
    cpu_.system = (cpu.system_s - cpu_at_start_.system_s) / wall * 100;
    cpu_.total = cpu_.user + cpu_.system;
  }
}

TestRun::CpuTimes TestRun::ReadCpu() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return {.user_s = Seconds(usage.ru_utime), .system_s = Seconds(usage.ru_stime)};
}

Results TestRun::MakeResults() const {
  Results results{.cpu = cpu_, .congestion = congestion_, .streams = meter_.ToResults()};
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (meter_.info(i).sender) results.sender_has_retransmits = 1;
  }
  return results;
}

// ---- The end ----

void TestRun::Close(const std::function<void()>& closed) {
  sending_ = false;
  finished_ = true;
  const auto left = std::make_shared<size_t>(streams_.size());
  if (*left == 0) return closed();
  for (Stream& stream : streams_) {
    stream.ended = true;
    stream.socket->Close([left, closed] {
      if (--*left == 0) closed();
    });
  }
}

}  // namespace tapwire::apps::iperf3
