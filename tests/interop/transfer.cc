// SPDX-License-Identifier: Apache-2.0
#include "tests/interop/transfer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "netdev/base/seeded_random.h"

namespace tapwire::interop {
namespace {

using std::chrono::seconds;
using testutil::CommandResult;
using Words = std::vector<std::string>;

constexpr std::chrono::milliseconds kLimit = std::chrono::minutes(5);
constexpr size_t kMaxWrite = 1 << 20;

// sha256sum prints "<64 digits>  -".
std::string FirstWord(const std::string& text) {
  return std::string(*absl::StrSplit(text, ' ').begin());
}

}  // namespace

// ---- Data ----

DataFile::DataFile(size_t size) {
  const drivers::UniqueFd fd(open(path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(size)), 0) << std::strerror(errno);
  void* map = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (map == MAP_FAILED) {
    ADD_FAILURE() << "mmap " << path() << ": " << std::strerror(errno);
    return;
  }
  bytes_ = {static_cast<uint8_t*>(map), size};
  // A random page over and over, each copy with its number.
  std::array<uint64_t, 512> page;
  SeededRandom random(20'261'130);
  for (uint64_t& word : page) word = random.Next64();
  for (size_t i = 0; i < size; i += sizeof(page)) {
    page[0] = i;
    std::memcpy(&bytes_[i], page.data(), std::min(sizeof(page), size - i));
  }
}

std::string DataFile::hash() const {
  HashProgram program;
  program.Write(bytes_);
  return program.Finish();
}

DataFile::~DataFile() { munmap(bytes_.data(), bytes_.size()); }

HashProgram::HashProgram() {
  int in[2], out[2];
  EXPECT_EQ(pipe2(in, O_CLOEXEC), 0);
  EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    execlp("sha256sum", "sha256sum", static_cast<char*>(nullptr));
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  input_.Reset(in[1]);
  output_.Reset(out[0]);
}

HashProgram::~HashProgram() {
  input_.Reset();
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
}

void HashProgram::Write(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(input_.get(), bytes.data(), bytes.size());
    ASSERT_GT(written, 0) << std::strerror(errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

std::string HashProgram::Finish() {
  input_.Reset();
  std::string text;
  std::array<char, 256> buffer;
  ssize_t got = 0;
  while ((got = read(output_.get(), buffer.data(), buffer.size())) > 0) {
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  return FirstWord(text);
}

// ---- Our ends ----

Sink::Sink(Stack& stack, IpFamily family) {
  auto listener = TcpListener::Listen(stack, {IpAddress::Unspecified(family), kDiscardPort, 0});
  EXPECT_TRUE(listener.ok()) << listener.status();
  listener_ = *std::move(listener);
  const absl::Status accepts = listener_->AcceptStart([this](std::unique_ptr<TcpSocket> socket) {
    socket_ = std::move(socket);
    const absl::Status reads =
        socket_->ReadStart([this](absl::StatusOr<BufferSlice> slice) { OnRead(std::move(slice)); });
    EXPECT_TRUE(reads.ok()) << reads;
  });
  EXPECT_TRUE(accepts.ok()) << accepts;
}

void Sink::OnRead(absl::StatusOr<BufferSlice> slice) {
  if (slice.ok() && !slice->empty()) {
    bytes_ += slice->size();
    return hash_.Write(slice->bytes());
  }
  done_ = true;
  status_ = slice.status();
  if (status_.ok()) socket_->Close(nullptr);
}

Source::Source(Stack& stack, IpFamily family, std::span<const uint8_t> data) : data_(data) {
  auto listener = TcpListener::Listen(stack, {IpAddress::Unspecified(family), kChargenPort, 0});
  EXPECT_TRUE(listener.ok()) << listener.status();
  listener_ = *std::move(listener);
  const absl::Status accepts = listener_->AcceptStart([this](std::unique_ptr<TcpSocket> socket) {
    socket_ = std::move(socket);
    socket_->SetWritableCallback([this] { Send(); });
    Send();
  });
  EXPECT_TRUE(accepts.ok()) << accepts;
}

void Source::Send() {
  while (!done_ && !data_.empty()) {
    const auto sent = socket_->TryWrite(data_.first(std::min(data_.size(), kMaxWrite)));
    if (!sent.ok() && IsWouldBlock(sent.status())) return;
    status_ = sent.status();
    done_ = !sent.ok();
    if (sent.ok()) data_ = data_.subspan(*sent);
  }
  if (done_) return;
  done_ = true;
  status_ = socket_->ShutdownWrite(nullptr);
}

// ---- The kernel's end ----

std::string SocatPeer(IpFamily family, uint16_t port) {
  return family == IpFamily::kV4 ? absl::StrCat("TCP4:", kStack4.ToString(), ":", port)
                                 : absl::StrCat("TCP6:[", kStack6.ToString(), "]:", port);
}

Words SendFileCommand(IpFamily family, const DataFile& file) {
  return {"socat", "-u", "-b262144", absl::StrCat("OPEN:", file.path(), ",rdonly"),
          SocatPeer(family, kDiscardPort)};
}

Words HashCommand(IpFamily family) {
  return {"sh", "-c",
          absl::StrCat("socat -u -b262144 ", SocatPeer(family, kChargenPort), " - | sha256sum")};
}

Words EchoCommand(IpFamily family, const DataFile& file, uint16_t port) {
  // At the end of the file socat ends its direction and waits, here for a minute, for the other.
  return {"sh", "-c",
          absl::StrCat("socat -t60 -b262144 - ", SocatPeer(family, port), " <", file.path(),
                       " | sha256sum")};
}

// ---- Transfers ----

void KernelSendsFile(Lab& lab, IpFamily family, const DataFile& file) {
  Sink sink(lab.stack(), family);
  const CommandResult socat = lab.Run(SendFileCommand(family, file), {.timeout = kLimit});
  EXPECT_EQ(socat.exit_code, 0) << socat.output;
  ASSERT_TRUE(lab.RunUntil([&] { return sink.done(); }, seconds(30))) << sink.bytes();
  EXPECT_TRUE(sink.status().ok()) << sink.status();
  EXPECT_EQ(sink.bytes(), file.bytes().size());
  EXPECT_EQ(sink.Hash(), file.hash());
}

void StackSendsFile(Lab& lab, IpFamily family, const DataFile& file) {
  Source source(lab.stack(), family, file.bytes());
  const CommandResult socat = lab.Run(HashCommand(family), {.timeout = kLimit});
  EXPECT_TRUE(source.done());
  EXPECT_TRUE(source.status().ok()) << source.status();
  EXPECT_EQ(FirstWord(socat.output), file.hash()) << socat.output;
}

}  // namespace tapwire::interop
