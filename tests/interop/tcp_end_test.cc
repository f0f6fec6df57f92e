// SPDX-License-Identifier: Apache-2.0
// How TCP connections between the kernel and the stack begin in vain and end: half-close, reset,
// refusal, silence, a peer that dies, a link that goes. Each gives the error that Linux gives.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "netdev/base/status_util.h"
#include "stack/sockets/tcp_listener.h"
#include "stack/sockets/tcp_socket.h"
#include "tests/interop/exchange.h"
#include "tests/interop/kernel_side.h"
#include "tests/interop/kernel_tcp.h"
#include "tests/interop/lab.h"
#include "tests/interop/program.h"
#include "tests/interop/transfer.h"
#include "tests/interop/verdict.h"

namespace tapwire::interop {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testutil::Command;
using testutil::CommandResult;

constexpr uint16_t kPort = 5000;

std::string Text(size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i % 23);
  return text;
}

class InteropTcpEndTest : public testutil::NetnsFixture,
                          public ::testing::WithParamInterface<IpFamily> {
 protected:
  void SetUp() override {
    NetnsFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    LabOptions options = {.node = tun_node()};
    options.tcp.initial_rto = milliseconds(200);
    options.config.retrans_timer = milliseconds(300);
    auto lab = Lab::Create(options);
    ASSERT_TRUE(lab.ok()) << lab.status();
    lab_ = *std::move(lab);
    // The kernel forgets IPv6 addresses when a link goes down, unless told otherwise.
    Sysctl(absl::StrCat("ipv6/conf/", kTapName, "/keep_addr_on_down"), "1");
  }
  void TearDown() override {
    socket_.reset();
    listener_.reset();
    lab_.reset();
    NetnsFixture::TearDown();
  }

  IpFamily family() const { return GetParam(); }
  Endpoint ours() const { return {StackAddress(family()), kPort, 0}; }
  Endpoint kernels() const { return {KernelAddress(family()), kPort, 0}; }
  bool RunUntil(absl::FunctionRef<bool()> done, Duration limit = seconds(10)) {
    return lab_->RunUntil(done, limit);
  }

  // socket_ and the kernel's socket, connected by either.
  KernelTcp KernelConnects() {
    auto listener = TcpListener::Listen(lab_->stack(), ours());
    EXPECT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    KernelTcp client = KernelTcp::Connect(ours());
    EXPECT_TRUE(RunUntil([&] {
      socket_ = listener_->TryAccept();
      return socket_ != nullptr && client.Writable();
    }));
    return client;
  }
  KernelTcp StackConnects() {
    KernelTcp server = KernelTcp::Listen(family(), kPort);
    EXPECT_EQ(StatusToErrno(Connect(kernels())), 0);
    std::optional<KernelTcp> accepted;
    EXPECT_TRUE(RunUntil([&] { return (accepted = server.Accept()).has_value(); }));
    return *std::move(accepted);
  }
  // Later than connecting, which a neighbour that is slow to answer may hold up.
  void SetUserTimeout(Duration timeout) {
    socket_->options().user_timeout = timeout;
    socket_->OptionsChanged();
  }
  // Makes socket_; what became of it.
  absl::Status Connect(const Endpoint& peer, const TcpSocket::Options& options = {}) {
    std::optional<absl::Status> result;
    auto socket =
        TcpSocket::Connect(lab_->stack(), peer, {.socket = options},
                           [&result](absl::Status status) { result = std::move(status); });
    if (!socket.ok()) return socket.status();
    socket_ = *std::move(socket);
    EXPECT_TRUE(RunUntil([&] { return result.has_value(); }));
    return result.value_or(absl::UnknownError("nothing became of it"));
  }

  // Reads socket_ until the stream ends, and how.
  absl::Status ReadToTheEnd(std::string& text) {
    std::optional<absl::Status> end;
    absl::Status reads = socket_->ReadStart([&](absl::StatusOr<BufferSlice> slice) {
      if (slice.ok() && !slice->empty()) {
        text.append(slice->bytes().begin(), slice->bytes().end());
      } else {
        end = slice.status();
      }
    });
    if (!reads.ok()) return reads;
    EXPECT_TRUE(RunUntil([&] { return end.has_value(); })) << text.size();
    socket_->ReadStop();
    return end.value_or(absl::UnknownError("the stream did not end"));
  }
  void Write(const std::string& text) {
    BufferChain data;
    ASSERT_EQ(data.AppendCopy(lab_->context().pool(),
                              {reinterpret_cast<const uint8_t*>(text.data()), text.size()}),
              text.size());
    ASSERT_TRUE(socket_->Write(std::move(data), nullptr).ok());
  }
  void KernelSends(KernelTcp& kernel, const std::string& text) {
    size_t sent = 0;
    ASSERT_TRUE(RunUntil([&] {
      sent += kernel.Send(text.substr(sent));
      return sent == text.size();
    }));
  }

  std::unique_ptr<Lab> lab_;
  std::unique_ptr<TcpListener> listener_;
  std::unique_ptr<TcpSocket> socket_;
};

INSTANTIATE_TEST_SUITE_P(Families, InteropTcpEndTest,
                         ::testing::Values(IpFamily::kV4, IpFamily::kV6), [](const auto& test) {
                           return test.param == IpFamily::kV4 ? "V4" : "V6";
                         });

// ---- Half-close ----

// Covers: RFC 9293 MUST-10 — what is sent after the peer's FIN still arrives.
TEST_P(InteropTcpEndTest, KernelEndsItsDirectionAndReadsOn) {
  KernelTcp kernel = KernelConnects();
  KernelSends(kernel, Text(100'000));
  kernel.ShutdownWrite();
  std::string text;
  EXPECT_TRUE(ReadToTheEnd(text).ok());
  EXPECT_EQ(text, Text(100'000));

  Write(Text(1'000'000));
  ASSERT_TRUE(socket_->ShutdownWrite(nullptr).ok());
  EXPECT_TRUE(RunUntil([&] { return kernel.Receive(); }));
  EXPECT_EQ(kernel.error(), 0);
  EXPECT_TRUE(kernel.received() == Text(1'000'000)) << kernel.received().size();
  EXPECT_TRUE(socket_->status().ok()) << socket_->status();
  ExpectClean(*lab_);
}

TEST_P(InteropTcpEndTest, WeEndOurDirectionAndReadOn) {
  KernelTcp kernel = StackConnects();
  Write(Text(100'000));
  ASSERT_TRUE(socket_->ShutdownWrite(nullptr).ok());
  EXPECT_TRUE(RunUntil([&] { return kernel.Receive(); }));
  EXPECT_EQ(kernel.error(), 0);
  EXPECT_EQ(kernel.received(), Text(100'000));

  KernelSends(kernel, Text(1'000'000));
  kernel.Close();
  std::string text;
  EXPECT_TRUE(ReadToTheEnd(text).ok());
  EXPECT_TRUE(text == Text(1'000'000)) << text.size();
  EXPECT_EQ(StatusToErrno(socket_->TryWrite({}).status()), EPIPE);
  ExpectClean(*lab_);
}

// ---- Reset ----

TEST_P(InteropTcpEndTest, ResetOfTheKernelComesAfterItsData) {
  KernelTcp kernel = KernelConnects();
  KernelSends(kernel, Text(50'000));
  ASSERT_TRUE(RunUntil([&] { return socket_->readable_bytes() == 50'000; }));
  kernel.CloseWithReset();
  ASSERT_TRUE(RunUntil([&] { return !socket_->status().ok(); }));
  std::string text;
  EXPECT_EQ(StatusToErrno(ReadToTheEnd(text)), ECONNRESET);
  EXPECT_EQ(text, Text(50'000));
  const uint8_t byte = 0;
  EXPECT_EQ(StatusToErrno(socket_->TryWrite({&byte, 1}).status()), ECONNRESET);
  ExpectClean(*lab_);
}

TEST_P(InteropTcpEndTest, OurResetIsSeenByTheKernel) {
  KernelTcp kernel = StackConnects();
  Write("last words");
  ASSERT_TRUE(RunUntil([&] { return socket_->unacked_bytes() == 0; }));
  socket_->Abort();
  EXPECT_TRUE(RunUntil([&] { return kernel.Receive(); }));
  EXPECT_EQ(kernel.error(), ECONNRESET);
  ExpectClean(*lab_);
}

// ---- Refusal and silence ----

TEST_P(InteropTcpEndTest, PortsWithoutListenerRefuse) {
  KernelTcp kernel = KernelTcp::Connect(ours());
  EXPECT_TRUE(RunUntil([&] { return kernel.Writable(); }));
  EXPECT_EQ(kernel.TakeError(), ECONNREFUSED);
  EXPECT_EQ(StatusToErrno(Connect(kernels())), ECONNREFUSED);
  ExpectClean(*lab_);
}

// A router that drops what it is given: our SYN, and two repetitions after 0.2 and 0.4 s.
TEST_P(InteropTcpEndTest, ConnectIntoABlackHoleTimesOut) {
  const IpAddress far = *IpAddress::Parse(family() == IpFamily::kV4 ? "192.0.2.1" : "2001:db8::1");
  // Not "unreachable", which the kernel would say.
  Ip(absl::StrCat(family() == IpFamily::kV4 ? "" : "-6 ", "route add blackhole ", far.ToString()));
  ASSERT_TRUE(lab_->stack()
                  .AddRoute({.prefix = {IpAddress::Unspecified(family()), 0},
                             .gateway = KernelAddress(family())})
                  .ok());
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(StatusToErrno(Connect({far, kPort, 0}, {.syn_retries = 2})), ETIMEDOUT);
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_GE(took, milliseconds(1350));  // 0.2 + 0.4 + 0.8 s
  EXPECT_LT(took, seconds(4));
  ExpectClean(*lab_);
}

TEST_P(InteropTcpEndTest, NobodyAtTheAddressIsNoRoute) {
  const IpAddress absent =
      *IpAddress::Parse(family() == IpFamily::kV4 ? "10.9.0.77" : "fd00:9::77");
  EXPECT_EQ(StatusToErrno(Connect({absent, kPort, 0})), EHOSTUNREACH);
}

// Covers: RFC 9293 MUST-21
TEST_P(InteropTcpEndTest, UserTimeoutEndsAConnectionThatIsNotAnswered) {
  KernelTcp kernel = StackConnects();
  SetUserTimeout(milliseconds(600));
  Ip(absl::StrCat("addr del ", KernelAddress(family()).ToString(),
                  family() == IpFamily::kV4 ? "/24" : "/64", " dev ", kTapName));
  Write("does anybody hear this?");
  const auto start = std::chrono::steady_clock::now();
  std::string text;
  EXPECT_EQ(StatusToErrno(ReadToTheEnd(text)), ETIMEDOUT);
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(550));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(4));
}

// ---- The other process ----

TEST_P(InteropTcpEndTest, SenderThatIsKilledEndsTheStream) {
  const DataFile file(64 << 20);
  Sink sink(lab_->stack(), family());
  auto socat = lab_->Start(SendFileCommand(family(), file));
  ASSERT_TRUE(RunUntil([&] { return sink.bytes() > (1 << 20); }));
  socat->Signal(SIGKILL);
  // What it had sent comes, and then its end: the kernel closes for it.
  EXPECT_TRUE(RunUntil([&] { return sink.done(); }));
  EXPECT_TRUE(sink.status().ok()) << sink.status();
  EXPECT_LT(sink.bytes(), file.bytes().size());
  ExpectClean(*lab_);
}

TEST_P(InteropTcpEndTest, ReaderThatIsKilledResets) {
  const DataFile file(64 << 20);
  Source source(lab_->stack(), family(), file.bytes());
  // `sleep` never reads its end of the pipe, so the window closes with data unread.
  auto socat = lab_->Start({"sh", "-c",
                            absl::StrCat("exec socat -u ", SocatPeer(family(), kChargenPort),
                                         " EXEC:'sleep 60',pipes")});
  uint64_t queued = 0;
  ASSERT_TRUE(RunUntil([&] {
    // Stands still: the peer takes no more.
    const uint64_t before =
        std::exchange(queued, source.socket() == nullptr ? 0 : source.socket()->Info().bytes_acked);
    if (queued > 0) lab_->RunFor(milliseconds(100));
    return queued > 0 && queued == before;
  }));
  socat->Signal(SIGKILL);
  EXPECT_TRUE(RunUntil([&] { return source.done(); }));
  EXPECT_EQ(StatusToErrno(source.status()), ECONNRESET);
  ExpectClean(*lab_);
}

// ---- The link ----

TEST_P(InteropTcpEndTest, TransferGoesOnWhenTheLinkReturns) {
  const DataFile file(32 << 20);
  Sink sink(lab_->stack(), family());
  auto socat = lab_->Start(SendFileCommand(family(), file));
  ASSERT_TRUE(RunUntil([&] { return sink.bytes() > (4 << 20); }));
  Ip(absl::StrCat("link set ", kTapName, " down"));
  lab_->RunFor(milliseconds(300));
  EXPECT_FALSE(lab_->tap().has_carrier());
  EXPECT_FALSE(sink.done());
  Ip(absl::StrCat("link set ", kTapName, " up"));
  EXPECT_TRUE(RunUntil([&] { return sink.done(); }, seconds(20))) << sink.bytes();
  EXPECT_TRUE(sink.status().ok()) << sink.status();
  EXPECT_EQ(sink.Hash(), file.hash());
  EXPECT_EQ(socat->Wait().exit_code, 0);
  ExpectGoodChecksums(*lab_);
}

// As with Linux a removed device is a network that is silent: what is open fails by its timeout,
// and what is new at once.
TEST_P(InteropTcpEndTest, RemovedTapEndsConnectionsByTheirTimeout) {
  KernelTcp kernel = StackConnects();
  SetUserTimeout(milliseconds(500));
  Ip(absl::StrCat("link del ", kTapName));
  EXPECT_TRUE(RunUntil([&] { return lab_->tap().gone(); }, seconds(2)));
  Write("does anybody hear this?");
  const auto start = std::chrono::steady_clock::now();
  std::string text;
  EXPECT_EQ(StatusToErrno(ReadToTheEnd(text)), ENETDOWN);
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(450));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(4));
  EXPECT_EQ(StatusToErrno(Connect(kernels())), ENETDOWN);
}

TEST_P(InteropTcpEndTest, RemovedTapEndsTheProgram) {
  lab_.reset();
  const DataFile file(64 << 20);
  std::vector<std::string> arguments = {
      "echo", "--addr",
      absl::StrCat(ours().address.ToString(), family() == IpFamily::kV4 ? "/24" : "/64"), "--dad",
      "off"};
  for (const std::string& flag : NetFlags(tun_node())) arguments.push_back(flag);
  Command echo(Tapwire(arguments));
  ASSERT_TRUE(echo.WaitForOutput("ready: ")) << echo.output();
  Command socat(EchoCommand(family(), file, 7));
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_TRUE(socat.Running());
  Ip(absl::StrCat("link del ", kTapName));
  const CommandResult ended = echo.Wait();
  EXPECT_FALSE(ended.timed_out);
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.output, ::testing::HasSubstr("removed"));
}

}  // namespace
}  // namespace tapwire::interop
