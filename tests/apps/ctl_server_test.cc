// SPDX-License-Identifier: Apache-2.0
// The control socket: what goes over it, who may use it, and that no client can hurt its server.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "apps/ctl/client.h"
#include "apps/ctl/message.h"
#include "apps/ctl/server.h"
#include "apps/ctl/socket_path.h"
#include "apps/uv_timer.h"
#include "netdev/base/status_util.h"

namespace tapwire::apps::ctl {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// ---- Messages ----

TEST(CtlMessageTest, RequestIsItsLengthAndWordsEndedByZero) {
  const auto bytes = EncodeRequest({"ip", "-s", ""});
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, std::string("\0\0\0\7ip\0-s\0\0", 11));
  EXPECT_EQ(**RequestLength(*bytes), 11u);
  EXPECT_FALSE(RequestLength("\0\0\0")->has_value());
  const auto argv = DecodeRequest(*bytes);
  ASSERT_TRUE(argv.ok());
  EXPECT_THAT(*argv, ElementsAre("ip", "-s", ""));
}

TEST(CtlMessageTest, RequestsThatAreNoneAreRefused) {
  EXPECT_FALSE(EncodeRequest({}).ok());
  EXPECT_FALSE(EncodeRequest({std::string("a\0b", 3)}).ok());
  EXPECT_FALSE(EncodeRequest({std::string(kMaxRequest, 'x')}).ok());
  EXPECT_TRUE(EncodeRequest({std::string(kMaxRequest - 1, 'x')}).ok());
  EXPECT_FALSE(RequestLength(std::string("\0\0\0\0", 4)).ok());
  EXPECT_FALSE(RequestLength(std::string("\0\0\x40\1", 4)).ok());  // 16,385
  EXPECT_FALSE(RequestLength("GET / HTTP/1.1").ok());
  EXPECT_FALSE(DecodeRequest(std::string("\0\0\0\2ip", 6)).ok());    // not ended
  EXPECT_FALSE(DecodeRequest(std::string("\0\0\0\3ip", 6)).ok());    // short
  EXPECT_FALSE(DecodeRequest(std::string("\0\0\0\1\0\0", 6)).ok());  // long
}

TEST(CtlMessageTest, RepliesComeBackAsTheyWere) {
  const Reply reply{92, std::string("a\0b", 3), "error\n"};
  const std::string bytes = EncodeReply(reply);
  EXPECT_EQ(bytes.size(), kReplyHeader + 9);
  const auto back = DecodeReply(bytes);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->exit_code, 92);
  EXPECT_EQ(back->out, reply.out);
  EXPECT_EQ(back->err, reply.err);
  EXPECT_FALSE(DecodeReply(bytes.substr(1)).ok());
  EXPECT_FALSE(ReplyLength("HTTP/1.1 400 Bad").ok());
  EXPECT_FALSE(ReplyLength(std::string("\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", 12)).ok());
}

// ---- The socket ----

constexpr std::chrono::seconds kPatience(20);

class CtlServerTest : public ::testing::Test {
 protected:
  CtlServerTest() {
    char folder[] = "/tmp/tapwire-ctl-XXXXXX";
    EXPECT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    loop_ = *UvLoop::Create();
    // The server does not keep the loop alive; a program that runs does.
    alive_ = std::make_unique<UvTimer>(loop_->get());
    alive_->Start(600, [] {});
  }
  ~CtlServerTest() override {
    server_.reset();
    unlink(path().c_str());
    rmdir(folder_.c_str());
  }
  std::string path() const { return folder_ + "/run.sock"; }
  absl::Status Start(size_t max_clients = 16, uint64_t timeout_ms = 5'000) {
    Server::Options options;
    options.path = path();
    options.max_clients = max_clients;
    options.timeout_ms = timeout_ms;
    auto server =
        Server::Start(loop_->get(), std::move(options),
                      [this](const std::vector<std::string>& argv) { return Answer(argv); });
    if (server.ok()) server_ = *std::move(server);
    return server.status();
  }
  Reply Answer(const std::vector<std::string>& argv) {
    ++handled_;
    if (argv[0] == "big") return {0, std::string(4u << 20, 'x'), ""};
    std::string words;
    for (const std::string& word : argv) words += "<" + word + ">";
    return {7, words, "err"};
  }
  // Turns the loop while `client` runs on a thread of its own.
  void While(const std::function<void()>& client) {
    std::atomic<bool> done{false};
    std::thread thread([&] {
      client();
      done = true;
    });
    while (!done) Turn();
    thread.join();
    Turn();
  }
  void Turn() {
    uv_run(loop_->get(), UV_RUN_NOWAIT);
    std::this_thread::sleep_for(milliseconds(1));
  }
  // Until the server has closed this end.
  static bool ClosedWithin(int fd, milliseconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    char chunk[4096];
    while (std::chrono::steady_clock::now() < end) {
      const ssize_t got = recv(fd, chunk, sizeof chunk, MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno == ECONNRESET)) return true;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return false;
  }

  std::string folder_;
  std::unique_ptr<UvLoop> loop_;
  std::unique_ptr<UvTimer> alive_;
  std::unique_ptr<Server> server_;
  int handled_ = 0;
};

TEST_F(CtlServerTest, AnswersAndRemovesItsSocket) {
  ASSERT_EQ(Start(), absl::OkStatus());
  struct stat info;
  ASSERT_EQ(stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  While([&] {
    for (int i = 0; i < 3; ++i) {
      const auto reply = Ask(path(), {"ip", "", "link"});
      ASSERT_TRUE(reply.ok()) << reply.status();
      EXPECT_EQ(reply->exit_code, 7);
      EXPECT_EQ(reply->out, "<ip><><link>");
      EXPECT_EQ(reply->err, "err");
    }
    const auto big = Ask(path(), {"big"});
    ASSERT_TRUE(big.ok()) << big.status();
    EXPECT_EQ(big->out.size(), 4u << 20);
  });
  EXPECT_EQ(server_->clients(), 0u);
  server_.reset();
  EXPECT_NE(stat(path().c_str(), &info), 0);
}

TEST_F(CtlServerTest, OnlyAStaleSocketIsReplaced) {
  ASSERT_EQ(Start(), absl::OkStatus());
  const auto second = ListenAt(path());
  EXPECT_EQ(StatusToErrno(second.status()), EADDRINUSE) << second.status();
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("another process answers there"));
  While([&] { EXPECT_TRUE(Ask(path(), {"ip"}).ok()); });
  server_.reset();
  {
    // Left behind by a process that was killed.
    auto dead = ListenAt(path());
    ASSERT_TRUE(dead.ok()) << dead.status();
  }
  ASSERT_EQ(Start(), absl::OkStatus());
  While([&] { EXPECT_TRUE(Ask(path(), {"ip"}).ok()); });
  server_.reset();
  std::ofstream(path()) << "a file";
  EXPECT_EQ(StatusToErrno(Start()), EADDRINUSE);
  struct stat info;
  EXPECT_EQ(stat(path().c_str(), &info), 0);  // still there
}

// A process that is stopped: its queue of connections is full, and nobody takes any out.
TEST_F(CtlServerTest, WhoTakesNoConnectionIsNotWaitedFor) {
  const auto stopped = ListenAt(path());
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  std::vector<drivers::UniqueFd> waiting;
  while (true) {
    auto fd = ConnectTo(path(), std::chrono::milliseconds(1));
    if (!fd.ok()) break;
    waiting.push_back(*std::move(fd));
    ASSERT_LT(waiting.size(), 1000u);
  }
  const auto reply = Ask(path(), {"ip"}, std::chrono::milliseconds(50));
  EXPECT_EQ(StatusToErrno(reply.status()), ETIMEDOUT);
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("takes no connection"));
  EXPECT_EQ(StatusToErrno(ListenAt(path()).status()), EADDRINUSE) << "it may go on one day";
}

TEST_F(CtlServerTest, LockOfAStrangerOnTheFolderIsNotWaitedForForever) {
  const drivers::UniqueFd folder(open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(flock(folder.get(), LOCK_EX), 0);
  EXPECT_EQ(Start(), absl::OkStatus());
}

TEST_F(CtlServerTest, SocketOfASuccessorIsNotRemoved) {
  ASSERT_EQ(Start(), absl::OkStatus());
  ASSERT_EQ(unlink(path().c_str()), 0);
  std::ofstream(path()) << "of somebody else";
  server_.reset();
  struct stat info;
  EXPECT_EQ(stat(path().c_str(), &info), 0);
}

TEST_F(CtlServerTest, GarbageIsAnsweredAndEnds) {
  ASSERT_EQ(Start(), absl::OkStatus());
  While([&] {
    for (const std::string& bytes :
         {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(8, '\0'), std::string(8, '\xff'),
          std::string("\0\0\0\2ip", 6), std::string(1u << 20, 'x')}) {
      const auto fd = ConnectTo(path(), kPatience);
      ASSERT_TRUE(fd.ok()) << fd.status();
      (void)send(fd->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      EXPECT_TRUE(ClosedWithin(fd->get(), std::chrono::seconds(3)));
    }
    EXPECT_TRUE(Ask(path(), {"ip"}).ok());
  });
  EXPECT_EQ(handled_, 1);
}

TEST_F(CtlServerTest, ClientThatHangsIsCutOff) {
  ASSERT_EQ(Start(16, /*timeout_ms=*/100), absl::OkStatus());
  While([&] {
    const auto silent = ConnectTo(path(), kPatience), slow = ConnectTo(path(), kPatience),
               deaf = ConnectTo(path(), kPatience);
    ASSERT_TRUE(silent.ok() && slow.ok() && deaf.ok());
    EXPECT_EQ(send(slow->get(), "\0\0\0\3i", 5, MSG_NOSIGNAL), 5);
    const std::string big = *EncodeRequest({"big"});  // and never reads what comes of it
    EXPECT_EQ(send(deaf->get(), big.data(), big.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(big.size()));
    EXPECT_TRUE(ClosedWithin(silent->get(), std::chrono::seconds(3)));
    EXPECT_TRUE(ClosedWithin(slow->get(), std::chrono::seconds(3)));
    std::this_thread::sleep_for(milliseconds(300));
    EXPECT_TRUE(Ask(path(), {"ip"}).ok());
  });
  EXPECT_EQ(server_->clients(), 0u);
}

TEST_F(CtlServerTest, ClientsBeyondTheLimitAreClosed) {
  ASSERT_EQ(Start(/*max_clients=*/2), absl::OkStatus());
  While([&] {
    auto a = ConnectTo(path(), kPatience), b = ConnectTo(path(), kPatience);
    ASSERT_TRUE(a.ok() && b.ok());
    std::this_thread::sleep_for(milliseconds(50));
    EXPECT_FALSE(Ask(path(), {"ip"}).ok());
    a->Reset();
    b->Reset();
    std::this_thread::sleep_for(milliseconds(50));
    EXPECT_TRUE(Ask(path(), {"ip"}).ok());
  });
  EXPECT_EQ(server_->refused(), 1u);
}

TEST_F(CtlServerTest, ServerMayEndBeforeItsClients) {
  ASSERT_EQ(Start(), absl::OkStatus());
  const auto fd = ConnectTo(path(), kPatience);
  ASSERT_TRUE(fd.ok());
  for (int i = 0; i < 10; ++i) Turn();
  EXPECT_EQ(server_->clients(), 1u);
  server_.reset();
  for (int i = 0; i < 10; ++i) Turn();
  EXPECT_TRUE(ClosedWithin(fd->get(), std::chrono::seconds(1)));
}

TEST_F(CtlServerTest, ErrorsSayWhatToDo) {
  const auto nobody = Ask(path(), {"ip"});
  EXPECT_THAT(std::string(nobody.status().message()), HasSubstr("no 'tapwire run' answers there"));
  EXPECT_FALSE(Ask(path(), {}).ok());
  EXPECT_EQ(ListenAt("").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ListenAt(std::string(108, 'x')).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(StatusToErrno(ListenAt("/nonexistent/run.sock").status()), ENOENT);
}

}  // namespace
}  // namespace tapwire::apps::ctl
