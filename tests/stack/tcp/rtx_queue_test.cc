// SPDX-License-Identifier: Apache-2.0
// RtxQueue against a model with one entry for each sequence number, in which every definition of
// RFC 6675 is spelled out byte by byte.
#include "stack/tcp/rtx_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <random>
#include <vector>

namespace tapwire::tcp {
namespace {

using std::chrono::milliseconds;

constexpr uint32_t kSmss = 1000;

Time At(int64_t ms) { return Time(milliseconds(ms)); }

SentRange Sent(Seq seq, uint32_t length, int64_t ms = 0) {
  SentRange range;
  range.seq = seq;
  range.length = length;
  range.xmit_time = At(ms);
  return range;
}

// Sends `count` segments of one SMSS each, one a millisecond.
void SendSegments(RtxQueue& queue, Seq start, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) queue.OnSent(Sent(start + i * kSmss, kSmss, i));
}

uint32_t SackOnly(RtxQueue& queue, Seq left, Seq right) {
  RtxQueue::AckResult ignored;
  return queue.Sack(left, right, ignored);
}

// The ranges that wait to be sent again, each taken as sent.
std::vector<Seq> ResendAll(RtxQueue& queue, Time now) {
  std::vector<Seq> sent;
  while (const SentRange* range = queue.NextLost()) {
    const SentRange copy = *range;
    sent.push_back(copy.seq);
    queue.OnResent(copy.seq, copy.length, now);
    if (sent.size() > 10000) break;
  }
  return sent;
}

TEST(TcpRtxQueueTest, EmptyQueueDoesNothing) {
  RtxQueue queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.Ack(Seq(5)).acked_bytes, 0U);
  EXPECT_EQ(SackOnly(queue, Seq(1), Seq(9)), 0U);
  EXPECT_EQ(queue.DetectLost(kSmss), 0U);
  EXPECT_EQ(queue.MarkFirstLost(kSmss), 0U);
  queue.MarkAllLost(true);
  EXPECT_EQ(queue.NextLost(), nullptr);
  EXPECT_EQ(queue.Find(Seq(0)), nullptr);
  queue.OnResent(Seq(0), 10, At(1));
  queue.OnSent(Sent(Seq(0), 0));
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.pipe(), 0U);
}

TEST(TcpRtxQueueTest, SynAndFinTakeOneNumberEach) {
  RtxQueue queue;
  SentRange syn = Sent(Seq(100), 1);
  syn.syn = true;
  queue.OnSent(syn);
  SentRange last = Sent(Seq(101), 11);  // ten bytes and a FIN
  last.fin = true;
  queue.OnSent(last);
  EXPECT_EQ(queue.total(), 12U);
  EXPECT_TRUE(queue.front().syn);
  EXPECT_EQ(queue.Ack(Seq(101)).acked_bytes, 1U);
  EXPECT_FALSE(queue.front().syn);
  queue.Ack(Seq(105));
  EXPECT_TRUE(queue.front().fin);
  EXPECT_EQ(queue.front().length, 7U);
  SackOnly(queue, Seq(107), Seq(109));
  ASSERT_EQ(queue.range_count(), 3U);
  EXPECT_FALSE(queue.front().fin);
  EXPECT_FALSE(queue.Find(Seq(108))->fin);
  EXPECT_TRUE(queue.back().fin);  // the FIN is the last number only
  EXPECT_EQ(queue.Ack(Seq(112)).newly_delivered, 5U);
  EXPECT_TRUE(queue.empty());
}

// Karn's rule, and which of several send times counts.
TEST(TcpRtxQueueTest, SampleIsTheLatestSendTimeOfWhatWasSentOnce) {
  RtxQueue queue;
  SendSegments(queue, Seq(0), 5);
  RtxQueue::AckResult result = queue.Ack(Seq(2500));
  EXPECT_TRUE(result.has_sample);
  EXPECT_EQ(result.xmit_time, At(2));
  EXPECT_FALSE(result.retransmitted);
  EXPECT_EQ(result.acked_bytes, 2500U);

  queue.OnResent(Seq(2500), 500, At(50));
  EXPECT_EQ(queue.oldest_xmit_time(), At(50));
  result = queue.Ack(Seq(3000));
  EXPECT_FALSE(result.has_sample);
  EXPECT_TRUE(result.retransmitted);

  RtxQueue::AckResult sacked;
  EXPECT_EQ(queue.Sack(Seq(4000), Seq(5000), sacked), 1000U);
  EXPECT_EQ(sacked.xmit_time, At(4));
  EXPECT_EQ(sacked.newly_delivered, 1000U);
  EXPECT_EQ(queue.Sack(Seq(4000), Seq(5000), sacked), 0U);
  result = queue.Ack(Seq(5000));
  EXPECT_EQ(result.acked_bytes, 2000U);
  EXPECT_EQ(result.newly_delivered, 1000U);
  EXPECT_EQ(result.xmit_time, At(3));  // the SACKed one gave its sample before
}

// RFC 6675 §4 IsLost and SetPipe, by hand: ten segments, the first and the fourth are lost.
// Covers: rfc:SACK-07
TEST(TcpRtxQueueTest, LossByBytesAbove) {
  RtxQueue queue;
  SendSegments(queue, Seq(0), 10);
  SackOnly(queue, Seq(1000), Seq(3000));
  EXPECT_EQ(queue.DetectLost(kSmss), 0U);  // exactly 2 * SMSS is not more
  SackOnly(queue, Seq(4000), Seq(4001));
  EXPECT_EQ(queue.DetectLost(kSmss), 1000U);
  EXPECT_TRUE(queue.Find(Seq(0))->lost);
  EXPECT_FALSE(queue.Find(Seq(3000))->lost);
  EXPECT_EQ(queue.pipe(), 10000U - 2001 - 1000);
  SackOnly(queue, Seq(4000), Seq(6001));
  EXPECT_EQ(queue.DetectLost(kSmss), 1000U);
  EXPECT_EQ(queue.pipe(), 10000U - 4001 - 2000);
  EXPECT_EQ(ResendAll(queue, At(100)), (std::vector<Seq>{Seq(0), Seq(3000)}));
  EXPECT_EQ(queue.pipe(), 10000U - 4001);
  EXPECT_EQ(queue.DetectLost(kSmss), 0U);
}

// The other half of IsLost: three SACKed runs that do not touch, however short.
// Covers: rfc:SACK-07
TEST(TcpRtxQueueTest, LossByRunsAbove) {
  RtxQueue queue;
  SendSegments(queue, Seq(0), 10);
  SackOnly(queue, Seq(8000), Seq(8010));
  SackOnly(queue, Seq(6000), Seq(6010));
  EXPECT_EQ(queue.DetectLost(kSmss), 0U);
  SackOnly(queue, Seq(6010), Seq(6020));  // touches: no third run
  EXPECT_EQ(queue.DetectLost(kSmss), 0U);
  SackOnly(queue, Seq(4000), Seq(4010));
  EXPECT_EQ(queue.DetectLost(kSmss), 4000U);  // what lies below the third run
  EXPECT_FALSE(queue.Find(Seq(4010))->lost);
}

// Covers: bug:B34
TEST(TcpRtxQueueTest, ThreeHundredDuplicateAcksResendOnce) {
  RtxQueue queue;
  SendSegments(queue, Seq(0), 301);
  size_t resent = 0;
  for (uint32_t i = 1; i <= 300; ++i) {
    EXPECT_EQ(SackOnly(queue, Seq(1000), Seq((i + 1) * 1000)), 1000U);
    queue.DetectLost(kSmss);
    resent += ResendAll(queue, At(1000)).size();
  }
  EXPECT_EQ(resent, 1U);
  EXPECT_EQ(queue.pipe(), 1000U);

  RtxQueue without_sack;
  SendSegments(without_sack, Seq(0), 301);
  EXPECT_EQ(without_sack.MarkFirstLost(kSmss), 1000U);
  resent = 0;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(without_sack.MarkFirstLost(kSmss), 0U);
    resent += ResendAll(without_sack, At(1000)).size();
  }
  EXPECT_EQ(resent, 1U);
}

TEST(TcpRtxQueueTest, TransmissionCountSaturates) {
  RtxQueue queue;
  queue.OnSent(Sent(Seq(0), 10));
  for (int i = 0; i < 600; ++i) queue.OnResent(Seq(0), 10, At(i));
  EXPECT_EQ(queue.front().transmissions, 255);
  EXPECT_TRUE(queue.Ack(Seq(10)).retransmitted);
}

TEST(TcpRtxQueueTest, PartialAckMarksTheNextHole) {
  RtxQueue queue;
  SendSegments(queue, Seq(0), 3);
  queue.OnSent(Sent(Seq(3000), 64000, 3));  // one super-packet
  queue.Ack(Seq(3500));
  EXPECT_EQ(queue.MarkFirstLost(kSmss), 1000U);
  EXPECT_EQ(queue.range_count(), 2U);
  EXPECT_EQ(queue.NextLost()->seq, Seq(3500));
  EXPECT_EQ(queue.NextLost()->length, 1000U);
  EXPECT_EQ(queue.pipe(), 62500U);
  queue.OnResent(Seq(3500), 400, At(9));  // smaller than asked: the rest still waits
  EXPECT_EQ(queue.NextLost()->seq, Seq(3900));
  EXPECT_EQ(queue.NextLost()->length, 600U);
  EXPECT_EQ(queue.pipe(), 62900U);
}

TEST(TcpRtxQueueTest, TimeoutMarksAllButWhatIsSacked) {
  for (const bool forget : {false, true}) {
    RtxQueue queue;
    SendSegments(queue, Seq(0), 6);
    SackOnly(queue, Seq(2000), Seq(5000));
    queue.DetectLost(kSmss);
    ResendAll(queue, At(20));
    queue.MarkAllLost(forget);
    EXPECT_EQ(queue.sacked(), forget ? 0U : 3000U);
    EXPECT_EQ(queue.lost(), forget ? 6000U : 3000U);
    EXPECT_EQ(queue.pipe(), 0U);
    EXPECT_EQ(queue.highest_sacked(), forget ? Seq(0) : Seq(5000));
    EXPECT_EQ(ResendAll(queue, At(30)).size(), forget ? 6U : 3U);
    // What is sent from now on is watched as before.
    for (uint32_t i = 6; i < 10; ++i) queue.OnSent(Sent(Seq(i * kSmss), kSmss, 40));
    SackOnly(queue, Seq(7000), Seq(10000));
    EXPECT_EQ(queue.DetectLost(kSmss), 1000U);
    EXPECT_TRUE(queue.Find(Seq(6000))->lost);
  }
}

// Covers: bug:B40
TEST(TcpRtxQueueTest, HolesOnBothSidesOfTheWrap) {
  RtxQueue queue;
  const Seq start(0xffffffff - 4499);  // 4500 before zero
  SendSegments(queue, start, 10);
  // Lost: 1000 to 2000 before the wrap, the segment across it, 1000 behind.
  EXPECT_EQ(SackOnly(queue, start + 2000, start + 4000), 2000U);
  EXPECT_EQ(SackOnly(queue, start + 5000, start + 6000), 1000U);
  EXPECT_EQ(SackOnly(queue, start + 7000, start + 10000), 3000U);
  EXPECT_EQ(queue.highest_sacked(), start + 10000);
  EXPECT_EQ(queue.DetectLost(kSmss), 4000U);
  EXPECT_EQ(ResendAll(queue, At(1)),
            (std::vector<Seq>{start, start + 1000, start + 4000, start + 6000}));
  EXPECT_EQ(queue.Ack(start + 4600).acked_bytes, 4600U);
  EXPECT_EQ(queue.front().seq, Seq(100));
  EXPECT_EQ(queue.Ack(start + 10000).acked_bytes, 5400U);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.highest_sacked(), start + 10000);
}

// A connection that never drains: marks from gigabytes ago must not be taken for the future.
TEST(TcpRtxQueueTest, MarksSurviveMoreThanHalfTheSequenceSpace) {
  constexpr uint32_t kChunk = 1U << 24;
  RtxQueue queue;
  queue.OnSent(Sent(Seq(0), kSmss));
  queue.MarkFirstLost(kSmss);
  ResendAll(queue, At(1));
  Seq next(kSmss);
  for (int i = 0; i < 200; ++i) {  // 3.1 GiB
    queue.OnSent(Sent(next, kChunk));
    next += kChunk;
    queue.Ack(next - 1U);
  }
  queue.OnSent(Sent(next, 4 * kSmss));
  SackOnly(queue, next + kSmss, next + 4 * kSmss);
  EXPECT_EQ(queue.DetectLost(kSmss), kSmss + 1);
  EXPECT_EQ(ResendAll(queue, At(2)), (std::vector<Seq>{next - 1U, next}));
}

// Covers: rfc:SACK-06
TEST(TcpRtxQueueTest, NonsenseBlocksAreIgnored) {
  RtxQueue queue;
  SendSegments(queue, Seq(5000), 5);
  for (const auto& [left, right] :
       std::vector<std::pair<uint32_t, uint32_t>>{{6000, 6000},
                                                  {7000, 6000},
                                                  {1000, 5000},
                                                  {10000, 20000},
                                                  {0x90000000, 0xa0000000},
                                                  {0x80001000, 0x80002000}}) {
    EXPECT_EQ(SackOnly(queue, Seq(left), Seq(right)), 0U) << left;
  }
  EXPECT_EQ(queue.range_count(), 5U);
  EXPECT_EQ(SackOnly(queue, Seq(9500), Seq(70000)), 500U);  // the part outside is ignored
  EXPECT_EQ(SackOnly(queue, Seq(1), Seq(5100)), 100U);
  EXPECT_EQ(queue.sacked(), 600U);
}

// A peer that acknowledges every other byte gets no list of that length.
// Covers: rfc:SACK-08
TEST(TcpRtxQueueTest, NumberOfCutsIsBounded) {
  RtxQueue queue;
  queue.OnSent(Sent(Seq(0), 100000));
  for (uint32_t i = 0; i < 40000; ++i) SackOnly(queue, Seq(2 * i + 1), Seq(2 * i + 2));
  EXPECT_LE(queue.range_count(), RtxQueue::kMaxRangesToCut + 2);
  EXPECT_GT(queue.sacked(), 4000U);
  // Whole ranges are still taken, and everything else goes on.
  const SentRange last = queue.back();
  EXPECT_EQ(SackOnly(queue, last.seq, last.end()), last.length);
  EXPECT_EQ(queue.MarkFirstLost(1), 1U);
  queue.MarkAllLost(true);
  queue.OnResent(queue.front().seq, 1, At(1));
  EXPECT_EQ(queue.Ack(Seq(100000)).acked_bytes, 100000U);
  EXPECT_TRUE(queue.empty());
}

// ---- Against the model ----

struct Number {
  uint8_t transmissions = 1;
  Time xmit_time{};
  bool sacked = false;
  bool lost = false;
  bool resent = false;
  bool syn = false;
  bool fin = false;
};

class Model {
 public:
  explicit Model(Seq start) : una(start) {}

  Seq end() const { return una + static_cast<uint32_t>(numbers.size()); }

  static void Deliver(const Number& n, RtxQueue::AckResult& result) {
    if (n.sacked) return;
    ++result.newly_delivered;
    if (n.transmissions > 1) {
      result.retransmitted = true;
      return;
    }
    result.xmit_time = result.has_sample ? std::max(result.xmit_time, n.xmit_time) : n.xmit_time;
    result.has_sample = true;
  }
  RtxQueue::AckResult Ack(Seq to) {
    RtxQueue::AckResult result;
    while (una < to && !numbers.empty()) {
      Deliver(numbers.front(), result);
      ++result.acked_bytes;
      numbers.pop_front();
      una += 1;
    }
    return result;
  }
  uint32_t Sack(Seq left, Seq right, RtxQueue::AckResult& result) {
    uint32_t added = 0;
    for (uint32_t i = 0; i < numbers.size(); ++i) {
      Number& n = numbers[i];
      if (n.sacked || una + i < left || una + i >= right) continue;
      Deliver(n, result);
      n.sacked = true;
      n.lost = n.resent = false;
      ++added;
    }
    return added;
  }
  // RFC 6675 §4, IsLost(SeqNum), for each number by itself.
  uint32_t DetectLost(uint32_t smss) {
    uint32_t marked = 0;
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i].sacked || numbers[i].lost) continue;
      uint32_t bytes = 0;
      int runs = 0;
      for (size_t k = i + 1; k < numbers.size(); ++k) {
        if (!numbers[k].sacked) continue;
        ++bytes;
        if (!numbers[k - 1].sacked) ++runs;
      }
      if (runs < 3 && bytes <= 2 * smss) break;  // nor is anything above
      numbers[i].lost = true;
      ++marked;
    }
    return marked;
  }
  template <typename Predicate>
  std::optional<uint32_t> First(Predicate&& predicate) const {
    const auto it = std::find_if(numbers.begin(), numbers.end(), predicate);
    if (it == numbers.end()) return std::nullopt;
    return static_cast<uint32_t>(it - numbers.begin());
  }
  template <typename Predicate>
  uint32_t Count(Predicate&& predicate) const {
    return static_cast<uint32_t>(std::count_if(numbers.begin(), numbers.end(), predicate));
  }

  Seq una;
  std::deque<Number> numbers;
};

void ExpectSameResult(const RtxQueue::AckResult& a, const RtxQueue::AckResult& b) {
  ASSERT_EQ(a.acked_bytes, b.acked_bytes);
  ASSERT_EQ(a.newly_delivered, b.newly_delivered);
  ASSERT_EQ(a.has_sample, b.has_sample);
  ASSERT_EQ(a.xmit_time, b.xmit_time);
  ASSERT_EQ(a.retransmitted, b.retransmitted);
}

class TcpRtxQueueModelTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  static constexpr uint32_t kSmallSmss = 20;

  uint32_t Pick(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  void Send() {
    if (model_.numbers.size() > 350) return;
    SentRange range = Sent(model_.end(), 1 + Pick(Pick(5) == 0 ? 200 : 25), now_);
    range.syn = Pick(20) == 0;
    range.fin = Pick(20) == 0;
    queue_.OnSent(range);
    for (uint32_t i = 0; i < range.length; ++i) {
      Number n;
      n.xmit_time = range.xmit_time;
      n.syn = range.syn && i == 0;
      n.fin = range.fin && i + 1 == range.length;
      model_.numbers.push_back(n);
    }
  }
  void Ack() {
    const uint32_t size = static_cast<uint32_t>(model_.numbers.size());
    const Seq to = Pick(30) == 0 ? model_.end() : model_.una + Pick(size / 3 + 1) - Pick(3);
    ExpectSameResult(queue_.Ack(to), model_.Ack(to));
  }
  void Sack() {
    const Seq left = model_.una + Pick(static_cast<uint32_t>(model_.numbers.size()) + 10) - Pick(9);
    const Seq right = left + Pick(60);
    RtxQueue::AckResult a;
    RtxQueue::AckResult b;
    ASSERT_EQ(queue_.Sack(left, right, a), model_.Sack(left, right, b));
    ExpectSameResult(a, b);
  }
  void MarkFirst() {
    const uint32_t limit = Pick(30);
    const auto first = model_.First([](const Number& n) { return !n.sacked; });
    uint32_t expected = 0;
    if (first && !model_.numbers[*first].lost) {
      const SentRange* range = queue_.Find(model_.una + *first);
      ASSERT_NE(range, nullptr);
      expected = std::min(range->length, limit);
      for (uint32_t i = 0; i < expected; ++i) model_.numbers[*first + i].lost = true;
    }
    ASSERT_EQ(queue_.MarkFirstLost(limit), expected);
  }
  void MarkAll() {
    const bool forget = Pick(2) == 0;
    queue_.MarkAllLost(forget);
    for (Number& n : model_.numbers) {
      n.sacked = n.sacked && !forget;
      n.lost = !n.sacked;
      n.resent = false;
    }
  }
  void Resend() {
    const SentRange* next = queue_.NextLost();
    if (next == nullptr) return;
    Resent(next->seq, Pick(2) == 0 ? next->length : 1 + Pick(next->length + 20));
  }
  void Probe() {
    Resent(model_.una + Pick(static_cast<uint32_t>(model_.numbers.size()) + 5) - Pick(5), Pick(40));
  }
  void Resent(Seq seq, uint32_t length) {
    queue_.OnResent(seq, length, At(now_));
    for (uint32_t i = 0; i < model_.numbers.size(); ++i) {
      Number& n = model_.numbers[i];
      if (n.sacked || model_.una + i < seq || model_.una + i >= seq + length) continue;
      if (n.transmissions < 255) ++n.transmissions;
      n.xmit_time = At(now_);
      n.resent = n.lost;
    }
  }

  void ExpectSame() {
    const auto& numbers = model_.numbers;
    ASSERT_EQ(queue_.empty(), numbers.empty());
    ASSERT_EQ(queue_.total(), numbers.size());
    ASSERT_EQ(queue_.sacked(), model_.Count([](const Number& n) { return n.sacked; }));
    ASSERT_EQ(queue_.lost(), model_.Count([](const Number& n) { return n.lost; }));
    ASSERT_EQ(queue_.resent(), model_.Count([](const Number& n) { return n.resent; }));
    // RFC 6675 §4, SetPipe: one for what is neither SACKed nor lost, one for what was sent again.
    ASSERT_EQ(queue_.pipe(),
              model_.Count([](const Number& n) { return !n.sacked && (!n.lost || n.resent); }));
    const auto waiting = model_.First([](const Number& n) { return n.lost && !n.resent; });
    const SentRange* next = queue_.NextLost();
    ASSERT_EQ(next != nullptr, waiting.has_value());
    if (waiting) {
      ASSERT_EQ(next->seq, model_.una + *waiting);
    }
    Seq highest = model_.una;
    for (uint32_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i].sacked) highest = model_.una + i + 1;
    }
    ASSERT_EQ(queue_.highest_sacked(), highest);
    ExpectSameRanges();
  }
  void ExpectSameRanges() {
    size_t count = 0;
    Seq seq = model_.una;
    for (; seq < model_.end(); ++count) {
      const SentRange* range = queue_.Find(seq);
      ASSERT_NE(range, nullptr);
      ASSERT_EQ(range->seq, seq);
      for (uint32_t i = 0; i < range->length; ++i) {
        const Number& n = model_.numbers[static_cast<size_t>(seq - model_.una) + i];
        ASSERT_EQ(range->sacked, n.sacked);
        ASSERT_EQ(range->lost, n.lost);
        ASSERT_EQ(range->resent, n.resent);
        ASSERT_EQ(range->transmissions, n.transmissions);
        ASSERT_EQ(range->xmit_time, n.xmit_time);
        ASSERT_EQ(range->syn && i == 0, n.syn);
        ASSERT_EQ(range->fin && i + 1 == range->length, n.fin);
      }
      seq = range->end();
    }
    ASSERT_EQ(seq, model_.end());
    ASSERT_EQ(queue_.range_count(), count);
    ASSERT_EQ(queue_.Find(model_.una - 1U), nullptr);
    ASSERT_EQ(queue_.Find(model_.end()), nullptr);
    if (count > 0) {
      ASSERT_EQ(queue_.front().seq, model_.una);
      ASSERT_EQ(queue_.back().end(), model_.end());
      ASSERT_EQ(queue_.oldest_xmit_time(), model_.numbers.front().xmit_time);
    }
  }

  std::mt19937 random_{GetParam()};
  int64_t now_ = 1;
  RtxQueue queue_;
  Model model_{Seq(0xffffffff - 1000)};
};

// Covers: rfc:SACK-07, bug:B40
TEST_P(TcpRtxQueueModelTest, RandomOperationsAgree) {
  Send();
  for (int step = 0; step < 3000; ++step) {
    now_ += Pick(3);
    const uint32_t operation = Pick(100);
    if (operation < 30) {
      Send();
    } else if (operation < 42) {
      Ack();
    } else if (operation < 65) {
      Sack();
    } else if (operation < 78) {
      ASSERT_EQ(queue_.DetectLost(kSmallSmss), model_.DetectLost(kSmallSmss)) << step;
    } else if (operation < 83) {
      MarkFirst();
    } else if (operation < 84) {
      MarkAll();
    } else if (operation < 95) {
      Resend();
    } else {
      Probe();
    }
    ExpectSame();
    if (HasFatalFailure()) FAIL() << "seed " << GetParam() << " step " << step;
  }
  EXPECT_LT(model_.una, Seq(0x80000000));  // it went across zero
}

INSTANTIATE_TEST_SUITE_P(Seeds, TcpRtxQueueModelTest, ::testing::Range(1U, 7U));

}  // namespace
}  // namespace tapwire::tcp
