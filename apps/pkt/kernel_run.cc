// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/kernel_run.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "apps/pkt/parser.h"
#include "apps/pkt/runner.h"
#include "drivers/tap/unique_fd.h"

namespace tapwire::pkt {
namespace {

using drivers::UniqueFd;

// A child that does not end by itself is ended after that time.
constexpr unsigned kLongestRunSeconds = 900;

// The smallest script there is: whether it passes says whether the kernel can be used.
constexpr char kTrial[] = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n";

std::string Packed(const RunResult& result) {
  return absl::StrCat(static_cast<int>(result.verdict), " ", result.pos.line, " ",
                      result.pos.column, " ", result.message);
}

RunResult Unpacked(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits(' ', 3));
  RunResult result;
  int verdict = 0;
  const bool whole = parts.size() == 4 && absl::SimpleAtoi(parts[0], &verdict) &&
                     absl::SimpleAtoi(parts[1], &result.pos.line) &&
                     absl::SimpleAtoi(parts[2], &result.pos.column);
  if (!whole) return {Verdict::kFail, {}, "the run ended without a result"};
  result.verdict = static_cast<Verdict>(verdict);
  result.message = parts[3];
  return result;
}

// One script under way.
struct Child {
  size_t script = 0;
  pid_t pid = -1;
  UniqueFd result;
  std::string text;
};

[[noreturn]] void PlayAndExit(const std::string& source, const KernelRunOptions& options, int out) {
  signal(SIGALRM, SIG_DFL);
  alarm(kLongestRunSeconds);
  RunOptions run = options.run;
  run.against = Against::kKernel;
  const std::string text = Packed(RunScript(source, run, options.fixed));
  std::fflush(nullptr);
  const bool told = write(out, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  // Threads may still be in calls: no destructor is run.
  _exit(told ? 0 : 1);
}

bool Start(const std::string& source, const KernelRunOptions& options, Child& child) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  child.result = UniqueFd(ends[0]);
  const UniqueFd out(ends[1]);
  std::fflush(nullptr);
  child.pid = fork();
  if (child.pid == 0) PlayAndExit(source, options, out.get());
  return child.pid > 0;
}

// Reads what there is; true at the end.
bool Finished(Child& child) {
  char buffer[4096];
  const ssize_t length = read(child.result.get(), buffer, sizeof(buffer));
  if (length > 0) child.text.append(buffer, static_cast<size_t>(length));
  if (length > 0 || (length < 0 && errno == EINTR)) return false;
  int status = 0;
  waitpid(child.pid, &status, 0);
  return true;
}

class Batch {
 public:
  Batch(const std::vector<KernelScript>& scripts, const KernelRunOptions& options,
        const std::function<void(const KernelScript&, const RunResult&)>& tell)
      : scripts_(scripts), options_(options), tell_(tell) {}

  void Run() {
    for (size_t i = 0; i < scripts_.size(); ++i) {
      while (children_.size() >= static_cast<size_t>(options_.jobs)) WaitForOne();
      Begin(i);
    }
    while (!children_.empty()) WaitForOne();
    last_try_ = true;
    for (const size_t script : failed_) {
      Begin(script);
      while (!children_.empty()) WaitForOne();
    }
  }

 private:
  void Begin(size_t script) {
    Child child;
    child.script = script;
    if (Start(scripts_[script].source, options_, child)) {
      children_.push_back(std::move(child));
    } else {
      tell_(scripts_[script], {Verdict::kFail, {}, "no child process"});
    }
  }

  void WaitForOne() {
    std::vector<pollfd> fds;
    for (const Child& child : children_) fds.push_back({child.result.get(), POLLIN, 0});
    if (poll(fds.data(), fds.size(), -1) <= 0) return;
    for (size_t i = children_.size(); i-- > 0;) {
      if (fds[i].revents == 0 || !Finished(children_[i])) continue;
      const Child child = std::move(children_[i]);
      children_.erase(children_.begin() + static_cast<ptrdiff_t>(i));
      End(child);
    }
  }

  void End(const Child& child) {
    const RunResult result = Unpacked(child.text);
    if (result.verdict == Verdict::kFail && !last_try_) return failed_.push_back(child.script);
    tell_(scripts_[child.script], result);
  }

  const std::vector<KernelScript>& scripts_;
  const KernelRunOptions& options_;
  const std::function<void(const KernelScript&, const RunResult&)>& tell_;
  std::vector<Child> children_;
  std::vector<size_t> failed_;
  bool last_try_ = false;
};

}  // namespace

std::optional<std::string> WhyNoKernel() {
  std::optional<std::string> why;
  RunAgainstKernel({{"trial", kTrial}}, {}, [&](const KernelScript&, const RunResult& result) {
    if (result.verdict != Verdict::kPass) why = result.message;
  });
  return why;
}

void RunAgainstKernel(const std::vector<KernelScript>& scripts, const KernelRunOptions& options,
                      const std::function<void(const KernelScript&, const RunResult&)>& tell) {
  Batch(scripts, options, tell).Run();
}

bool IsQuickForKernel(absl::string_view source, const Defines& defines, double seconds) {
  if (absl::StrContains(source, "\n// kernel: no")) return false;
  const ParseResult parsed = ParseScript(source, defines);
  for (const ScriptOption& option : parsed.script.options) {
    if (option.name == "profile" && option.value == "rfc") return false;
  }
  Duration time{};
  for (const Event& event : parsed.script.events) {
    const TimeKind kind = event.time.kind;
    const Duration start = event.time.start;
    const bool absolute = kind == TimeKind::kAbsolute || kind == TimeKind::kAbsoluteRange;
    if (kind != TimeKind::kAny) time = absolute ? std::max(time, start) : time + start;
  }
  return time <= std::chrono::duration<double>(seconds);
}

}  // namespace tapwire::pkt
