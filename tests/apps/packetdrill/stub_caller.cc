// SPDX-License-Identifier: Apache-2.0
#include "tests/apps/packetdrill/stub_caller.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <utility>

namespace tapwire::packetdrill {

InitFunction LoadPlugin() {
  void* object = dlopen(TAPWIRE_PLUGIN, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | RTLD_DEEPBIND);
  if (object == nullptr) {
    ADD_FAILURE() << dlerror();
    return nullptr;
  }
  return reinterpret_cast<InitFunction>(dlsym(object, "packetdrill_interface_init"));
}

StubCaller::StubCaller(const char* flags, EndRead end_read) : end_read_(end_read) {
  const InitFunction init = LoadPlugin();
  if (init == nullptr || init(flags, &table) != 0) {
    ADD_FAILURE() << "the plug-in does not start";
    std::abort();
  }
  thread_ = std::thread([this] { SyscallThread(); });
  finished_.wait(main_lock_, [this] { return tid_ != 0; });
  // The program lets 250 us pass on the plug-in's clock before a script starts.
  Wait(250);
}

StubCaller::~StubCaller() {
  // Resets for the connections the program knows of; the plug-in has to bear them.
  Inject(FromPeer(Segment::kRst, 1, 0));
  Inject(FromPeer(Segment::kRst | Segment::kAck, 0, 1));
  stop_ = true;
  main_lock_.unlock();
  work_.notify_all();
  table.free(table.userdata);
  thread_.join();
}

// ---- Time ----

int64_t StubCaller::Now() {
  timeval tv = {};
  EXPECT_EQ(table.gettimeofday(user(), &tv, nullptr), 0);
  return static_cast<int64_t>(tv.tv_sec) * 1'000'000 + tv.tv_usec;
}

void StubCaller::WaitUntil(int64_t time_us) {
  constexpr int64_t kSpin = 20;
  const int64_t wait = time_us - Now();
  if (wait > kSpin) table.usleep(user(), static_cast<useconds_t>(wait - kSpin));
  while (Now() < time_us) {
  }
}

// ---- Packets ----

void StubCaller::Inject(const Segment& segment) {
  const Bytes bytes = BuildSegment(segment);
  EXPECT_EQ(table.netdev_send(user(), bytes.data(), bytes.size()), 0);
}

std::optional<Packet> StubCaller::Receive() {
  Bytes bytes(70'000);
  size_t size = bytes.size();
  long long time_us = 0;
  EXPECT_EQ(table.netdev_receive(user(), bytes.data(), &size, &time_us), 0);
  if (size == 0) return std::nullopt;
  bytes.resize(size);
  Packet packet{ParseSegment(bytes), time_us};
  EXPECT_TRUE(packet.segment.sound);
  return packet;
}

// ---- The second thread ----

void StubCaller::SyscallThread() {
  std::unique_lock<std::mutex> lock(lock_);
  tid_ = gettid();
  finished_.notify_all();
  for (;;) {
    work_.wait(lock, [this] { return stop_ || (busy_ && call_); });
    if (stop_) return;
    const auto call = std::exchange(call_, nullptr);
    lock.unlock();
    CallEnd end;
    end.returned = true;
    errno = 0;
    end.result = call();
    end.error = errno;
    if (end_read_ == EndRead::kBeforeTheLock && !stop_) end.time_us = Now();
    lock.lock();
    if (stop_) return;
    if (end_read_ == EndRead::kUnderTheLock) end.time_us = Now();
    end_ = end;
    busy_ = false;
    finished_.notify_all();
  }
}

bool StubCaller::ThreadIsAsleep() const {
  std::ifstream file("/proc/self/task/" + std::to_string(tid_) + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  return name_end != std::string::npos && line.compare(name_end, 3, ") S") == 0;
}

void StubCaller::StartBlocking(std::function<int64_t()> call) {
  ASSERT_FALSE(busy_);
  call_ = std::move(call);
  busy_ = true;
  end_ = {};
  work_.notify_all();
  for (int looks = 0; looks < 100'000; ++looks) {
    main_lock_.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    const bool asleep = ThreadIsAsleep();
    main_lock_.lock();
    if (!busy_ || (asleep && call_ == nullptr)) return;
  }
  FAIL() << "the thread neither returns nor sleeps";
}

bool StubCaller::IsPending() { return busy_; }

CallEnd StubCaller::FinishBlocking() {
  finished_.wait_for(main_lock_, std::chrono::seconds(1), [this] { return !busy_; });
  return end_;
}

// ---- Shorthands ----

sockaddr_storage MakeAddress(const std::string& address, uint16_t port, socklen_t& length) {
  sockaddr_storage out = {};
  if (address.find(':') == std::string::npos) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&out);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    inet_pton(AF_INET, address.c_str(), &v4->sin_addr);
    length = sizeof(*v4);
  } else {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&out);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    inet_pton(AF_INET6, address.c_str(), &v6->sin6_addr);
    length = sizeof(*v6);
  }
  return out;
}

int StubCaller::Socket(int type) {
  const bool v6 = local.find(':') != std::string::npos;
  return table.socket(user(), v6 ? AF_INET6 : AF_INET, type, 0);
}

int StubCaller::Bind(int fd, const std::string& address, uint16_t port) {
  socklen_t length = 0;
  const sockaddr_storage name = MakeAddress(address, port, length);
  return table.bind(user(), fd, reinterpret_cast<const sockaddr*>(&name), length);
}

int StubCaller::Connect(int fd) {
  socklen_t length = 0;
  const sockaddr_storage name = MakeAddress(remote, 8080, length);
  return table.connect(user(), fd, reinterpret_cast<const sockaddr*>(&name), length);
}

int StubCaller::Listener() {
  const int fd = Socket();
  EXPECT_GE(fd, 0);
  EXPECT_EQ(Bind(fd, local.find(':') == std::string::npos ? "0.0.0.0" : "::", local_port), 0);
  EXPECT_EQ(table.listen(user(), fd, 1), 0);
  return fd;
}

Segment StubCaller::FromPeer(uint8_t flags, uint32_t seq, uint32_t ack, Bytes payload) const {
  Segment s;
  s.source = remote;
  s.destination = local;
  s.source_port = remote_port;
  s.destination_port = local_port;
  s.flags = flags;
  s.seq = seq;
  s.ack = ack;
  s.payload = std::move(payload);
  return s;
}

std::optional<Packet> StubCaller::OpenFromPeer(const Bytes& options) {
  Segment syn = FromPeer(Segment::kSyn, 0, 0);
  syn.options = options;
  Inject(syn);
  std::optional<Packet> syn_ack = Receive();
  if (!syn_ack) return std::nullopt;
  isn = syn_ack->segment.seq;
  Inject(FromPeer(Segment::kAck, 1, isn + 1));
  return syn_ack;
}

int StubCaller::Accepted(int listener) {
  EXPECT_TRUE(OpenFromPeer().has_value());
  return table.accept(user(), listener, nullptr, nullptr);
}

}  // namespace tapwire::packetdrill
