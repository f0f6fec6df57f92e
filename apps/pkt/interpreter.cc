// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/interpreter.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/pkt/kernel_host.h"
#include "apps/pkt/packet_text.h"
#include "apps/pkt/world.h"

namespace tapwire::pkt {
namespace {

// Timers that go off without end at one moment.
constexpr int kMaxStandingSteps = 100'000;

std::unique_ptr<Host> MakeHost(const RunOptions& options, Waiter& waiter) {
  if (options.against == Against::kKernel) {
    return std::make_unique<KernelHost>(options.net, waiter);
  }
  return std::make_unique<World>(options.net, ProfileConfig(options.profile), waiter);
}

}  // namespace

Interpreter::Interpreter(const Script& script, const RunOptions& options)
    : script_(script), options_(options), session_(options.net), calls_(host_, session_) {
  // It may ask the waiter already while it is made.
  host_ = MakeHost(options, *this);
  origin_ = base_ = blocked_until_ = host_->now();
}

RunResult Interpreter::Run() {
  if (!host_->status().ok()) {
    result_ = {Verdict::kFail, {}, std::string(host_->status().message())};
    return result_;
  }
  while (!over()) Step();
  if (stopped()) return result_;
  const size_t held = host_->Destroy();
  if (held != 0) {
    result_ = {Verdict::kFail, script_.events.back().pos,
               absl::StrCat(held, " packets are still held after the end")};
  }
  return result_;
}

// ---- Waiting ----

bool Interpreter::Run(absl::FunctionRef<void()> call) {
  call();
  if (host_ != nullptr) Settle();
  return true;
}

bool Interpreter::WaitUntil(absl::FunctionRef<bool()> ready, std::optional<Time> deadline) {
  Settle();
  Blocked blocked{ready, deadline, blocked_};
  if (blocked.Ready()) return true;
  const bool in_script = call_may_block_;
  blocked_ = &blocked;
  const bool is_ready = in_script ? WaitInScript(blocked) : WaitAlone(blocked);
  blocked_ = blocked.outer;
  return is_ready;
}

bool Interpreter::WaitInScript(Blocked& blocked) {
  while (!stopped()) {
    if (blocked.Ready()) return true;
    if (blocked.deadline && now() >= *blocked.deadline) return false;
    if (!over()) {
      Step();
    } else if (now() < blocked_until_) {
      AdvanceTo(blocked_until_);
    } else {
      break;
    }
  }
  gave_up_ = true;
  return false;
}

bool Interpreter::WaitAlone(Blocked& blocked) {
  const Time latest = now() + host_->patience();
  const Time limit = blocked.deadline ? std::min(*blocked.deadline, latest) : latest;
  while (!stopped() && !blocked.Ready()) {
    if (now() >= limit) {
      gave_up_ = !blocked.deadline;
      return false;
    }
    if (!blocked.deadline && !host_->NextDeadline()) {
      gave_up_ = true;  // nothing will ever happen
      return false;
    }
    AdvanceStep(limit);
  }
  return !stopped();
}

bool Interpreter::Interrupted() {
  // Only the innermost call can return.
  if (blocked_ == nullptr) return false;
  if (stopped() || blocked_->Ready()) return true;
  return blocked_->deadline && now() >= *blocked_->deadline;
}

void Interpreter::Settle() {
  if (host_->Settle() || stopped()) return;
  result_ = {Verdict::kFail, script_.events[std::min(next_, script_.events.size() - 1)].pos,
             "the stack has work without end at one moment"};
}

void Interpreter::AdvanceStep(Time time) {
  const std::optional<Time> next = host_->NextDeadline();
  const Time before = now();
  host_->SetTime(next && *next < time ? *next : time);
  Settle();
  standing_steps_ = now() == before ? standing_steps_ + 1 : 0;
  if (standing_steps_ > kMaxStandingSteps && !stopped()) {
    result_ = {Verdict::kFail, {}, "timers go off without end at one moment"};
  }
}

bool Interpreter::AdvanceTo(Time time) {
  if (blocked_ != nullptr && blocked_->deadline) time = std::min(time, *blocked_->deadline);
  Settle();
  while (!Interrupted() && !stopped()) {
    if (now() >= time) return true;
    AdvanceStep(time);
  }
  return false;
}

Interpreter::Window Interpreter::WindowOf(const TimeSpec& time) {
  Window window;
  const bool relative = time.kind == TimeKind::kRelative || time.kind == TimeKind::kRelativeRange;
  const Time from = relative ? base_ : origin_;
  window.base = base_;
  window.any = time.kind == TimeKind::kAny;
  window.start = window.any ? now() : from + time.start;
  window.end = window.any ? now() + std::min<Duration>(std::chrono::minutes(10), host_->patience())
                          : from + time.end;
  const auto share = std::chrono::duration_cast<Duration>((window.end - base_) *
                                                          (options_.tolerance_percent / 100));
  window.tolerance = std::max(options_.tolerance, window.any ? Duration{0} : share);
  return window;
}

// ---- Events ----

void Interpreter::Step() {
  const Event& event = script_.events[next_];
  if (!window_) window_ = WindowOf(event.time);
  const auto* packet = std::get_if<PacketSpec>(&event.what);
  if (packet != nullptr && !packet->inbound) {
    Expect(event, *packet);
    return;
  }
  const bool second = event.time.blocking && blocked_ != nullptr;
  // One call at a time may block: the second starts when the first has returned.
  const Time start = second ? std::max(window_->start, blocked_until_) : window_->start;
  if (!AdvanceTo(start)) return;
  if (second) return Fail(event, "the blocking call before has not returned yet");
  if (packet != nullptr) {
    Inject(event, *packet);
  } else if (const auto* call = std::get_if<SyscallSpec>(&event.what)) {
    RunCall(event, *call);
  } else if (const auto* shell = std::get_if<ShellSpec>(&event.what)) {
    RunShell(event, *shell);
  } else {
    RunAssertions(event, std::get<CodeSpec>(event.what));
  }
}

// Relative times count from when the script wanted the event; if it left that open, from when it
// happened.
void Interpreter::Finish(const Event& event, Time happened) {
  const TimeKind kind = event.time.kind;
  const bool open = kind == TimeKind::kAny || kind == TimeKind::kAbsoluteRange ||
                    kind == TimeKind::kRelativeRange;
  base_ = open ? happened : window_->start;
  window_.reset();
  ++next_;
}

void Interpreter::RunCall(const Event& event, const SyscallSpec& call) {
  Note(event, absl::StrCat(call.name, "()"));
  const Time base = window_->base;
  const bool may_block = event.time.blocking.has_value();
  Time end = now();
  Duration tolerance = window_->tolerance;
  if (may_block) {
    const bool relative = event.time.kind == TimeKind::kRelative;
    end = (relative ? base : origin_) + *event.time.blocking;
    const auto share = std::chrono::duration_cast<Duration>((end - window_->start) *
                                                            (options_.tolerance_percent / 100));
    tolerance = std::max(options_.tolerance, share);
    blocked_until_ = end + tolerance;
  }
  // Later events are played while it blocks.
  Finish(event, now());
  const bool outer = std::exchange(call_may_block_, may_block);
  gave_up_ = false;
  const CallOutcome outcome = calls_.Run(call);
  call_may_block_ = outer;
  if (stopped()) return;
  if (outcome.unsupported) return Unsupported(event, outcome.problem);
  if (gave_up_ && !outcome.problem.empty()) {
    gave_up_ = false;
    return Fail(event, absl::StrCat(call.name, "() does not return; ", outcome.problem));
  }
  if (!outcome.problem.empty()) {
    if (options_.fatal_calls) return Fail(event, outcome.problem);
    Warn(event, outcome.problem);
  }
  if (may_block) CheckCallTime(event, end, tolerance);
}

void Interpreter::CheckCallTime(const Event& event, Time expected_end, Duration tolerance) {
  const Duration late = now() - expected_end;
  if (late <= tolerance && -late <= tolerance) return;
  Fail(event, absl::StrCat("call returned at ", TimeText(Elapsed(now())), ", expected at ",
                           TimeText(Elapsed(expected_end))));
}

void Interpreter::RunShell(const Event& event, const ShellSpec& shell) {
  if (auto reason = host_->Apply(shell.command)) {
    return Unsupported(event, *reason);
  }
  Finish(event, now());
}

void Interpreter::RunAssertions(const Event& event, const CodeSpec& code) {
  std::optional<std::string> info;
  const auto& flow = session_.current();
  if (const ScriptSocket* socket = flow ? session_.Find(flow->fd) : nullptr) {
    std::string bytes(512, '\0');
    auto length = static_cast<socklen_t>(bytes.size());
    const int got =
        host_->calls().GetSockOpt(socket->live, IPPROTO_TCP, TCP_INFO, bytes.data(), &length);
    if (got == 0) {
      bytes.resize(length);
      info = std::move(bytes);
    }
  }
  const CodeResult result = RunCode(
      code.text, variables_, [&](absl::string_view name) { return LookupTcpInfo(name, info); });
  if (result.outcome != CodeOutcome::kPassed) {
    const bool missing = result.outcome == CodeOutcome::kUnsupported;
    result_ = {missing ? Verdict::kUnsupported : Verdict::kFail,
               {event.pos.line + result.line, result.line == 0 ? event.pos.column : 1},
               result.message};
    return;
  }
  Finish(event, now());
}

void Interpreter::Fail(const Event& event, std::string message) {
  if (!stopped()) result_ = {Verdict::kFail, event.pos, std::move(message)};
}

void Interpreter::FailPacket(const Event& event, std::string message) {
  if (options_.fatal_packets) return Fail(event, std::move(message));
  Warn(event, message);
  Finish(event, now());
}

void Interpreter::Unsupported(const Event& event, std::string reason) {
  if (!stopped()) result_ = {Verdict::kUnsupported, event.pos, std::move(reason)};
}

void Interpreter::Warn(const Event& event, const std::string& text) {
  std::fprintf(stderr, "line %d: warning: %s\n", event.pos.line, text.c_str());
}

void Interpreter::Note(const Event& event, const std::string& text) {
  if (!options_.verbose) return;
  std::printf("%s  line %d: %s\n", TimeText(Elapsed(now())).c_str(), event.pos.line, text.c_str());
}

}  // namespace tapwire::pkt
