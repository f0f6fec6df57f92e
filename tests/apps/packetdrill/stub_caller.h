// SPDX-License-Identifier: Apache-2.0
// StubCaller: what the packetdrill program does with a plug-in, without its language. It opens the
// shared object as that does, has a main thread and one for blocking calls, drops a lock of its own
// around these, waits with usleep() and a spin on the plug-in's clock, and ends with resets.
#pragma once

#include <netinet/in.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "apps/pkt/packetdrill/interface.h"
#include "tests/apps/packetdrill/segment.h"

namespace tapwire::packetdrill {

// When the second thread reads the time at which its call ended.
enum class EndRead : uint8_t {
  kBeforeTheLock,  // right after the return
  kUnderTheLock,   // once it has the program's lock, which the main thread may hold for long
};

struct CallEnd {
  bool returned = false;  // within a real second
  int64_t result = 0;
  int error = 0;
  int64_t time_us = 0;
};

struct Packet {
  Segment segment;
  int64_t time_us = 0;
};

using InitFunction = int (*)(const char* flags, packetdrill_interface* table);
// The plug-in's entry; null and a test failure if it cannot be had.
InitFunction LoadPlugin();

class StubCaller {
 public:
  // Null: no --so_flags.
  explicit StubCaller(const char* flags = nullptr, EndRead end_read = EndRead::kBeforeTheLock);
  ~StubCaller();
  StubCaller(const StubCaller&) = delete;
  StubCaller& operator=(const StubCaller&) = delete;

  packetdrill_interface table = {};
  void* user() { return table.userdata; }

  int64_t Now();
  // As the program: sleeps until 20 us before, then spins.
  void WaitUntil(int64_t time_us);
  void Wait(int64_t duration_us) { WaitUntil(Now() + duration_us); }

  void Inject(const Segment& segment);
  // The next packet; none when the plug-in gave no bytes.
  std::optional<Packet> Receive();

  // Starts `call` in the second thread and returns when that is asleep in it, or it has returned.
  void StartBlocking(std::function<int64_t()> call);
  bool IsPending();
  CallEnd FinishBlocking();

  // ---- Addresses and the usual steps ----
  // The peer's end and ours, for the shorthands below.
  std::string remote = "192.0.2.1", local = "192.168.0.2";
  uint16_t remote_port = 50000, local_port = 8080;
  int Socket(int type = SOCK_STREAM);  // of the family of `local`
  int Bind(int fd, const std::string& address, uint16_t port);
  int Connect(int fd);  // to `remote`, port 8080
  // A listening socket on `local_port`, any address.
  int Listener();
  // A segment from the peer to us.
  Segment FromPeer(uint8_t flags, uint32_t seq, uint32_t ack, Bytes payload = {}) const;
  // Handshake of the peer's connection, seq 0, with the options of its SYN; the SYN-ACK.
  std::optional<Packet> OpenFromPeer(const Bytes& options = {2, 4, 5, 180});
  // The same and accept().
  int Accepted(int listener);
  uint32_t isn = 0;  // ours, after OpenFromPeer()

 private:
  void SyscallThread();
  bool ThreadIsAsleep() const;

  const EndRead end_read_;
  std::mutex lock_;  // the program's: the main thread holds it but while it waits
  std::condition_variable work_, finished_;
  std::function<int64_t()> call_;
  CallEnd end_;
  bool busy_ = false;
  std::atomic<bool> stop_{false};  // the plug-in is going away
  pid_t tid_ = 0;
  std::unique_lock<std::mutex> main_lock_{lock_};
  std::thread thread_;
};

sockaddr_storage MakeAddress(const std::string& address, uint16_t port, socklen_t& length);

}  // namespace tapwire::packetdrill
