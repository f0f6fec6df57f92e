// SPDX-License-Identifier: Apache-2.0
// What TapDevice costs beside the system calls that it cannot avoid: frames of 1,514 bytes and
// super-packets of 64 KiB go from one TAP over a bridge to another, in one thread, written and read
// in batches of 64. First by a bare loop of write(2) and read(2) on prepared buffers, then by two
// TapDevices with transmit path, packet pool and receive core, in turns of one run.
//
// Runs as root of a network namespace of its own; prints one JSON object.

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "drivers/tap/tap_device.h"
#include "drivers/tap/vnet_hdr.h"
#include "netdev/net_context.h"
#include "netdev/registry.h"
#include "netdev/tx_path.h"
#include "netdev/wire/checksum.h"
#include "netdev/wire/ethernet.h"
#include "netdev/wire/ipv4.h"
#include "netdev/wire/tcp.h"
#include "stack/sockets/system_environment.h"

namespace tapwire {
namespace {

using drivers::TapDevice;
using drivers::UniqueFd;
using drivers::VnetHdr;
using Bytes = std::vector<uint8_t>;

constexpr int kBatch = 64;
constexpr int kPairs = 7;
constexpr int64_t kTurnNanos = 200'000'000;
constexpr size_t kBufferBytes = 68 * 1024;

[[noreturn]] void Skip(const std::string& why) {
  std::printf("{\"skipped\": \"%s\"}\n", why.c_str());
  std::exit(0);
}

void Shell(const std::string& command) {
  if (std::system(command.c_str()) != 0) Skip("failed: " + command);
}

// A frame of the test: headers, then zeros.
struct Template {
  std::string name;
  size_t length;
  uint16_t gso_size;  // 0: not a super-packet
};

constexpr size_t kHeaders = 54;

// TCP over IPv4; with the pseudo-header's sum in place, as a partial checksum wants it.
Bytes MakeFrame(const Template& t, const MacAddress& from, const MacAddress& to) {
  constexpr Ipv4Address kSource(192, 0, 2, 1);
  constexpr Ipv4Address kDestination(192, 0, 2, 2);
  Bytes frame(t.length);
  const std::span<uint8_t> all(frame);
  wire::EthernetFields{.destination = to, .source = from, .ether_type = wire::EtherType::kIpv4}
      .Emit(all);
  wire::Ipv4Fields{.total_length = static_cast<uint16_t>(t.length - 14),
                   .dont_fragment = true,
                   .protocol = 6,
                   .source = kSource,
                   .destination = kDestination}
      .Emit(all.subspan(14));
  wire::TcpFields{.src_port = 9,
                  .dst_port = 9,
                  .flags = wire::TcpFlags::kAck,
                  .checksum = wire::PseudoHeaderSum(kSource, kDestination, 6,
                                                    static_cast<uint32_t>(t.length - 34))}
      .Emit(all.subspan(34));
  return frame;
}

VnetHdr MakeHeader(const Template& t) {
  VnetHdr hdr = {.flags = VnetHdr::kNeedsCsum, .csum_start = 34, .csum_offset = 16};
  if (t.gso_size != 0) {
    hdr.gso_type = VnetHdr::kGsoTcpv4;
    hdr.gso_size = t.gso_size;
    hdr.hdr_len = kHeaders;
  }
  return hdr;
}

// Two TAPs on a bridge. The bridge must learn where `to` is, or it asks everybody.
void Join(const std::string& bridge, const std::string& a, const std::string& b) {
  Shell("ip link add " + bridge + " type bridge && ip link set " + bridge + " up");
  for (const std::string& port : {a, b}) {
    Shell("echo 1 > /proc/sys/net/ipv6/conf/" + port + "/disable_ipv6; ip link set " + port +
          " master " + bridge + " up");
  }
}

// ---- The bare loop ----

class BareLoop {
 public:
  BareLoop() : a_(Attach("bare0")), b_(Attach("bare1")), buffer_(kBufferBytes) {
    Join("brbare", "bare0", "bare1");
    usleep(100'000);
    // A frame from there teaches the bridge.
    Prepare({.name = "", .length = 60, .gso_size = 0}, kB, kA);
    (void)!write(b_.get(), message_.data(), message_.size());
    Drain();
  }

  void Prepare(const Template& t) { Prepare(t, kA, kB); }

  // One batch; the number of frames that arrived.
  int Turn() {
    for (int i = 0; i < kBatch; ++i) (void)!write(a_.get(), message_.data(), message_.size());
    int arrived = 0;
    while (read(b_.get(), buffer_.data(), buffer_.size()) > 0) ++arrived;
    return arrived;
  }
  void Drain() {
    for (const int fd : {a_.get(), b_.get()}) {
      while (read(fd, buffer_.data(), buffer_.size()) > 0) {
      }
    }
  }

 private:
  static constexpr MacAddress kA{2, 0, 0, 0, 1, 1};
  static constexpr MacAddress kB{2, 0, 0, 0, 1, 2};

  static UniqueFd Attach(const char* name) {
    UniqueFd fd(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (!fd.valid()) Skip(std::string("open /dev/net/tun: ") + std::strerror(errno));
    ifreq request = {};
    std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
    int size = VnetHdr::kLength;
    if (ioctl(fd.get(), TUNSETIFF, &request) != 0 || ioctl(fd.get(), TUNSETVNETHDRSZ, &size) != 0 ||
        ioctl(fd.get(), TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN) != 0) {
      Skip(std::string("attach to ") + name + ": " + std::strerror(errno));
    }
    return fd;
  }

  void Prepare(const Template& t, const MacAddress& from, const MacAddress& to) {
    const Bytes frame = MakeFrame(t, from, to);
    message_.assign(VnetHdr::kLength, 0);
    MakeHeader(t).Emit(message_, drivers::VnetOrder::kLittle);
    message_.insert(message_.end(), frame.begin(), frame.end());
  }

  UniqueFd a_;
  UniqueFd b_;
  Bytes message_;
  Bytes buffer_;
};

// ---- TapDevice ----

class CountingSink final : public netdev::PacketType {
 public:
  CountingSink() : PacketType(kAllTypes) {}
  void Receive(PacketPtr /*packet*/, netdev::NetDevice& /*device*/) override { ++frames; }
  int frames = 0;
};

class DeviceLoop {
 public:
  DeviceLoop() : context_(system_.environment()), a_(Open("dev0")), b_(Open("dev1")) {
    Join("brdev", "dev0", "dev1");
    b_->AddPacketType(sink_);
    for (TapDevice* device : {a_, b_}) {
      if (!device->Up().ok() || !device->is_running()) Skip("no link on " + device->name());
    }
    usleep(100'000);
    const Bytes hello = MakeFrame({.name = "", .length = 60, .gso_size = 0}, b_->mac(), a_->mac());
    (void)netdev::TxPath::Transmit(PacketFromBytes(context_.pool(), hello), *b_);
    Receive();
  }
  ~DeviceLoop() { packet_.reset(); }

  // In the head as far as that reaches, the rest in shared slabs.
  void Prepare(const Template& t) {
    const Bytes frame = MakeFrame(t, a_->mac(), b_->mac());
    const size_t in_head = t.gso_size == 0 ? t.length : kHeaders;
    packet_ = PacketFromBytes(context_.pool(), std::span(frame).first(in_head));
    for (size_t at = in_head; at < t.length; at += kLargeSlabBytes) {
      SlabRef slab = context_.pool().AllocateSlab(SlabClass::kLarge);
      const size_t here = std::min(kLargeSlabBytes, t.length - at);
      std::copy_n(frame.data() + at, here, slab.data());
      if (!packet_->AddFrag(std::move(slab), 0, here)) Skip("no packet memory");
    }
    packet_->set_l2_here();
    packet_->set_l3_in_data(14);
    packet_->set_l4_in_data(34);
    packet_->set_csum_start_in_data(34);
    packet_->meta.csum_state = CsumState::kPartial;
    packet_->meta.csum_offset = 16;
    if (t.gso_size != 0) packet_->meta.gso = {.type = GsoType::kTcpv4, .size = t.gso_size};
  }

  int Turn() {
    for (int i = 0; i < kBatch; ++i) (void)netdev::TxPath::Transmit(packet_->Clone(), *a_);
    context_.RunOnce();
    return Receive();
  }

 private:
  TapDevice* Open(const char* name) {
    auto device = TapDevice::Open(context_, {.name = name});
    if (!device.ok()) Skip(std::string(device.status().message()));
    return *context_.registry().Register(*std::move(device));
  }
  int Receive() {
    const int before = sink_.frames;
    b_->poll_fds()[0].poll->Schedule();
    while (context_.RunOnce()) {
    }
    return sink_.frames - before;
  }

  SystemEnvironment system_;
  CountingSink sink_;
  netdev::NetContext context_;
  TapDevice* a_;
  TapDevice* b_;
  PacketPtr packet_;
};

// ---- Measuring ----

// Processor time of this thread, the kernel's work for it included. On a machine that does other
// things as well the wall clock would measure those.
int64_t CpuNanos() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Nanoseconds per frame over one turn.
double Measure(const std::function<int()>& batch) {
  const int64_t start = CpuNanos();
  int64_t now = start;
  int64_t frames = 0;
  while ((now = CpuNanos()) - start < kTurnNanos) frames += batch();
  return static_cast<double>(now - start) / static_cast<double>(std::max<int64_t>(frames, 1));
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int Main() {
  // Placement decides; the bare loop and ours are to have the same.
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(sched_getcpu()), &one);
  sched_setaffinity(0, sizeof(one), &one);

  BareLoop bare;
  DeviceLoop device;
  std::string json;
  for (const Template& t :
       {Template{"tap_frames/1514", 1514, 0}, Template{"tap_super/65000", 65'000, 1448}}) {
    bare.Prepare(t);
    device.Prepare(t);
    std::vector<double> bare_ns;
    std::vector<double> device_ns;
    std::vector<double> ratios;
    for (int i = -1; i < kPairs; ++i) {
      const double b = Measure([&] { return bare.Turn(); });
      const double d = Measure([&] { return device.Turn(); });
      if (i < 0) continue;  // to warm up
      bare_ns.push_back(b);
      device_ns.push_back(d);
      ratios.push_back(b / d);
    }
    const double ns = Median(device_ns);
    const double bits = 8.0 * static_cast<double>(t.length);
    char line[512];
    std::snprintf(line, sizeof(line),
                  "%s{\"name\": \"%s\", \"time_ns\": %.1f, \"bare_ns\": %.1f, "
                  "\"frames_per_second\": %.0f, \"gbit_per_second\": %.2f, "
                  "\"bytes_per_syscall\": %zu, \"ratio\": %.3f}",
                  json.empty() ? "" : ",\n ", t.name.c_str(), ns, Median(bare_ns), 1e9 / ns,
                  bits / ns, t.length, Median(ratios));
    json += line;
  }
  std::printf("{\"benchmarks\": [\n %s]}\n", json.c_str());
  return 0;
}

}  // namespace
}  // namespace tapwire

int main() { return tapwire::Main(); }
