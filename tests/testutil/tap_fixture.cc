// SPDX-License-Identifier: Apache-2.0
#include "tests/testutil/tap_fixture.h"

#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace tapwire::testutil {
namespace {

constexpr int kSkippedExit = 77;

std::string ErrnoText(int err) { return absl::StrCat(std::strerror(err), " (", err, ")"); }

std::string ReadWholeFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool WriteWholeFile(const std::string& path, absl::string_view text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) {
    return false;
  }
  const bool done = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  return done;
}

bool BringLoopbackUp() {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request = {};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP;
  const bool done = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
  close(fd);
  return done;
}

int OpenNode(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    return errno;
  }
  close(fd);
  return 0;
}

// In the child: descriptors, preparations, program.
[[noreturn]] void Exec(const std::vector<std::string>& argv, const CommandOptions& options,
                       int input, int output) {
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (options.prepare && !options.prepare()) {
    _exit(126);
  }
  std::vector<char*> pointers;
  for (const std::string& argument : argv) {
    pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
  const std::string message = absl::StrCat(argv[0], ": ", ErrnoText(errno), "\n");
  (void)!write(STDERR_FILENO, message.data(), message.size());
  _exit(127);
}

// A file without name that holds `text`, to be read from its start.
int FileOf(const std::string& text) {
  char path[] = "/tmp/tapwire-input-XXXXXX";
  const int fd = mkostemp(path, O_CLOEXEC);
  if (fd >= 0) {
    unlink(path);
    (void)!write(fd, text.data(), text.size());
    lseek(fd, 0, SEEK_SET);
  }
  return fd;
}

}  // namespace

bool IsRequired(absl::string_view what) {
  const char* required = getenv("TAPWIRE_REQUIRE");
  if (required == nullptr) {
    return false;
  }
  const std::vector<absl::string_view> list = absl::StrSplit(required, ',');
  return std::find(list.begin(), list.end(), what) != list.end();
}

// ---- Programs ----

Command::Command(const std::vector<std::string>& argv, CommandOptions options)
    : options_(std::move(options)), deadline_(std::chrono::steady_clock::now() + options_.timeout) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
    result_.output = absl::StrCat("pipe2: ", ErrnoText(errno));
    ended_ = true;
    return;
  }
  const int input =
      options_.input.empty() ? open("/dev/null", O_RDONLY | O_CLOEXEC) : FileOf(options_.input);
  pid_ = fork();
  if (pid_ == 0) {
    Exec(argv, options_, input, pipe_fds[1]);
  }
  close(input);
  close(pipe_fds[1]);
  output_fd_ = pipe_fds[0];
  fcntl(output_fd_, F_SETFL, O_NONBLOCK);
  ended_ = pid_ < 0;
}

Command::~Command() {
  if (!ended_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (output_fd_ >= 0) {
    close(output_fd_);
  }
}

void Command::Signal(int signal_number) {
  if (!ended_) {
    kill(pid_, signal_number);
  }
}

void Command::TakeOutput() {
  std::array<char, 4096> buffer;
  ssize_t got;
  while ((got = read(output_fd_, buffer.data(), buffer.size())) > 0) {
    result_.output.append(buffer.data(), static_cast<size_t>(got));
  }
}

bool Command::Running() {
  if (ended_) {
    return false;
  }
  // Asked before the output is taken, so that none is missed.
  int status = 0;
  const bool exited = waitpid(pid_, &status, WNOHANG) == pid_;
  TakeOutput();
  if (exited) {
    ended_ = true;
    result_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  return !ended_;
}

// Lets some time pass. False once it has ended or been killed for taking too long.
bool Command::Turn() {
  if (!Running()) {
    return false;
  }
  if (std::chrono::steady_clock::now() >= deadline_) {
    result_.timed_out = true;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    TakeOutput();
    ended_ = true;
    return false;
  }
  if (options_.pump) {
    options_.pump();
  } else {
    pollfd waiting = {.fd = output_fd_, .events = POLLIN, .revents = 0};
    poll(&waiting, 1, 5);
  }
  return true;
}

CommandResult Command::Wait() {
  while (Turn()) {
  }
  return result_;
}

bool Command::WaitForOutput(absl::string_view text) {
  while (!absl::StrContains(result_.output, text)) {
    if (!Turn()) {
      return absl::StrContains(result_.output, text);
    }
  }
  return true;
}

// ---- Device nodes ----

absl::StatusOr<std::unique_ptr<TunNode>> TunNode::Find(bool for_everybody) {
  constexpr char kUsual[] = "/dev/net/tun";
  struct stat info;
  const int usual_error = OpenNode(kUsual);
  const bool open_to_all = stat(kUsual, &info) == 0 && (info.st_mode & 0006) == 0006;
  if (usual_error == 0 && (open_to_all || !for_everybody)) {
    return std::unique_ptr<TunNode>(new TunNode(kUsual, ""));
  }
  std::string tried = usual_error == 0
                          ? absl::StrCat(kUsual, " is not open to other users")
                          : absl::StrCat("open ", kUsual, ": ", ErrnoText(usual_error));
  // Some of these may be mounted without support for device nodes.
  for (const char* place : {"/tmp", "/var/tmp", "/run", "/dev/shm"}) {
    std::string directory = absl::StrCat(place, "/tapwire-node-XXXXXX");
    if (mkdtemp(directory.data()) == nullptr) {
      continue;
    }
    const std::string path = absl::StrCat(directory, "/tun");
    std::unique_ptr<TunNode> made(new TunNode(path, directory));
    // The driver's fixed numbers: character device 10:200 (Documentation/admin-guide/devices.txt).
    if (mknod(path.c_str(), S_IFCHR | 0666, makedev(10, 200)) != 0) {
      absl::StrAppend(&tried, "; mknod ", path, ": ", ErrnoText(errno));
      continue;
    }
    chmod(directory.c_str(), 0755);
    chmod(path.c_str(), 0666);
    const int err = OpenNode(path);
    if (err == 0) {
      return made;
    }
    absl::StrAppend(&tried, "; open ", path, ": ", ErrnoText(err));
  }
  return absl::UnavailableError(absl::StrCat("no usable TUN/TAP node: ", tried));
}

TunNode::~TunNode() {
  if (!directory_.empty()) {
    unlink(path_.c_str());
    rmdir(directory_.c_str());
  }
}

// ---- Users ----

void RunAsUser(uid_t uid, const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t pid = fork();
  ASSERT_GE(pid, 0) << "fork: " << ErrnoText(errno);
  if (pid == 0) {
    if (setgroups(0, nullptr) != 0 || setresgid(uid, uid, uid) != 0 ||
        setresuid(uid, uid, uid) != 0) {
      std::printf("cannot become uid %u: %s\n", uid, ErrnoText(errno).c_str());
      std::fflush(nullptr);
      _exit(kSkippedExit);
    }
    // The folders of the caller are not ours to enter; some programs crash over that.
    unsetenv("XDG_RUNTIME_DIR");
    setenv("HOME", "/nonexistent", 1);
    body();
    std::fflush(nullptr);
    // No destructors of the parent's objects, no second report.
    _exit(::testing::Test::HasFailure() ? 1 : ::testing::Test::IsSkipped() ? kSkippedExit : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFEXITED(status)) << "the child was killed by signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == kSkippedExit) {
    TW_SKIP_WITHOUT_TAP(absl::StrCat("not possible as uid ", uid, ", see above"));
  }
  EXPECT_EQ(WEXITSTATUS(status), 0) << "failed as uid " << uid << ", see above";
}

// ---- Namespaces ----

absl::Status EnterNewNetns() {
  if (unshare(CLONE_NEWNET) == 0) {
    return absl::OkStatus();
  }
  if (errno != EPERM) {
    return absl::UnavailableError(absl::StrCat("unshare(CLONE_NEWNET): ", ErrnoText(errno)));
  }
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
    return absl::UnavailableError(
        absl::StrCat("unshare(CLONE_NEWUSER | CLONE_NEWNET): ", ErrnoText(errno)));
  }
  // After a change of user the files in /proc are root's until this.
  prctl(PR_SET_DUMPABLE, 1);
  (void)WriteWholeFile("/proc/self/setgroups", "deny");
  if (!WriteWholeFile("/proc/self/uid_map", absl::StrCat("0 ", uid, " 1")) ||
      !WriteWholeFile("/proc/self/gid_map", absl::StrCat("0 ", gid, " 1"))) {
    return absl::UnavailableError(absl::StrCat("/proc/self/uid_map: ", ErrnoText(errno)));
  }
  return absl::OkStatus();
}

void NetnsFixture::SetUp() {
  original_netns_ = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  if (const absl::Status status = EnterNewNetns(); !status.ok()) {
    TW_SKIP_WITHOUT_TAP(status.message());
  }
  ASSERT_TRUE(BringLoopbackUp()) << "lo: " << ErrnoText(errno);
  auto node = TunNode::Find(/*for_everybody=*/false);
  if (!node.ok()) {
    TW_SKIP_WITHOUT_TAP(node.status().message());
  }
  node_ = *std::move(node);
  if (Run({"ip", "-V"}).exit_code == 127) {
    TW_SKIP_WITHOUT_TAP("program 'ip' not found: install iproute2");
  }
}

void NetnsFixture::TearDown() {
  node_.reset();
  if (original_netns_ >= 0) {
    // Refused inside a user namespace; the next test leaves this one behind then.
    (void)setns(original_netns_, CLONE_NEWNET);
    close(original_netns_);
  }
}

CommandResult NetnsFixture::Run(const std::vector<std::string>& argv, CommandOptions options) {
  return Command(argv, std::move(options)).Wait();
}

std::string NetnsFixture::Ip(absl::string_view arguments) {
  std::vector<std::string> argv = absl::StrSplit(absl::StrCat("ip ", arguments), ' ');
  const CommandResult result = Run(argv);
  EXPECT_TRUE(result.ok()) << absl::StrJoin(argv, " ") << ": " << result.output;
  return result.output;
}

void NetnsFixture::Sysctl(absl::string_view name, absl::string_view value) {
  const std::string path = absl::StrCat("/proc/sys/net/", name);
  EXPECT_TRUE(WriteWholeFile(path, value)) << path << ": " << ErrnoText(errno);
}

std::string NetnsFixture::ProcNet(absl::string_view name) {
  return ReadWholeFile(absl::StrCat("/proc/thread-self/net/", name));
}

uint64_t NetnsFixture::KernelCounter(absl::string_view group, absl::string_view name) {
  uint64_t value = 0;
  if (group.empty()) {
    for (const absl::string_view line : absl::StrSplit(ProcNet("snmp6"), '\n')) {
      const std::vector<absl::string_view> words =
          absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
      if (words.size() == 2 && words[0] == name) {
        (void)absl::SimpleAtoi(words[1], &value);
      }
    }
    return value;
  }
  // Two lines per group: names, then values.
  std::vector<std::string> names;
  const std::string prefix = absl::StrCat(group, ":");
  for (const absl::string_view line : absl::StrSplit(ProcNet("snmp"), '\n')) {
    if (!absl::StartsWith(line, prefix)) {
      continue;
    }
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (names.empty()) {
      names = words;
      continue;
    }
    for (size_t i = 1; i < names.size() && i < words.size(); ++i) {
      if (names[i] == name) {
        (void)absl::SimpleAtoi(words[i], &value);
      }
    }
  }
  return value;
}

std::map<std::string, uint64_t> NetnsFixture::KernelCsumErrors() {
  std::map<std::string, uint64_t> errors;
  for (const char* group : {"Tcp", "Udp", "UdpLite", "Icmp"}) {
    errors[absl::StrCat(group, "InCsumErrors")] = KernelCounter(group, "InCsumErrors");
  }
  errors["IpInHdrErrors"] = KernelCounter("Ip", "InHdrErrors");
  for (const char* name : {"Icmp6InCsumErrors", "Udp6InCsumErrors", "Ip6InHdrErrors"}) {
    errors[name] = KernelCounter("", name);
  }
  return errors;
}

}  // namespace tapwire::testutil
