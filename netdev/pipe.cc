// SPDX-License-Identifier: Apache-2.0
// Sleeping and waking, the part that is easy to get wrong: before an end sleeps it sets `asleep`,
// then looks at the ring once more; a sender publishes its packet, then takes `asleep` away and
// writes the eventfd if it was set. Both pairs are sequentially consistent, so one of them sees the
// other.
#include "netdev/pipe.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/strings/str_cat.h"
#include "netdev/base/status_util.h"
#include "netdev/gro.h"
#include "netdev/packet_copy.h"
#include "netdev/poll.h"
#include "netdev/registry.h"
#include "netdev/tx_path.h"
#include "netdev/virtual_features.h"

namespace tapwire::netdev {
namespace internal {

// One direction: a ring with one producer and one consumer. Slots in [reclaimed, consumed) have
// been copied and wait for the producer to free them; those in [consumed, produced) wait for the
// consumer.
struct PipeLane {
  std::vector<Packet*> slots;
  size_t byte_limit = 0;
  alignas(64) std::atomic<uint64_t> produced{0};
  std::atomic<bool> producer_waits{false};  // its queue is stopped until there is room
  alignas(64) std::atomic<uint64_t> consumed{0};
  // Held by the consumer while it copies and by the producer when it takes everything back to die.
  // Nobody else ever waits for it.
  std::mutex copying;

  uint64_t mask() const { return slots.size() - 1; }
};

struct PipeState {
  std::array<PipeLane, 2> lanes;  // [i]: from end i to end 1 - i
  struct End {
    int event_fd = -1;
    std::atomic<bool> up{false};
    std::atomic<bool> asleep{false};
  };
  std::array<End, 2> ends;

  ~PipeState() {
    for (const End& end : ends) {
      if (end.event_fd >= 0) close(end.event_fd);
    }
  }

  void Kick(int end) {
    ends[static_cast<size_t>(end)].asleep.store(false);
    const uint64_t one = 1;
    // The only failure is a counter at its maximum, which wakes as well.
    static_cast<void>(!write(ends[static_cast<size_t>(end)].event_fd, &one, sizeof(one)));
  }
};

}  // namespace internal

namespace {

// At the end of a burst the sender is woken to free this much; less waits for its next turn.
constexpr uint64_t kReturnPackets = 32;
constexpr uint64_t kReturnBytes = 256 * 1024;

}  // namespace

class PipeDevice final : public NetDevice {
 public:
  PipeDevice(NetContext& context, PipeEnd end, const PipeDeviceOptions& options)
      : NetDevice(context, {.name = options.name, .mac = options.mac, .mtu = options.mtu}),
        state_(std::move(end.state_)),
        self_(static_cast<size_t>(end.index_)),
        rx_(context, *this) {
    if (options.offloads) {
      set_features(kVirtualDeviceFeatures);
      set_hw_features(kVirtualDeviceFeatures);
      set_vlan_features(kVirtualDeviceFeatures);
    }
    SetCarrier(false);
  }

  ~PipeDevice() override {
    internal::PipeLane& lane = out();
    std::lock_guard<std::mutex> lock(lane.copying);
    lane.consumed.store(lane.produced.load());
    Reclaim();
  }

  absl::string_view kind() const override { return "pipe"; }

  std::vector<PollFd> poll_fds() const override {
    if (!is_up()) return {};
    return {{.fd = own().event_fd, .poll = &rx_}};
  }

  void ForEachDriverStat(
      const std::function<void(absl::string_view, uint64_t)>& fn) const override {
    fn("tx_ring_full", ring_full_);
    fn("tx_kicks", kicks_);
    const Gro* const gro = rx_.gro();
    ForEachGroStat({&gro, 1}, fn);
  }

 protected:
  absl::Status OnUp() override {
    // What came while this end was down is old.
    internal::PipeLane& lane = in();
    {
      std::lock_guard<std::mutex> lock(lane.copying);
      lane.consumed.store(lane.produced.load());
    }
    own().up.store(true);
    state_->Kick(peer_index());
    SetCarrier(peer().up.load());
    rx_.Schedule();
    return absl::OkStatus();
  }

  void OnDown() override {
    own().up.store(false);
    state_->Kick(peer_index());
    SetCarrier(false);
    rx_.Unlink();
    Reclaim();
  }

  FeatureSet FeaturesCheck(const Packet& /*packet*/, FeatureSet features) const override {
    return features;
  }

  TxResult StartXmit(PacketPtr packet, bool more) override {
    Reclaim();
    internal::PipeLane& lane = out();
    const uint64_t at = lane.produced.load(std::memory_order_relaxed);
    if (at - reclaimed_ == lane.slots.size()) {
      // Only a caller that ignores the stopped queue gets here.
      DropTx(std::move(packet), DropReason::kTxQueueFull);
      return TxResult::kNoBuffer;
    }
    bytes_ += packet->length();
    lane.slots[at & lane.mask()] = packet.release();
    lane.produced.store(at + 1);
    if (IsFull()) {
      StopUntilRoom();
      more = false;  // a stopped queue makes no further call
    }
    if (!more) WakePeer();
    return TxResult::kSent;
  }

 private:
  class RxPoll final : public PollContext {
   public:
    RxPoll(NetContext& context, PipeDevice& pipe) : PollContext(context, pipe), pipe_(pipe) {}
    int Poll(int budget) override { return pipe_.Receive(budget); }
    void Take(PacketPtr packet) { Deliver(std::move(packet)); }

   private:
    PipeDevice& pipe_;
  };

  internal::PipeLane& out() { return state_->lanes[self_]; }
  internal::PipeLane& in() { return state_->lanes[1 - self_]; }
  internal::PipeState::End& own() const { return state_->ends[self_]; }
  internal::PipeState::End& peer() const { return state_->ends[1 - self_]; }
  int peer_index() const { return static_cast<int>(1 - self_); }

  bool IsFull() {
    return out().produced.load(std::memory_order_relaxed) - reclaimed_ == out().slots.size() ||
           bytes_ >= out().byte_limit;
  }

  // Frees what the peer has passed.
  void Reclaim() {
    internal::PipeLane& lane = out();
    const uint64_t end = lane.consumed.load(std::memory_order_acquire);
    for (; reclaimed_ != end; ++reclaimed_) {
      PacketPtr packet(std::exchange(lane.slots[reclaimed_ & lane.mask()], nullptr));
      bytes_ -= packet->length();
    }
  }

  void StopUntilRoom() {
    ++ring_full_;
    StopTxQueue();
    out().producer_waits.store(true);
    // The peer may have emptied the ring before it could see the flag.
    ResumeIfRoom();
  }

  void ResumeIfRoom() {
    Reclaim();
    if (!tx_queue_stopped() || IsFull()) return;
    out().producer_waits.store(false);
    WakeTxQueue();
  }

  void WakePeer() {
    if (!peer().asleep.exchange(false)) return;
    ++kicks_;
    state_->Kick(peer_index());
  }

  int Receive(int budget) {
    if (std::exchange(slept_, false)) {
      uint64_t ignored = 0;
      static_cast<void>(!read(own().event_fd, &ignored, sizeof(ignored)));
    }
    own().asleep.store(false);
    ResumeIfRoom();
    SetCarrier(peer().up.load());
    const int taken = CopyIn(budget);
    if (taken == budget) return taken;
    // Nothing is left: sleep, unless something came meanwhile.
    slept_ = true;
    own().asleep.store(true);
    if (in().produced.load() != in().consumed.load(std::memory_order_relaxed)) rx_.Schedule();
    return taken;
  }

  int CopyIn(int budget) {
    internal::PipeLane& lane = in();
    int taken = 0;
    {
      std::lock_guard<std::mutex> lock(lane.copying);
      const uint64_t end = lane.produced.load();
      uint64_t at = lane.consumed.load(std::memory_order_relaxed);
      for (; taken < budget && at != end; ++taken) {
        const Packet& packet = *lane.slots[at & lane.mask()];
        passed_bytes_ += packet.length();
        Accept(CopyPacketTo(context().pool(), packet));
        lane.consumed.store(++at, std::memory_order_release);
      }
    }
    passed_packets_ += static_cast<uint64_t>(taken);
    const bool much = passed_packets_ >= kReturnPackets || passed_bytes_ >= kReturnBytes;
    if (lane.producer_waits.exchange(false) || (taken < budget && much)) {
      passed_packets_ = passed_bytes_ = 0;
      state_->Kick(peer_index());
    }
    return taken;
  }

  void Accept(PacketPtr packet) {
    if (packet == nullptr) return DropRx(nullptr, DropReason::kLinkNoBuffer);
    packet->meta.rx_time = context().now();
    if (TxPath::CheckMetadata(*packet, *this) == DropReason::kTxOverMtu) {
      return DropRx(std::move(packet), DropReason::kLinkOverMtu);
    }
    rx_.Take(std::move(packet));
  }

  std::shared_ptr<internal::PipeState> state_;
  size_t self_;
  mutable RxPoll rx_;            // poll_fds() hands it out
  uint64_t reclaimed_ = 0;       // of the outgoing lane
  size_t bytes_ = 0;             // in its slots
  uint64_t passed_packets_ = 0;  // of the incoming lane, since the sender was last woken for them
  uint64_t passed_bytes_ = 0;
  bool slept_ = false;  // the eventfd may be readable
  uint64_t ring_full_ = 0;
  uint64_t kicks_ = 0;
};

absl::StatusOr<std::pair<PipeEnd, PipeEnd>> CreatePipe(const PipeOptions& options) {
  auto state = std::make_shared<internal::PipeState>();
  for (internal::PipeLane& lane : state->lanes) {
    lane.slots.resize(std::bit_ceil(std::max<size_t>(options.ring_packets, 1)));
    lane.byte_limit = std::max<size_t>(options.ring_bytes, 1);
  }
  for (internal::PipeState::End& end : state->ends) {
    end.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (end.event_fd < 0) return ErrnoStatus(errno, "cannot create an eventfd for a pipe");
  }
  return std::pair(PipeEnd(state, 0), PipeEnd(state, 1));
}

absl::StatusOr<NetDevice*> AttachPipe(NetContext& context, PipeEnd end,
                                      const PipeDeviceOptions& options) {
  auto device =
      context.registry().Register(std::make_unique<PipeDevice>(context, std::move(end), options));
  if (!device.ok()) return device.status();
  return *device;
}

}  // namespace tapwire::netdev
