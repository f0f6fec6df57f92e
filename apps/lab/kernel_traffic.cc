// SPDX-License-Identifier: Apache-2.0
// What runs in the children uses nothing of the library, and no memory that it has to allocate
// while it measures.
#include "apps/lab/kernel_traffic.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/lab/hosts.h"
#include "apps/lab/process.h"
#include "apps/lab/workload.h"
#include "netdev/base/status_util.h"

namespace tapwire::apps::lab {
namespace {

using drivers::UniqueFd;
using SteadyClock = std::chrono::steady_clock;

constexpr double kSpareSeconds = 15;  // for connecting
constexpr char kCongestionControl[] = "cubic";

// What a child tells its parent: that it listens, then the figure.
struct Report {
  bool ready = false;
  double per_second = 0;
  int error = 0;  // errno
  std::array<char, 64> what = {};
};

class Reporter {
 public:
  // -1: nobody listens.
  explicit Reporter(int fd) : fd_(fd) {}
  void Ready() const { Send({.ready = true}); }
  void Rate(double per_second) const { Send({.per_second = per_second}); }
  [[noreturn]] void Fail(const char* what) const {
    Report report{.error = errno != 0 ? errno : ECONNABORTED};
    std::snprintf(report.what.data(), report.what.size(), "%s", what);
    Send(report);
    _exit(1);
  }

 private:
  void Send(const Report& report) const { (void)!write(fd_, &report, sizeof(report)); }
  int fd_;
};

double SecondsSince(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

// Counts within the time that is measured.
class Meter {
 public:
  explicit Meter(const RunTime& time) : time_(time), start_(SteadyClock::now()) {}
  // False when the time is over.
  bool Count(uint64_t n) {
    const double now = SecondsSince(start_);
    if (now < time_.warm_up_s) return true;
    if (first_s_ < 0) {
      first_s_ = now;  // what has come until now came before it
    } else {
      count_ += n;
    }
    last_s_ = now;
    return now < time_.warm_up_s + time_.measured_s;
  }
  double per_second() const {
    return last_s_ > first_s_ ? static_cast<double>(count_) / (last_s_ - first_s_) : 0;
  }

 private:
  RunTime time_;
  SteadyClock::time_point start_;
  double first_s_ = -1, last_s_ = -1;
  uint64_t count_ = 0;
};

// ---- Sockets, in a child ----

sockaddr_in ServerAddress() {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(kPort);
  const std::string text = ServerEndpoint().address.ToString();
  inet_pton(AF_INET, text.c_str(), &address.sin_addr);
  return address;
}

// CUBIC per socket, which root of a namespace may choose whatever
// net.ipv4.tcp_allowed_congestion_control says: no setting of the machine is touched.
int TcpSocketOrFail(const Reporter& reporter) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) reporter.Fail("socket");
  if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kCongestionControl,
                 sizeof(kCongestionControl) - 1) != 0) {
    reporter.Fail("choose CUBIC");
  }
  return fd;
}

int ListenOrFail(const Reporter& reporter) {
  const int fd = TcpSocketOrFail(reporter);
  const sockaddr_in address = ServerAddress();
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    reporter.Fail("bind");
  }
  if (listen(fd, 1024) != 0) reporter.Fail("listen");
  return fd;
}

int ConnectOrFail(const Reporter& reporter) {
  const int fd = TcpSocketOrFail(reporter);
  const sockaddr_in address = ServerAddress();
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    reporter.Fail("connect");
  }
  return fd;
}

// ---- Bodies of the children ----

void ServeBulk(const Reporter& reporter, const RunTime& time) {
  const int listener = ListenOrFail(reporter);
  reporter.Ready();
  const int fd = accept(listener, nullptr, nullptr);
  if (fd < 0) reporter.Fail("accept");
  std::vector<char> block(kBlockBytes);
  Meter meter(time);
  for (;;) {
    const ssize_t n = recv(fd, block.data(), block.size(), 0);
    if (n <= 0) reporter.Fail("receive");
    if (!meter.Count(static_cast<uint64_t>(n))) break;
  }
  reporter.Rate(meter.per_second() * 8);
}

// Until the server goes away.
void SendBulk(const Reporter& reporter) {
  const int fd = ConnectOrFail(reporter);
  const std::vector<char> block(kBlockBytes, 'x');
  while (send(fd, block.data(), block.size(), MSG_NOSIGNAL) > 0) {
  }
}

void Watch(int epoll, int fd, const Reporter& reporter) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) reporter.Fail("epoll_ctl");
}

// One byte in, one byte out. False at the end of the connection.
bool Exchange(int fd) {
  char byte = 0;
  return recv(fd, &byte, 1, 0) == 1 && send(fd, &byte, 1, MSG_NOSIGNAL) == 1;
}

void ServeRequests(const Reporter& reporter, size_t flows, const RunTime& time) {
  const int listener = ListenOrFail(reporter);
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  reporter.Ready();
  for (size_t i = 0; i < flows; ++i) {
    const int fd = accept(listener, nullptr, nullptr);
    if (fd < 0) reporter.Fail("accept");
    Watch(epoll, fd, reporter);
  }
  Meter meter(time);
  std::array<epoll_event, 64> events;
  for (;;) {
    const int n = epoll_wait(epoll, events.data(), static_cast<int>(events.size()), -1);
    if (n < 0) reporter.Fail("epoll_wait");
    for (int i = 0; i < n; ++i) {
      if (!Exchange(events[static_cast<size_t>(i)].data.fd)) reporter.Fail("a connection ended");
    }
    if (!meter.Count(static_cast<uint64_t>(n))) break;
  }
  reporter.Rate(meter.per_second());
}

void AskRequests(const Reporter& reporter, size_t flows) {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  std::vector<int> fds;
  for (size_t i = 0; i < flows; ++i) {
    fds.push_back(ConnectOrFail(reporter));
    Watch(epoll, fds.back(), reporter);
  }
  for (const int fd : fds) {
    if (send(fd, "x", 1, MSG_NOSIGNAL) != 1) return;
  }
  std::array<epoll_event, 64> events;
  for (;;) {
    const int n = epoll_wait(epoll, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < n; ++i) {
      if (!Exchange(events[static_cast<size_t>(i)].data.fd)) return;
    }
  }
}

// ---- The parent ----

struct ReportPipe {
  UniqueFd read, write;
};
absl::StatusOr<ReportPipe> MakeReportPipe() {
  std::array<int, 2> fds;
  if (pipe2(fds.data(), O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
  return ReportPipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

absl::StatusOr<Report> NextReport(int fd, double limit_s) {
  const auto start = SteadyClock::now();
  while (SecondsSince(start) < limit_s) {
    TW_RETURN_IF_ERROR(Interruption::Check());
    pollfd waiting = {.fd = fd, .events = POLLIN, .revents = 0};
    if (poll(&waiting, 1, 100) <= 0) continue;
    Report report;
    const ssize_t n = read(fd, &report, sizeof(report));
    if (n != sizeof(report)) return absl::AbortedError("the kernel's side ended without a figure");
    if (report.error != 0) return ErrnoStatus(report.error, absl::StrCat(report.what.data()));
    return report;
  }
  return absl::DeadlineExceededError("the kernel's side gave no figure in time");
}

using Body = absl::FunctionRef<void(const Reporter&)>;

absl::StatusOr<Child> ForkIn(const Namespace& where, const ReportPipe& reports, double limit_s,
                             Body body) {
  TW_ASSIGN_OR_RETURN(const NamespaceVisit visit, NamespaceVisit::Enter(where));
  return Child::Fork(limit_s, [&] { body(Reporter(reports.write.get())); });
}

absl::StatusOr<double> RunPair(const KernelPair& pair, const RunTime& time, Body serve, Body ask) {
  const double limit_s = time.warm_up_s + time.measured_s + kSpareSeconds;
  TW_ASSIGN_OR_RETURN(ReportPipe reports, MakeReportPipe());
  TW_ASSIGN_OR_RETURN(const Child server, ForkIn(pair.server, reports, limit_s, serve));
  TW_RETURN_IF_ERROR(NextReport(reports.read.get(), kSpareSeconds).status());  // it listens
  TW_ASSIGN_OR_RETURN(const Child client, ForkIn(pair.client, reports, limit_s, ask));
  reports.write.Reset();
  TW_ASSIGN_OR_RETURN(const Report report, NextReport(reports.read.get(), limit_s));
  if (report.per_second <= 0) return absl::AbortedError("nothing was transferred");
  return report.per_second;
}

}  // namespace

absl::StatusOr<Child> Child::Fork(double limit_s, absl::FunctionRef<void()> body) {
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus(errno, "fork");
  if (pid > 0) return Child(pid);
  Interruption::Forget();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it had gone before that
  alarm(static_cast<unsigned>(std::ceil(limit_s)));
  body();
  _exit(0);
}

Child::~Child() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

absl::StatusOr<double> RunKernelBulk(const KernelPair& pair, const RunTime& time) {
  return RunPair(
      pair, time, [&](const Reporter& reporter) { ServeBulk(reporter, time); },
      [](const Reporter& reporter) { SendBulk(reporter); });
}

absl::StatusOr<double> RunKernelRr(const KernelPair& pair, size_t flows, const RunTime& time) {
  return RunPair(
      pair, time, [&](const Reporter& reporter) { ServeRequests(reporter, flows, time); },
      [&](const Reporter& reporter) { AskRequests(reporter, flows); });
}

absl::StatusOr<Child> StartKernelRequesters(size_t flows, double limit_s) {
  return Child::Fork(limit_s, [&] { AskRequests(Reporter(-1), flows); });
}

}  // namespace tapwire::apps::lab
