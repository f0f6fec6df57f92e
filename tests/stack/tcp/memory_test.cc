// SPDX-License-Identifier: Apache-2.0
// The packet pool at its budget: every kind of segment that cannot be made is counted and made
// later; nothing hangs, nothing is lost for good.
#include <cerrno>
#include <vector>

#include "netdev/packet/slab_pool.h"
#include "tests/stack/tcp/loss_host.h"

namespace tapwire::testutil {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TcpMemoryTest : public TcpLossTest {
 protected:
  ~TcpMemoryTest() override { all_.clear(); }

  // Takes what the pool has left, and gives it back.
  void Exhaust() {
    net->TakeSent();
    for (const SlabClass slabs : {SlabClass::kJumbo, SlabClass::kLarge, SlabClass::kSmall}) {
      for (SlabRef slab = pool().AllocateSlab(slabs); slab; slab = pool().AllocateSlab(slabs)) {
        all_.push_back(std::move(slab));
      }
    }
    EXPECT_EQ(pool().AllocatePacket(0), nullptr);
  }
  void Free() { all_.clear(); }
  SlabPool& pool() { return net->context().pool(); }
  uint64_t errors() { return stack->mib().tcp.out_errors.value(); }

  std::vector<SlabRef> all_;
};
INSTANTIATE_TEST_SUITE_P(Families, TcpMemoryTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         FamilyName);

TEST_P(TcpMemoryTest, SynIsSentByItsTimer) {
  Start();
  Exhaust();
  auto c = tcp().Connect({host(), kHostPort, 0}, {peer(), kPeerPort, 0}, {}, &observer_);
  ASSERT_TRUE(c.ok());
  net->Run();
  EXPECT_THAT(TakeText(), IsEmpty());
  EXPECT_EQ(errors(), 1u);
  Free();
  net->Advance(seconds(1));
  EXPECT_THAT(TakeText(), ElementsAre("S 0:0(0)"));
  Send({.flags = "SA", .seq = 0, .ack = 1});
  EXPECT_EQ(observer_.connected, 1);
  Reset(*c);
}

TEST_P(TcpMemoryTest, WriterIsToldAndDataKeptFromBeforeIsSent) {
  Start();
  tcp::Connection* c = Open(true);
  EXPECT_EQ(c->SendCopy(Pattern(3000)), 3000u);  // queued, not sent yet
  Exhaust();
  EXPECT_LT(c->SendCopy(Pattern(100'000)), 20'000u);  // what the last slab had left
  EXPECT_EQ(c->SendCopy(Pattern(1)), 0u);
  EXPECT_EQ(c->send_space(), 0u) << "there will be room once what is queued was acknowledged";
  EXPECT_FALSE(c->is_starved());
  net->Run();
  EXPECT_THAT(TakeText(), IsEmpty());
  EXPECT_GE(errors(), 1u);
  const uint64_t before = errors();
  net->Advance(seconds(10));
  EXPECT_LE(errors() - before, 60u) << "no busy loop";
  Free();
  net->Advance(minutes(1));
  const auto sent = TakeText();
  ASSERT_GE(sent.size(), 3u);
  EXPECT_EQ(sent[0], Seg(1));
  EXPECT_EQ(sent[1], Seg(2));
  EXPECT_EQ(observer_.gone, 0);
  Reset(c);
}

TEST_P(TcpMemoryTest, RetransmissionWaitsForMemory) {
  Start();
  tcp::Connection* c = Open(true);
  WriteSegments(*c, 2);
  Exhaust();
  net->Advance(seconds(2));
  EXPECT_THAT(TakeText(), IsEmpty());
  EXPECT_GE(errors(), 1u);
  EXPECT_EQ(observer_.gone, 0);
  Free();
  net->Advance(seconds(4));
  const auto sent = TakeText();
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent[0], Seg(1));
  Send({.ack = After(2)});
  Reset(c);
}

TEST_P(TcpMemoryTest, FinIsSentWhenThereIsMemory) {
  Start();
  tcp::Connection* c = Open(true);
  Exhaust();
  c->ShutdownWrite();
  net->Run();
  EXPECT_THAT(TakeText(), IsEmpty());
  net->Advance(seconds(1));
  Free();
  net->Advance(minutes(1));
  const auto sent = TakeText();
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent[0], "FA 1:1(0) ack 1");
  Reset(c);
}

TEST_P(TcpMemoryTest, OrphanEndsWithoutMemory) {
  Start();
  tcp::Connection* c = Open(true);
  Exhaust();
  c->Release();
  net->Run();
  net->Advance(std::chrono::hours(1));
  EXPECT_EQ(tcp().connection_count(), 0u);
  EXPECT_EQ(tcp().orphan_count(), 0u);
  Free();
}

TEST_P(TcpMemoryTest, ResetThatCannotBeSentStillEndsTheConnection) {
  Start();
  tcp::Connection* c = Open(true);
  Write(*c, 5000);
  Exhaust();
  c->Abort();
  net->Run();
  EXPECT_EQ(tcp().connection_count(), 0u);
  EXPECT_EQ(errors(), 1u);
  Free();
}

TEST_P(TcpMemoryTest, DelayedAcknowledgmentIsSentLater) {
  tcp::Config config = Plain();
  config.quick_acks = 0;
  Start(config);
  tcp::Connection* c = Open(true);
  Send({.payload = Pattern(10)});
  Exhaust();
  net->Advance(milliseconds(100));
  EXPECT_THAT(TakeText(), IsEmpty());
  Free();
  net->Advance(milliseconds(100));
  EXPECT_THAT(TakeText(), ElementsAre("A 1:1(0) ack 11"));
  Reset(c);
}

TEST_P(TcpMemoryTest, ProbesGoOnWhenThereIsMemory) {
  Start();
  tcp::Connection* c = Open(true, 0);
  EXPECT_EQ(c->SendCopy(Pattern(100)), 100u);
  net->Run();
  Exhaust();
  net->Advance(seconds(5));
  EXPECT_THAT(TakeText(), IsEmpty());
  Free();
  net->Advance(seconds(30));
  EXPECT_THAT(TakeText(), ::testing::Contains("A 0:0(0) ack 1"));
  Send({.window = 1000});
  EXPECT_THAT(TakeText(), ElementsAre("PA 1:101(100) ack 1"));
  Reset(c);
}

// A pool that is full for a while, again and again, while data goes both ways.
TEST_P(TcpMemoryTest, TransferSurvivesSpellsWithoutMemory) {
  Start();
  tcp::Connection* c = Open(true);
  const ByteVector data = Pattern(60'000);
  size_t queued = 0;
  ByteVector got;
  uint32_t next = 1;
  for (int round = 0; round < 2000 && got.size() < data.size(); ++round) {
    if (round % 3 == 0) {
      Exhaust();
      net->Advance(milliseconds(300));
      Free();
    }
    queued +=
        c->SendCopy(std::span(data).subspan(queued, std::min<size_t>(5000, data.size() - queued)));
    net->Advance(milliseconds(300));
    for (const SentSegment& s : Take()) {
      if (s.seq != next) continue;
      got.insert(got.end(), s.payload.begin(), s.payload.end());
      next += static_cast<uint32_t>(s.length);
    }
    Send({.ack = next});
  }
  EXPECT_EQ(got, data);
  EXPECT_EQ(observer_.gone, 0);
  Take();
  Reset(c);
}

}  // namespace
}  // namespace tapwire::testutil
