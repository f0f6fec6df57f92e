// SPDX-License-Identifier: Apache-2.0
// Interpreter: plays one script against a host. It owns time: nothing happens between two events
// but what the host's timers bring. A call marked as blocking runs inside the socket table, which
// asks the waiter (this class) to wait; the waiter plays the events that follow until it may
// return.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/pkt/ast.h"
#include "apps/pkt/calls.h"
#include "apps/pkt/code.h"
#include "apps/pkt/datagram.h"
#include "apps/pkt/host.h"
#include "apps/pkt/session.h"
#include "apps/pkt/settings.h"
#include "stack/sockets/waiter.h"

namespace tapwire::pkt {

enum class Verdict : uint8_t { kPass, kFail, kUnsupported };

struct RunResult {
  Verdict verdict = Verdict::kPass;
  Pos pos;
  std::string message;  // may have further lines: expected, actual
};

class Interpreter final : private Waiter {
 public:
  // Both outlive the interpreter.
  Interpreter(const Script& script, const RunOptions& options);
  // The sockets ask the waiter while they are closed: all members must still be there.
  ~Interpreter() override { host_->Destroy(); }
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  RunResult Run();

 private:
  // A call that waits for `ready`, while later events are played.
  struct Blocked {
    absl::FunctionRef<bool()> ready;
    std::optional<Time> deadline;
    Blocked* outer;
    bool is_ready = false;

    // `ready` does the work of the call: once it said yes it must not be asked again.
    bool Ready() { return is_ready = is_ready || ready(); }
  };
  // When an event may happen.
  struct Window {
    Time start, end;
    Duration tolerance{};
    Time base;  // the event before
    bool any = false;
  };
  enum class Progress : uint8_t { kDone, kMore, kInterrupted };

  // Waiter
  bool Run(absl::FunctionRef<void()> call) override;
  bool WaitUntil(absl::FunctionRef<bool()> ready, std::optional<Time> deadline) override;
  void Notify() override {}
  bool WaitInScript(Blocked& blocked);
  bool WaitAlone(Blocked& blocked);

  bool over() const { return result_.verdict != Verdict::kPass || next_ >= script_.events.size(); }
  bool stopped() const { return result_.verdict != Verdict::kPass; }
  bool Interrupted();
  // Interpreter time.
  Time now() { return host_->now(); }
  Duration Elapsed(Time time) const { return time - origin_; }
  Window WindowOf(const TimeSpec& time);
  // Runs the stack up to `time`; false if a blocked call got ready or failed first.
  bool AdvanceTo(Time time);
  // One step of it: to the stack's next deadline, at most to `time`.
  void AdvanceStep(Time time);
  void Settle();

  void Step();
  void Finish(const Event& event, Time happened);
  void RunCall(const Event& event, const SyscallSpec& call);
  void RunShell(const Event& event, const ShellSpec& shell);
  void RunAssertions(const Event& event, const CodeSpec& code);
  void CheckCallTime(const Event& event, Time expected_end, Duration tolerance);

  // interpreter_packets.cc
  void Inject(const Event& event, const PacketSpec& packet);
  bool InjectTcp(const PacketSpec& packet);
  bool InjectIcmp(const Event& event, const PacketSpec& packet);
  Progress Expect(const Event& event, const PacketSpec& packet);
  Progress TakeSent(const Event& event, const PacketSpec& expected);
  Progress Compare(const Event& event, const PacketSpec& expected, ParsedDatagram& actual,
                   Time when);
  bool Belongs(const PacketSpec& expected, const ParsedDatagram& actual);
  std::string PayloadProblem(const ParsedDatagram& actual, uint32_t script_seq) const;
  std::string TimeProblem(Time when) const;
  std::string TimestampProblem(const TcpSpec& expected, const TcpSpec& actual) const;
  void ReportMismatch(const Event& event, const PacketSpec& expected, const PacketSpec& actual,
                      const std::string& why, Time when);
  void ReportMissing(const Event& event, const PacketSpec& expected);
  std::string ExpectedLine(const PacketSpec& expected) const;
  IpFamily family() const { return options_.net.family(); }

  void Fail(const Event& event, std::string message);
  void FailPacket(const Event& event, std::string message);
  void Unsupported(const Event& event, std::string reason);
  // Of --non_fatal.
  static void Warn(const Event& event, const std::string& text);
  void Note(const Event& event, const std::string& text);

  const Script& script_;
  const RunOptions& options_;
  std::unique_ptr<Host> host_;
  Session session_;
  Calls calls_;
  CodeVariables variables_;
  RunResult result_;

  Time origin_;
  Time base_;  // of relative times
  size_t next_ = 0;
  std::optional<Window> window_;  // of the event that is under way
  Blocked* blocked_ = nullptr;
  bool call_may_block_ = false;
  Time blocked_until_;  // when the marked call is to return, with its tolerance
  bool gave_up_ = false;
  int standing_steps_ = 0;  // in which time did not move

  // An expected segment of which only the first parts were seen.
  struct Partial {
    PacketSpec packet;
    Time when;
  };
  std::optional<Partial> partial_;
};

// Names of TCP_INFO and of its constants, for assertions. `info`: 280 bytes as getsockopt gives
// them; none: no connection.
std::optional<CodeValue> LookupTcpInfo(absl::string_view name,
                                       const std::optional<std::string>& info);

}  // namespace tapwire::pkt
