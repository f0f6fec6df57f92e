// SPDX-License-Identifier: Apache-2.0
// Bulk transfers over TCP between the kernel and a stack, compared by sha256sum: the bytes of a
// file, our two ends, and the shell commands of the kernel's end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "drivers/tap/unique_fd.h"
#include "stack/sockets/tcp_listener.h"
#include "tests/interop/lab.h"
#include "tests/testutil/tshark.h"

namespace tapwire::interop {

// Ports of our ends, as RFC 863 and RFC 864 have them.
inline constexpr uint16_t kDiscardPort = 9;
inline constexpr uint16_t kChargenPort = 19;

// A file of bytes in which no page is like another.
class DataFile {
 public:
  explicit DataFile(size_t size);
  ~DataFile();
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;

  const std::string& path() const { return file_.path(); }
  std::span<const uint8_t> bytes() const { return bytes_; }
  // What sha256sum says of it.
  std::string hash() const;

 private:
  testutil::TempFile file_{".data"};
  std::span<uint8_t> bytes_;
};

// Runs sha256sum on a stream.
class HashProgram {
 public:
  HashProgram();
  ~HashProgram();
  HashProgram(const HashProgram&) = delete;
  HashProgram& operator=(const HashProgram&) = delete;

  void Write(std::span<const uint8_t> bytes);
  std::string Finish();  // ends the stream

 private:
  drivers::UniqueFd input_;
  drivers::UniqueFd output_;
  pid_t pid_ = -1;
};

// Takes one connection on kDiscardPort and reads it to its end, which it answers with its own.
class Sink {
 public:
  explicit Sink(Stack& stack, IpFamily family);
  bool done() const { return done_; }
  uint64_t bytes() const { return bytes_; }
  const absl::Status& status() const { return status_; }  // why it ended; OK: in order
  std::string Hash() { return hash_.Finish(); }
  TcpSocket* socket() { return socket_.get(); }

 private:
  void OnRead(absl::StatusOr<BufferSlice> slice);

  std::unique_ptr<TcpListener> listener_;
  std::unique_ptr<TcpSocket> socket_;
  HashProgram hash_;
  uint64_t bytes_ = 0;
  bool done_ = false;
  absl::Status status_;
};

// Takes one connection on kChargenPort, sends all of `data`, which must outlive it, and its end.
class Source {
 public:
  Source(Stack& stack, IpFamily family, std::span<const uint8_t> data);
  // All was taken by the connection, or it failed.
  bool done() const { return done_; }
  const absl::Status& status() const { return status_; }
  TcpSocket* socket() { return socket_.get(); }

 private:
  void Send();

  std::span<const uint8_t> data_;
  std::unique_ptr<TcpListener> listener_;
  std::unique_ptr<TcpSocket> socket_;
  bool done_ = false;
  absl::Status status_;
};

// "TCP4:10.9.0.2:9", as socat wants it.
std::string SocatPeer(IpFamily family, uint16_t port);
// The kernel's end: sends a file to kDiscardPort; prints the hash of what kChargenPort sends; sends
// a file to the echo service at `port` and prints the hash of what comes back.
std::vector<std::string> SendFileCommand(IpFamily family, const DataFile& file);
std::vector<std::string> HashCommand(IpFamily family);
std::vector<std::string> EchoCommand(IpFamily family, const DataFile& file, uint16_t port);

// `file` from the kernel to the stack, and from the stack to the kernel, each compared by hash.
void KernelSendsFile(Lab& lab, IpFamily family, const DataFile& file);
void StackSendsFile(Lab& lab, IpFamily family, const DataFile& file);

}  // namespace tapwire::interop
