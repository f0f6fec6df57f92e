// SPDX-License-Identifier: Apache-2.0
// UDP request/response with one byte, a kernel socket asking: our stack on a TAP answers, and for
// comparison a kernel socket behind a veth pair, in turns of one run. Placement decides such
// figures, so both are given: asker and answerer on one CPU, and on two.
//
// Runs as root of a network namespace of its own; prints one JSON object.

#include <arpa/inet.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "drivers/tap/tap_device.h"
#include "netdev/net_context.h"
#include "netdev/registry.h"
#include "stack/sockets/system_environment.h"
#include "stack/sockets/thread_runner.h"
#include "stack/sockets/udp_socket.h"
#include "stack/stack.h"

namespace tapwire {
namespace {

constexpr int kPairs = 5;
constexpr auto kTurn = std::chrono::milliseconds(700);
constexpr uint16_t kPort = 7;

[[noreturn]] void Skip(const std::string& why) {
  std::printf("{\"skipped\": \"%s\"}\n", why.c_str());
  std::exit(0);
}

void Shell(const std::string& command) {
  if (std::system(command.c_str()) != 0) Skip("failed: " + command);
}

void PinTo(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu), &set);
  sched_setaffinity(0, sizeof(set), &set);
}

sockaddr_in Address(const char* text) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kPort);
  inet_pton(AF_INET, text, &address.sin_addr);
  return address;
}

// A child that answers until it is killed. `ready` is written to when it does.
class Answerer {
 public:
  template <typename Body>
  explicit Answerer(Body body) {
    int ready[2];
    if (pipe(ready) != 0) Skip("no pipe");
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(ready[0]);
      body(ready[1]);
      _exit(1);
    }
    close(ready[1]);
    char byte = 0;
    if (read(ready[0], &byte, 1) != 1) Skip("the answering side did not start");
    close(ready[0]);
  }
  ~Answerer() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Answerer(const Answerer&) = delete;
  Answerer& operator=(const Answerer&) = delete;
  void Pin(int cpu) const {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(cpu), &set);
    sched_setaffinity(pid_, sizeof(set), &set);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

void SayReady(int fd) {
  if (write(fd, "r", 1) != 1) _exit(1);
  close(fd);
}

void AnswerByKernel(int ready) {
  if (unshare(CLONE_NEWNET) != 0) _exit(1);
  SayReady(ready);  // the parent moves the veth end in
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in any = Address("0.0.0.0");
  if (bind(fd, reinterpret_cast<sockaddr*>(&any), sizeof(any)) != 0) _exit(1);
  char buffer[2048];
  for (;;) {
    sockaddr_in from{};
    socklen_t length = sizeof(from);
    const ssize_t n =
        recvfrom(fd, buffer, sizeof(buffer), 0, reinterpret_cast<sockaddr*>(&from), &length);
    if (n >= 0)
      sendto(fd, buffer, static_cast<size_t>(n), 0, reinterpret_cast<sockaddr*>(&from), length);
  }
}

void AnswerByStack(int ready, const std::string& node) {
  SystemEnvironment system;
  netdev::NetContext context(system.environment());
  Stack stack(context);
  drivers::TapOptions options;
  options.name = "twrr";
  options.device_path = node;
  options.kernel_addrs = {*IpPrefix::Parse("10.9.0.1/24")};
  auto tap = drivers::TapDevice::Open(context, options);
  if (!tap.ok()) {
    std::fprintf(stderr, "%s\n", std::string(tap.status().message()).c_str());
    _exit(1);
  }
  netdev::NetDevice* device = *context.registry().Register(*std::move(tap));
  Interface* interface = *stack.AddInterface(*device);
  if (!device->Up().ok() || !interface->AddAddress(*IpPrefix::Parse("10.9.0.2/24")).ok()) _exit(1);
  auto socket = *UdpSocket::Create(stack);
  if (!socket->Bind({Ipv4Address(), kPort, 0}).ok()) _exit(1);
  socket
      ->ReceiveStart([&](Datagram d) {
        const Endpoint peer = d.source();
        socket->SendPacket(d.TakePacket(), peer).IgnoreError();
      })
      .IgnoreError();
  auto runner = *ThreadRunner::Create(&context);
  SayReady(ready);
  runner->Run();
}

// Transactions per second with the peer for one turn; a lost one is asked again after 200 ms.
double Ask(const char* peer) {
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  const timeval limit{.tv_sec = 0, .tv_usec = 200000};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  sockaddr_in address = Address(peer);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    Skip("no route to the answerer");
  char byte = 0;
  uint64_t count = 0;
  const auto start = std::chrono::steady_clock::now();
  auto now = start;
  while (now - start < kTurn) {
    for (int i = 0; i < 16; ++i) {
      if (send(fd, &byte, 1, 0) == 1 && recv(fd, &byte, 1, 0) == 1) ++count;
    }
    now = std::chrono::steady_clock::now();
  }
  close(fd);
  return static_cast<double>(count) / std::chrono::duration<double>(now - start).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Result {
  std::vector<double> stack, kernel;
};

void Print(const char* placement, const Result& r, bool last) {
  std::vector<double> ratios;
  for (size_t i = 0; i < r.stack.size(); ++i) ratios.push_back(r.stack[i] / r.kernel[i]);
  const auto [low, high] = std::minmax_element(r.stack.begin(), r.stack.end());
  std::printf(
      "  {\"name\": \"udp_rr/%s\", \"per_s\": %.0f, \"min\": %.0f, \"max\": %.0f, "
      "\"kernel_veth_per_s\": %.0f, "
      "\"ratio\": %.3f}%s\n",
      placement, Median(r.stack), *low, *high, Median(r.kernel), Median(ratios), last ? "" : ",");
}

void Run() {
  if (geteuid() != 0) Skip("needs root of a network namespace");
  char directory[] = "/tmp/tapwire-bench-XXXXXX";
  if (mkdtemp(directory) == nullptr) Skip("no temporary directory");
  std::string node = std::string(directory) + "/tun";
  if (mknod(node.c_str(), S_IFCHR | 0600, makedev(10, 200)) != 0) node = "/dev/net/tun";
  Shell("ip link set lo up");
  Answerer stack([&](int ready) { AnswerByStack(ready, node); });
  unlink((std::string(directory) + "/tun").c_str());
  rmdir(directory);
  Answerer kernel(AnswerByKernel);
  const std::string pid = std::to_string(kernel.pid());
  Shell("ip link add twv0 type veth peer name twv1 && ip link set twv1 netns " + pid +
        " && ip addr add 10.8.0.1/24 dev twv0 && ip link set twv0 up");
  Shell("nsenter -n -t " + pid +
        " sh -c 'ip addr add 10.8.0.2/24 dev twv1 && ip link set twv1 up'");
  usleep(500000);
  Result one, two;
  PinTo(0);
  const bool several = sysconf(_SC_NPROCESSORS_ONLN) > 1;
  for (int pair = 0; pair < kPairs; ++pair) {
    for (Result* result : {&one, &two}) {
      const int cpu = result == &two && several ? 1 : 0;
      stack.Pin(cpu);
      kernel.Pin(cpu);
      result->stack.push_back(Ask("10.9.0.2"));
      result->kernel.push_back(Ask("10.8.0.2"));
    }
  }
  std::printf("{\"benchmarks\": [\n");
  Print("one_cpu", one, !several);
  if (several) Print("two_cpus", two, true);
  std::printf("]}\n");
}

}  // namespace
}  // namespace tapwire

int main() { tapwire::Run(); }
