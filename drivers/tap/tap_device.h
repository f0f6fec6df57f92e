// SPDX-License-Identifier: Apache-2.0
//
// TapDevice: the wire between this process and the kernel of the same machine. What the device
// sends the kernel receives on its interface, and the other way round, with checksums and
// segmentation left undone where both ends agree on it (virtio-net header).
//
//   absl::StatusOr<std::unique_ptr<TapDevice>> tap = TapDevice::Open(context, {.name = "tw0"});
//   absl::StatusOr<TapDevice*> device = context.registry().Register(*std::move(tap));
//   absl::Status up = (*device)->Up();
//
// The kernel's end has a MAC address of its own; mac() is that of our end. The link has carrier
// while the kernel's end is up.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "drivers/tap/tap_io.h"
#include "drivers/tap/tap_link.h"
#include "drivers/tap/tap_queue.h"
#include "drivers/tap/user_namespace.h"
#include "netdev/device.h"

namespace tapwire::drivers {

// Where the TAP comes from: `userns`, else `fd`, else `fd_socket`, else `name` alone; more than one
// of the first three is an error.
struct TapOptions {
  // Interface name of the kernel's end, and name of the device. Created if there is none and we
  // may, attached to otherwise. Empty: chosen by the kernel, or that of the descriptor.
  std::string name = {};
  std::string device_path = kDefaultTapNode;
  std::optional<int> fd = {};  // an opened descriptor, ours from now on; made with IFF_NO_PI
  std::string fd_socket = {};  // path of a UNIX socket that hands out descriptors, one per queue
  bool userns = false;         // in a user and network namespace of its own; needs no privilege
  MacAddress mac = {};         // of our end; zero: random
  uint32_t mtu = 0;            // of both ends, 68 to 65521; 0: that of the kernel's end
  size_t queues = 1;
  bool csum = true;  // false: no offload in either direction, and every checksum is verified
  bool tso = true;
  bool uso = true;
  bool persist = false;  // the interface stays when the last descriptor is closed
  // Set up on the kernel's end, which is then brought up. Needs CAP_NET_ADMIN, except with
  // `userns`.
  std::vector<IpPrefix> kernel_addrs = {};
};

class TapDevice final : public netdev::NetDevice {
 public:
  static constexpr uint32_t kMaxMtu = 65'521;  // Linux: 65535 less the Ethernet header

  // Opens and configures; the device still has to be registered. The message of an error names the
  // file or interface, the errno and the remedy.
  static absl::StatusOr<std::unique_ptr<TapDevice>> Open(netdev::NetContext& context,
                                                         const TapOptions& options);
  // A device on a link that is there already. `io` is for tests; null stands for the system calls.
  static absl::StatusOr<std::unique_ptr<TapDevice>> Create(netdev::NetContext& context,
                                                           TapLink link, const TapOptions& options,
                                                           std::unique_ptr<TapIo> io = nullptr);
  ~TapDevice() override;

  absl::string_view kind() const override { return "tap"; }
  std::vector<netdev::PollFd> poll_fds() const override;
  void ForEachDriverStat(
      const std::function<void(absl::string_view, uint64_t)>& visitor) const override;

  const MacAddress& kernel_mac() const { return link_.kernel_mac; }
  size_t queue_count() const { return queues_.size(); }
  const TapOffloads& rx_offloads() const { return rx_offloads_; }
  const TapStats& tap_stats() const { return tap_stats_; }
  // How often the kernel answered a write with this errno.
  uint64_t write_errors(int err) const;
  // The process that holds the user namespace; 0 without one.
  pid_t userns_holder() const { return userns_ == nullptr ? 0 : userns_->holder_pid(); }
  // Becomes readable when that process ends before the device, after which no other program can
  // enter the namespace; the TAP itself works on. -1 without one. Owned by the device.
  int userns_watch_fd() const { return userns_ == nullptr ? -1 : userns_->watch_fd(); }

  // The interface was removed while in use. The device has gone down for good.
  bool gone() const { return gone_; }
  // Called once, after the batch in which that was found. One at a time.
  void SetGoneCallback(absl::AnyInvocable<void(const absl::Status&)> callback) {
    gone_callback_ = std::move(callback);
  }

 protected:
  absl::Status OnUp() override;
  void OnDown() override;
  absl::Status OnSetMac(const MacAddress& mac) override;
  netdev::FeatureSet FixFeatures(netdev::FeatureSet wanted) override { return wanted & ~refused_; }
  absl::StatusOr<FeatureOutcome> SetFeatures(netdev::FeatureSet features) override;
  netdev::TxResult StartXmit(PacketPtr packet, bool more) override;

 private:
  friend class TapQueue;

  // Refusals of one kind of offload after which it is switched off until the link comes up again.
  static constexpr int kRefusalLimit = 4;
  // Read errors in a row, none of them known, after which the TAP counts as gone.
  static constexpr int kReadErrorLimit = 16;

  struct Refusals {
    netdev::Feature feature;
    int count = 0;
    bool logged = false;
  };

  TapDevice(netdev::NetContext& context, Init init, TapLink link, const TapOptions& options,
            std::unique_ptr<TapIo> io);
  void ClaimFeatures();
  VnetRxPolicy rx_policy() const {
    return {.trust_data_valid = features().Has(netdev::Feature::kRxCsum),
            .tcp = rx_offloads_.tso,
            .udp = rx_offloads_.uso};
  }

  // Queue side. BeforePoll() does the work that must not be done inside StartXmit; false: nothing
  // is to be read.
  bool BeforePoll();
  void OnReadError(int err);

  void ScheduleLinkWork();
  void CheckLink();
  void Probe();
  void MarkGone(const absl::Status& why);

  TapQueue& QueueFor(const Packet& packet);
  netdev::TxResult HandleWriteError(PacketPtr packet, TapQueue& queue, int err);
  netdev::TxResult SendWithoutOffload(PacketPtr packet, TapQueue& queue, int err);
  netdev::TxResult SendSegmented(PacketPtr packet, TapQueue& queue, int err);
  netdev::TxResult SendChecksummed(PacketPtr packet, TapQueue& queue, int err);
  void NoteRefusal(netdev::Feature feature, int err);
  void CountWriteError(int err);

  TapLink link_;
  std::unique_ptr<UserNamespace> userns_;
  std::unique_ptr<TapIo> io_;
  const bool allow_csum_;
  const bool allow_tso_;
  const bool allow_uso_;
  std::vector<std::unique_ptr<TapQueue>> queues_;
  TapOffloads rx_offloads_;
  netdev::FeatureSet refused_;          // by the kernel, since the link came up
  netdev::FeatureSet refused_pending_;  // to become refused_ in the next poll
  std::array<Refusals, 4> refusals_;
  TapStats tap_stats_;
  std::vector<std::pair<int, uint64_t>> write_errors_;  // errno, count; a handful
  int read_errors_ = 0;
  bool link_work_ = false;
  bool was_down_ = false;
  bool gone_ = false;
  absl::AnyInvocable<void(const absl::Status&)> gone_callback_;
};

}  // namespace tapwire::drivers
