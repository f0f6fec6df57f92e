// SPDX-License-Identifier: Apache-2.0
#include "apps/lab/kernel_net.h"

#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/lab/hosts.h"
#include "apps/lab/process.h"
#include "netdev/base/status_util.h"

namespace tapwire::apps::lab {
namespace {

using drivers::UniqueFd;

constexpr char kOwnNamespace[] = "/proc/thread-self/ns/net";
constexpr int kNoSuchProgram = 127;

absl::StatusOr<UniqueFd> OpenOwnNamespace() {
  UniqueFd fd(open(kOwnNamespace, O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("open ", kOwnNamespace));
  return fd;
}

struct Pipe {
  UniqueFd read, write;
};
absl::StatusOr<Pipe> MakePipe() {
  std::array<int, 2> fds;
  if (pipe2(fds.data(), O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

[[noreturn]] void ExecIp(const Pipe& in, const Pipe& out) {
  Interruption::Forget();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(in.read.get(), STDIN_FILENO);
  dup2(out.write.get(), STDOUT_FILENO);
  dup2(out.write.get(), STDERR_FILENO);
  execlp("ip", "ip", "-batch", "-", nullptr);
  _exit(kNoSuchProgram);
}

std::string ReadAll(int fd) {
  std::string text;
  std::array<char, 1024> buffer;
  for (;;) {
    const ssize_t n = read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    text.append(buffer.data(), static_cast<size_t>(n));
  }
}

int ExitCode(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

absl::Status RunIp(const std::string& script) {
  TW_ASSIGN_OR_RETURN(Pipe in, MakePipe());
  TW_ASSIGN_OR_RETURN(Pipe out, MakePipe());
  // The script is shorter than a pipe holds, so that nobody has to read it yet.
  if (write(in.write.get(), script.data(), script.size()) != static_cast<ssize_t>(script.size())) {
    return ErrnoStatus(errno, "write to ip");
  }
  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus(errno, "fork");
  if (pid == 0) ExecIp(in, out);
  in.write.Reset();
  out.write.Reset();
  const std::string said = ReadAll(out.read.get());
  const int code = ExitCode(pid);
  if (code == kNoSuchProgram) {
    return absl::NotFoundError("there is no program `ip` to set it up with: install iproute2");
  }
  if (code == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("ip: ", absl::StripAsciiWhitespace(said), " (exit code ", code, ")"));
}

absl::Status SetOffload(int socket, absl::string_view device, uint32_t command, uint32_t get) {
  ethtool_value value = {};
  value.cmd = command;
  ifreq request = {};
  device.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&value);
  const int set = ioctl(socket, SIOCETHTOOL, &request) == 0 ? 0 : errno;
  // What depends on one that is off already may be refused: what counts is the outcome.
  value = {};
  value.cmd = get;
  if (ioctl(socket, SIOCETHTOOL, &request) == 0 && value.data == 0) return absl::OkStatus();
  return ErrnoStatus(set != 0 ? set : EINVAL, absl::StrCat("switch off offloads of ", device));
}

std::string AddressLine(absl::string_view device, absl::string_view address) {
  return absl::StrCat("addr add ", address, " dev ", device);
}
std::string UpLine(absl::string_view device) { return absl::StrCat("link set ", device, " up"); }
std::string MoveLine(absl::string_view device, const Namespace& to) {
  return absl::StrCat("link set ", device, " netns ", to.path());
}

absl::Status StartEnd(const Namespace& where, absl::string_view device, absl::string_view address) {
  return IpBatch(where, {UpLine("lo"), AddressLine(device, address), UpLine(device)});
}

absl::Status AddMacvlan(const KernelPair& pair, absl::string_view name, const Namespace& to,
                        KernelPath path) {
  std::vector<std::string> lines = {
      absl::StrCat("link add ", name, " link lower type macvlan mode bridge")};
  if (path == KernelPath::kMacvlansOneSegment) {
    lines.push_back(absl::StrCat("link set ", name, " gso_max_segs 1"));
  }
  lines.push_back(MoveLine(name, to));
  return IpBatch(pair.between, lines);
}

absl::Status BuildVeth(const KernelPair& pair) {
  TW_RETURN_IF_ERROR(
      IpBatch(pair.between, {"link add ends type veth peer name ende",
                             MoveLine("ends", pair.server), MoveLine("ende", pair.client)}));
  TW_RETURN_IF_ERROR(SwitchOffloadsOff(pair.server, "ends"));
  TW_RETURN_IF_ERROR(SwitchOffloadsOff(pair.client, "ende"));
  TW_RETURN_IF_ERROR(StartEnd(pair.server, "ends", kServerAddress));
  return StartEnd(pair.client, "ende", kClientAddress);
}

absl::Status BuildMacvlans(const KernelPair& pair, KernelPath path, KernelClient where) {
  TW_RETURN_IF_ERROR(IpBatch(pair.between, {"link add lower type veth peer name far"}));
  // Our own lower device of the first lab has none either. A client on the far end keeps its own.
  if (where == KernelClient::kSecondMacvlan) {
    TW_RETURN_IF_ERROR(SwitchOffloadsOff(pair.between, "lower"));
    TW_RETURN_IF_ERROR(SwitchOffloadsOff(pair.between, "far"));
  }
  TW_RETURN_IF_ERROR(AddMacvlan(pair, "server", pair.server, path));
  if (where == KernelClient::kFarEnd) {
    TW_RETURN_IF_ERROR(IpBatch(pair.between, {MoveLine("far", pair.client), UpLine("lower")}));
    TW_RETURN_IF_ERROR(StartEnd(pair.client, "far", kClientAddress));
  } else {
    TW_RETURN_IF_ERROR(IpBatch(pair.between, {UpLine("lower"), UpLine("far")}));
    TW_RETURN_IF_ERROR(AddMacvlan(pair, "client", pair.client, path));
    TW_RETURN_IF_ERROR(StartEnd(pair.client, "client", kClientAddress));
  }
  return StartEnd(pair.server, "server", kServerAddress);
}

}  // namespace

// ---- Namespaces ----

absl::StatusOr<Namespace> Namespace::Create() {
  TW_ASSIGN_OR_RETURN(UniqueFd home, OpenOwnNamespace());
  if (unshare(CLONE_NEWNET) != 0) return ErrnoStatus(errno, "make a network namespace");
  const NamespaceVisit back(std::move(home));
  TW_ASSIGN_OR_RETURN(UniqueFd made, OpenOwnNamespace());
  return Namespace(std::move(made));
}

std::string Namespace::path() const { return absl::StrCat("/proc/", getpid(), "/fd/", fd()); }

absl::StatusOr<NamespaceVisit> NamespaceVisit::Enter(const Namespace& there) {
  TW_ASSIGN_OR_RETURN(UniqueFd home, OpenOwnNamespace());
  if (setns(there.fd(), CLONE_NEWNET) != 0) return ErrnoStatus(errno, "enter a network namespace");
  return NamespaceVisit(std::move(home));
}

NamespaceVisit::~NamespaceVisit() {
  if (home_.valid()) (void)setns(home_.get(), CLONE_NEWNET);  // its own: cannot be refused
}

// ---- Devices ----

absl::Status IpBatch(const Namespace& where, const std::vector<std::string>& lines) {
  TW_ASSIGN_OR_RETURN(const NamespaceVisit visit, NamespaceVisit::Enter(where));
  return RunIp(absl::StrCat(absl::StrJoin(lines, "\n"), "\n"));
}

absl::Status SwitchOffloadsOff(const Namespace& where, absl::string_view device) {
  TW_ASSIGN_OR_RETURN(const NamespaceVisit visit, NamespaceVisit::Enter(where));
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return ErrnoStatus(errno, "socket");
  struct Offload {
    uint32_t set, get;
  };
  for (const Offload& offload :
       {Offload{ETHTOOL_STSO, ETHTOOL_GTSO}, Offload{ETHTOOL_SGSO, ETHTOOL_GGSO},
        Offload{ETHTOOL_SGRO, ETHTOOL_GGRO}, Offload{ETHTOOL_SSG, ETHTOOL_GSG},
        Offload{ETHTOOL_STXCSUM, ETHTOOL_GTXCSUM}}) {
    TW_RETURN_IF_ERROR(SetOffload(socket.get(), device, offload.set, offload.get));
  }
  return absl::OkStatus();
}

absl::string_view KernelPathName(KernelPath path) {
  switch (path) {
    case KernelPath::kMacvlans:
      return "plain";
    case KernelPath::kMacvlansOneSegment:
      return "gso_max_segs_1";
    case KernelPath::kVethNoOffloads:
      return "veth_no_offloads";
  }
  return "";
}

absl::StatusOr<KernelPair> MakeKernelPair(KernelPath path, KernelClient where) {
  TW_ASSIGN_OR_RETURN(Namespace client, Namespace::Create());
  TW_ASSIGN_OR_RETURN(Namespace server, Namespace::Create());
  TW_ASSIGN_OR_RETURN(Namespace between, Namespace::Create());
  KernelPair pair{std::move(client), std::move(server), std::move(between)};
  TW_RETURN_IF_ERROR(path == KernelPath::kVethNoOffloads ? BuildVeth(pair)
                                                         : BuildMacvlans(pair, path, where));
  return pair;
}

std::string KernelRelease() {
  utsname name = {};
  return uname(&name) == 0 ? name.release : "";
}

}  // namespace tapwire::apps::lab
