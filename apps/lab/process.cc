// SPDX-License-Identifier: Apache-2.0
#include "apps/lab/process.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tapwire::apps::lab {
namespace {

constexpr int kInterruptedExit = 130;  // as shells have it: 128 + SIGINT
constexpr double kDisturbedShare = 0.10;
// /proc/stat counts in ticks of 10 ms, on each processor.
constexpr double kCounterError_s = 0.02;

std::atomic<int> interrupts = 0;
static_assert(std::atomic<int>::is_always_lock_free);  // or no signal handler could use it

void OnInterrupt(int) {
  if (interrupts.fetch_add(1) > 0) _exit(kInterruptedExit);
}

double Seconds(const timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
}

// Of all processors, what the host took away from this machine included.
double BusySeconds() {
  std::ifstream stat("/proc/stat");
  std::string word;
  double sum = 0, ticks = 0;
  stat >> word;
  for (int i = 0; i < 8 && stat >> ticks; ++i) {
    const bool idle = i == 3 || i == 4;
    if (!idle) sum += ticks;
  }
  return sum / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double OwnSeconds() {
  double sum = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage = {};
    getrusage(who, &usage);
    sum += Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
  }
  return sum;
}

// A thread's exact running time.
double ThreadSeconds(int pid) {
  std::ifstream schedstat(absl::StrCat("/proc/", pid, "/schedstat"));
  double nanoseconds = 0;
  schedstat >> nanoseconds;
  return nanoseconds * 1e-9;
}

std::vector<int> SoftirqThreads() {
  std::vector<int> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    int pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
    std::ifstream comm(entry.path() / "comm");
    std::string name;
    std::getline(comm, name);
    if (name.rfind("ksoftirqd/", 0) == 0) found.push_back(pid);
  }
  return found;
}

}  // namespace

Interruption::Interruption() {
  interrupts = 0;
  struct sigaction action = {};
  action.sa_handler = &OnInterrupt;
  sigaction(SIGINT, &action, &old_int_);
  sigaction(SIGTERM, &action, &old_term_);
}

Interruption::~Interruption() {
  sigaction(SIGINT, &old_int_, nullptr);
  sigaction(SIGTERM, &old_term_, nullptr);
}

bool Interruption::requested() { return interrupts.load(std::memory_order_relaxed) > 0; }

absl::Status Interruption::Check() {
  return requested() ? absl::CancelledError("interrupted") : absl::OkStatus();
}

void Interruption::Forget() {
  for (const int number : {SIGINT, SIGTERM, SIGPIPE, SIGUSR1}) {
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    sigaction(number, &action, nullptr);
  }
}

OneProcessor::OneProcessor() {
  CPU_ZERO(&before_);
  if (sched_getaffinity(0, sizeof(before_), &before_) != 0) return;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &before_)) continue;
    if (cpu_ >= 0) other_ = cpu_;
    cpu_ = cpu;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  if (cpu_ < 0) return;
  CPU_SET(cpu_, &one);
  if (sched_setaffinity(0, sizeof(one), &one) != 0) cpu_ = -1;
}

OneProcessor::~OneProcessor() {
  if (cpu_ >= 0) sched_setaffinity(0, sizeof(before_), &before_);
}

void OneProcessor::MoveTo(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  sched_setaffinity(0, sizeof(one), &one);
}

ForeignLoad::ForeignLoad() : softirq_threads_(SoftirqThreads()), start_(Read()) {}

ForeignLoad::Reading ForeignLoad::Read() const {
  double own = OwnSeconds();
  for (const int pid : softirq_threads_) own += ThreadSeconds(pid);
  const auto wall = std::chrono::steady_clock::now().time_since_epoch();
  return {std::chrono::duration<double>(wall).count(), BusySeconds(), own};
}

double ForeignLoad::share() const {
  const Reading now = Read();
  const double foreign = (now.busy_s - start_.busy_s) - (now.own_s - start_.own_s);
  const double wall = std::max(now.wall_s - start_.wall_s, 1e-9);
  return std::max(0.0, foreign - kCounterError_s) / wall;
}

bool ForeignLoad::disturbed() const { return share() > kDisturbedShare; }

}  // namespace tapwire::apps::lab
