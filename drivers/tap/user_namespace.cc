// SPDX-License-Identifier: Apache-2.0
#include "drivers/tap/user_namespace.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "drivers/tap/fd_passing.h"
#include "drivers/tap/kernel_link.h"
#include "drivers/tap/system_error.h"
#include "netdev/base/log.h"
#include "netdev/base/status_util.h"

namespace tapwire::drivers {
namespace {

constexpr size_t kMaxKernelAddresses = 16;
constexpr int kCreateTimeoutMs = 10'000;
constexpr int kSocketFd = 3;  // where the holder keeps its end of the socket pair

// What the holder was doing when it failed.
enum class Step : uint8_t {
  kDone,
  kUnshare,
  kMapIds,
  kOpenNode,
  kAttach,
  kNetlink,
  kLoopback,
  kLinkUp,
  kAddress,
};

// The one message of the holder, sent along with the descriptors.
struct Report {
  Step step = Step::kDone;
  int err = 0;
  size_t address = 0;  // index, for kAddress
};

// All that the holder needs, made before fork(): afterwards nothing may allocate.
struct Plan {
  const char* node_path;
  char tap_name[kMaxInterfaceName + 1];
  size_t queues;
  uint32_t mtu;
  std::array<IpPrefix, kMaxKernelAddresses> addresses;
  size_t address_count;
  std::string uid_map;
  std::string gid_map;
  pid_t parent;
};

// ---- Inside the child: system calls only ----

void ResetSignals() {
  for (int signal_number = 1; signal_number < NSIG; ++signal_number) {
    signal(signal_number, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Keeps standard error (for a sanitizer's last words) and the socket; gives back everything else
// the parent had open, so that nobody's pipe or port is held by this process.
void CloseInheritedFds(int socket) {
  if (socket != kSocketFd) {
    dup2(socket, kSocketFd);
  }
  if (syscall(SYS_close_range, kSocketFd + 1, ~0U, 0U) != 0) {
    for (int fd = kSocketFd + 1; fd < 65'536; ++fd) {
      close(fd);
    }
  }
}

int WriteProcFile(const char* path, const char* text, size_t size) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) {
    return errno;
  }
  const int err = write(fd, text, size) == static_cast<ssize_t>(size) ? 0 : errno;
  close(fd);
  return err;
}

// user_namespaces(7): the only mapping an unprivileged process may make is of its own ids, after
// giving up setgroups(2).
int MapIds(const Plan& plan) {
  // The new credentials made the process undumpable, and its /proc files root's.
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  (void)WriteProcFile("/proc/self/setgroups", "deny", 4);
  const int err = WriteProcFile("/proc/self/uid_map", plan.uid_map.data(), plan.uid_map.size());
  return err != 0 ? err
                  : WriteProcFile("/proc/self/gid_map", plan.gid_map.data(), plan.gid_map.size());
}

// Opens and attaches the queues. The node must be opened in here: a descriptor belongs to the
// network namespace in which it was opened.
Report AttachQueues(Plan& plan, int* fds) {
  for (size_t i = 0; i < plan.queues; ++i) {
    fds[i] = open(plan.node_path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fds[i] < 0) {
      return {.step = Step::kOpenNode, .err = errno};
    }
    if (const int err = internal::TunSetIff(fds[i], plan.tap_name, plan.queues > 1); err != 0) {
      return {.step = Step::kAttach, .err = err};
    }
  }
  return {};
}

int BringUp(KernelLink& kernel, const char* name, uint32_t mtu, int& ifindex) {
  const int err = KernelLink::IndexOf(name, ifindex);
  return err != 0 ? err : kernel.SetUp(ifindex, mtu);
}

Report ConfigureInside(const Plan& plan) {
  KernelLink kernel;
  int ifindex = 0;
  if (const int err = kernel.Open(); err != 0) {
    return {.step = Step::kNetlink, .err = err};
  }
  if (const int err = BringUp(kernel, "lo", 0, ifindex); err != 0) {
    return {.step = Step::kLoopback, .err = err};
  }
  if (const int err = BringUp(kernel, plan.tap_name, plan.mtu, ifindex); err != 0) {
    return {.step = Step::kLinkUp, .err = err};
  }
  for (size_t i = 0; i < plan.address_count; ++i) {
    if (const int err = kernel.AddAddress(ifindex, plan.addresses[i]); err != 0) {
      return {.step = Step::kAddress, .err = err, .address = i};
    }
  }
  return {};
}

Report BuildNamespace(Plan& plan, int* fds) {
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
    return {.step = Step::kUnshare, .err = errno};
  }
  if (const int err = MapIds(plan); err != 0) {
    return {.step = Step::kMapIds, .err = err};
  }
  if (const Report report = AttachQueues(plan, fds); report.step != Step::kDone) {
    return report;
  }
  return ConfigureInside(plan);
}

// Until the parent closes its end of the socket or dies. A pidfd tells of the end of the process;
// PR_SET_PDEATHSIG would tell of the end of the *thread* that forked, so it is only the substitute
// on kernels before 5.3.
void WaitForParent(int parent_pidfd, pid_t parent) {
  if (parent_pidfd < 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  }
  if (getppid() != parent) {
    return;
  }
  pollfd watched[2] = {{.fd = kSocketFd, .events = POLLIN, .revents = 0},
                       {.fd = parent_pidfd, .events = POLLIN, .revents = 0}};
  while (poll(watched, 2, -1) < 0 && errno == EINTR) {
  }
}

[[noreturn]] void RunHolder(Plan& plan, int socket) {
  ResetSignals();
  setsid();  // Ctrl-C at the terminal is for the parent
  CloseInheritedFds(socket);
  prctl(PR_SET_NAME, "tapwire-userns", 0, 0, 0);
  const auto parent_pidfd = static_cast<int>(syscall(SYS_pidfd_open, plan.parent, 0U));
  std::array<int, kMaxTapQueues> fds;
  const Report report = BuildNamespace(plan, fds.data());
  const size_t passed = report.step == Step::kDone ? plan.queues : 0;
  if (SendFds(kSocketFd, fds.data(), passed, &report, sizeof(report)) != 0 || passed == 0) {
    _exit(1);
  }
  for (size_t i = 0; i < passed; ++i) {
    close(fds[i]);
  }
  if (const int null = open("/dev/null", O_RDWR | O_CLOEXEC); null >= 0) {
    for (int fd = 0; fd < kSocketFd; ++fd) {
      dup2(null, fd);
    }
    close(null);
  }
  WaitForParent(parent_pidfd, plan.parent);
  _exit(0);
}

// ---- Inside the parent ----

absl::StatusOr<Plan> MakePlan(const UserNamespaceOptions& options) {
  TW_RETURN_IF_ERROR(CheckTapName(options.tap_name));
  if (options.queues < 1 || options.queues > kMaxTapQueues) {
    return absl::InvalidArgumentError(absl::StrCat(
        "TAP '", options.tap_name, "': queues=", options.queues, " is not in 1..", kMaxTapQueues));
  }
  if (options.kernel_addrs.size() > kMaxKernelAddresses) {
    return absl::InvalidArgumentError(absl::StrCat("TAP '", options.tap_name, "': more than ",
                                                   kMaxKernelAddresses, " kernel addresses"));
  }
  Plan plan = {.node_path = options.node_path.c_str(),
               .tap_name = {},
               .queues = options.queues,
               .mtu = options.mtu,
               .addresses = {},
               .address_count = options.kernel_addrs.size(),
               .uid_map = absl::StrCat("0 ", geteuid(), " 1"),
               .gid_map = absl::StrCat("0 ", getegid(), " 1"),
               .parent = getpid()};
  options.tap_name.copy(plan.tap_name, kMaxInterfaceName);
  std::copy(options.kernel_addrs.begin(), options.kernel_addrs.end(), plan.addresses.begin());
  return plan;
}

constexpr char kUsernsRemedy[] =
    "this system restricts user namespaces; as root run: sysctl user.max_user_namespaces=10000, on "
    "Debian also kernel.unprivileged_userns_clone=1, on Ubuntu also "
    "kernel.apparmor_restrict_unprivileged_userns=0; or use a TAP owned by this user instead";

absl::Status ReportToStatus(const Report& report, const UserNamespaceOptions& options) {
  const std::string where = absl::StrCat("user namespace for TAP ", options.tap_name, ": ");
  switch (report.step) {
    case Step::kDone:
      return absl::OkStatus();
    case Step::kUnshare:
      return SystemError(report.err, absl::StrCat(where, "unshare"), kUsernsRemedy);
    case Step::kMapIds:
      return SystemError(report.err, absl::StrCat(where, "map uid ", geteuid()), kUsernsRemedy);
    case Step::kOpenNode:
      return internal::OpenNodeError(
          report.err, options.node_path,
          absl::StrCat("a user namespace opens the node as uid ", geteuid(),
                       "; make it accessible (as root: chmod 0666 ", options.node_path,
                       "), name another node (dev=PATH), or pass an opened descriptor with fd=N"));
    case Step::kAttach:
      return report.err == EPERM
                 ? SystemError(report.err, absl::StrCat(where, "create the TAP"), kUsernsRemedy)
                 : internal::TunSetIffError(report.err, options.tap_name, options.queues);
    case Step::kNetlink:
      return SystemError(report.err, absl::StrCat(where, "open a rtnetlink socket"));
    case Step::kLoopback:
      return SystemError(report.err, absl::StrCat(where, "bring lo up"));
    case Step::kLinkUp:
      return SystemError(report.err,
                         absl::StrCat(where, "bring the kernel side up, mtu ", options.mtu));
    case Step::kAddress:
      return SystemError(report.err, absl::StrCat(where, "add kernel address ",
                                                  options.kernel_addrs[report.address].ToString()));
  }
  return absl::InternalError(absl::StrCat(where, "unknown step"));
}

// Forks with all signals blocked, so that none of the parent's handlers runs in the child.
pid_t ForkHolder(Plan& plan, int holder_end) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = fork();
  if (pid == 0) {
    RunHolder(plan, holder_end);
  }
  const int err = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = err;
  return pid;
}

// Waits for the holder's report. Fills `fds` on success.
absl::Status ReceiveReport(int socket, const UserNamespaceOptions& options,
                           std::vector<UniqueFd>& fds) {
  const std::string where = absl::StrCat("user namespace for TAP ", options.tap_name);
  pollfd waiting = {.fd = socket, .events = POLLIN, .revents = 0};
  int ready;
  do {
    ready = poll(&waiting, 1, kCreateTimeoutMs);
  } while (ready < 0 && errno == EINTR);
  if (ready <= 0) {
    return SystemError(ready == 0 ? ETIMEDOUT : errno,
                       absl::StrCat(where, ": wait for the holder"));
  }
  Report report;
  size_t received = 0;
  if (const int err = ReceiveFds(socket, fds, &report, sizeof(report), &received); err != 0) {
    return SystemError(err, absl::StrCat(where, ": the holder process ended early"));
  }
  TW_RETURN_IF_ERROR(ReportToStatus(report, options));
  if (received != sizeof(report) || fds.size() != options.queues) {
    return absl::InternalError(absl::StrCat(where, ": short report"));
  }
  return absl::OkStatus();
}

std::string AddressList(const std::vector<IpPrefix>& addresses) {
  return absl::StrJoin(addresses, " ", [](std::string* out, const IpPrefix& prefix) {
    absl::StrAppend(out, prefix.ToString());
  });
}

}  // namespace

absl::StatusOr<UserNamespace::Created> UserNamespace::Create(const UserNamespaceOptions& options) {
  TW_ASSIGN_OR_RETURN(Plan plan, MakePlan(options));
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return SystemError(errno, "socketpair");
  }
  UniqueFd our_end(pair[0]);
  UniqueFd holder_end(pair[1]);
  const pid_t pid = ForkHolder(plan, holder_end.get());
  if (pid < 0) {
    return SystemError(errno, "fork the holder of a user namespace");
  }
  holder_end.Reset();
  Created created;
  created.holder.reset(new UserNamespace(pid, std::move(our_end)));
  std::vector<UniqueFd> fds;
  TW_RETURN_IF_ERROR(ReceiveReport(created.holder->socket_.get(), options, fds));
  TW_ASSIGN_OR_RETURN(created.link, AdoptTap(std::move(fds), ""));
  // Not worth failing for: the TAP works, and a record serves other programs only.
  absl::StatusOr<UsernsRecord> record =
      UsernsRecord::Write(UsernsInstance{.pid = getpid(),
                                         .holder_pid = pid,
                                         .holder_start = ProcessStartTime(pid),
                                         .tap_name = created.link.name,
                                         .addresses = AddressList(options.kernel_addrs)});
  if (record.ok()) {
    created.holder->record_ = *std::move(record);
  } else {
    TW_LOG(kWarning) << "TAP " << created.link.name << ": " << record.status().message()
                     << "; other programs must find the namespace by pid " << pid;
  }
  return created;
}

UserNamespace::~UserNamespace() {
  record_ = UsernsRecord();
  socket_.Reset();
  kill(holder_pid_, SIGKILL);
  while (waitpid(holder_pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace tapwire::drivers
