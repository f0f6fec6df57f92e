// SPDX-License-Identifier: Apache-2.0
#include "drivers/tap/tap_device.h"

#include <cerrno>
#include <cstring>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "drivers/tap/fd_passing.h"
#include "drivers/tap/system_error.h"
#include "drivers/tap/tap_probe.h"
#include "netdev/base/log.h"
#include "netdev/base/status_util.h"
#include "netdev/csum_offload.h"
#include "netdev/frame_headers.h"
#include "netdev/gro.h"
#include "netdev/gso.h"
#include "netdev/net_context.h"

namespace tapwire::drivers {
namespace {

using netdev::Feature;
using netdev::FeatureSet;
using netdev::TxResult;

constexpr int kFdSocketTimeoutMs = 5'000;

std::string ErrnoText(int err) {
  return absl::StrCat(std::generic_category().message(err), " (", err, ")");
}

// "EINVAL", or the number where libc has no name.
std::string ErrnoName(int err) {
  const char* name = strerrorname_np(err);
  return name == nullptr ? absl::StrCat(err) : name;
}

absl::Status CheckOptions(const TapOptions& options) {
  const int sources = (options.userns ? 1 : 0) + (options.fd.has_value() ? 1 : 0) +
                      (options.fd_socket.empty() ? 0 : 1);
  if (sources > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "TAP '", options.name, "': userns, fd and fd_socket exclude each other; give one of them"));
  }
  if (options.mtu != 0 && (options.mtu < 68 || options.mtu > TapDevice::kMaxMtu)) {
    return absl::InvalidArgumentError(absl::StrCat("TAP '", options.name, "': mtu=", options.mtu,
                                                   " is not in 68..", TapDevice::kMaxMtu));
  }
  if (!options.mac.IsZero() && !options.mac.IsUnicast()) {
    return absl::InvalidArgumentError(absl::StrCat("TAP '", options.name,
                                                   "': ", options.mac.ToString(),
                                                   " is a group address; give a unicast one"));
  }
  return absl::OkStatus();
}

absl::StatusOr<TapLink> OpenLink(const TapOptions& options) {
  if (options.fd.has_value()) {
    std::vector<UniqueFd> fds;
    fds.emplace_back(*options.fd);
    return AdoptTap(std::move(fds), options.name);
  }
  if (!options.fd_socket.empty()) {
    TW_ASSIGN_OR_RETURN(std::vector<UniqueFd> fds,
                        ReceiveFdsFromPath(options.fd_socket, kFdSocketTimeoutMs));
    return AdoptTap(std::move(fds), options.name);
  }
  return AttachTap(options.device_path, options.name, options.queues);
}

// Gives the kernel's end the MTU of the options. A TAP that is not ours to change keeps its own,
// which is said, since frames may then be larger than the device's MTU.
absl::Status SetUpKernelSide(const TapOptions& options, TapLink& link) {
  if (options.persist) {
    TW_RETURN_IF_ERROR(SetTapPersistent(link, true));
  }
  if (!options.kernel_addrs.empty()) {
    TW_RETURN_IF_ERROR(ConfigureKernelSide(link.name, options.kernel_addrs, options.mtu));
    link.kernel_mtu = options.mtu != 0 ? options.mtu : link.kernel_mtu;
    return absl::OkStatus();
  }
  if (options.mtu == 0 || link.kernel_mtu == 0 || options.mtu == link.kernel_mtu) {
    return absl::OkStatus();
  }
  if (const absl::Status status = SetKernelMtu(link.name, options.mtu); !status.ok()) {
    TW_LOG(kWarning) << status.message() << "; it keeps MTU " << link.kernel_mtu;
    return absl::OkStatus();
  }
  link.kernel_mtu = options.mtu;
  return absl::OkStatus();
}

// A device of one's own at the other end of the wire needs an address that differs from the
// kernel's, or neither end would take the other's frames.
absl::StatusOr<MacAddress> ChooseMac(Random& random, const TapLink& link,
                                     const MacAddress& wanted) {
  if (!wanted.IsZero()) {
    if (wanted == link.kernel_mac) {
      return absl::InvalidArgumentError(
          absl::StrCat("TAP ", link.name, ": mac=", wanted.ToString(),
                       " is the address of the kernel's end; leave it out or give another one"));
    }
    return wanted;
  }
  std::array<uint8_t, MacAddress::kLength> bytes;
  do {
    random.Fill(bytes);
    bytes[0] = static_cast<uint8_t>((bytes[0] & 0xfc) | 0x02);  // locally administered, unicast
  } while (MacAddress(bytes) == link.kernel_mac);
  return MacAddress(bytes);
}

// Sends frames of one flow to one queue, whatever the number.
uint32_t FlowHash(const Packet& packet) {
  if (packet.meta.flow_hash != 0) {
    return packet.meta.flow_hash;
  }
  const auto headers = netdev::ParseTransportHeaders(packet.head_bytes());
  if (!headers.has_value()) {
    return 0;
  }
  // FNV-1a over addresses and ports.
  uint32_t hash = 2166136261U;
  const size_t addresses = headers->ether_type == 0x0800 ? headers->l3 + 12 : headers->l3 + 8;
  for (size_t i = addresses; i < headers->l4 + 4; ++i) {
    hash = (hash ^ packet.data()[i]) * 16777619U;
  }
  return hash;
}

Feature GsoFeature(const Packet& packet) {
  return packet.meta.gso.Has(GsoType::kUdpL4)   ? Feature::kGsoUdpL4
         : packet.meta.gso.Has(GsoType::kTcpv6) ? Feature::kTso6
                                                : Feature::kTso;
}

Feature ProbedFeature(ProbeKind kind) {
  switch (kind) {
    case ProbeKind::kTcpv4:
      return Feature::kTso;
    case ProbeKind::kTcpv6:
      return Feature::kTso6;
    case ProbeKind::kUdpL4:
      return Feature::kGsoUdpL4;
  }
  return Feature::kTso;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TapDevice>> TapDevice::Open(netdev::NetContext& context,
                                                           const TapOptions& options) {
  TW_RETURN_IF_ERROR(CheckOptions(options));
  if (!options.userns) {
    TW_ASSIGN_OR_RETURN(TapLink link, OpenLink(options));
    TW_RETURN_IF_ERROR(SetUpKernelSide(options, link));
    return Create(context, std::move(link), options);
  }
  TW_ASSIGN_OR_RETURN(UserNamespace::Created created,
                      UserNamespace::Create({.node_path = options.device_path,
                                             .tap_name = options.name,
                                             .queues = options.queues,
                                             .mtu = options.mtu,
                                             .kernel_addrs = options.kernel_addrs}));
  TW_ASSIGN_OR_RETURN(std::unique_ptr<TapDevice> device,
                      Create(context, std::move(created.link), options));
  device->userns_ = std::move(created.holder);
  return device;
}

absl::StatusOr<std::unique_ptr<TapDevice>> TapDevice::Create(netdev::NetContext& context,
                                                             TapLink link,
                                                             const TapOptions& options,
                                                             std::unique_ptr<TapIo> io) {
  TW_ASSIGN_OR_RETURN(const MacAddress mac, ChooseMac(context.random(), link, options.mac));
  constexpr uint32_t kDefaultMtu = 1500;
  const uint32_t mtu = options.mtu != 0       ? options.mtu
                       : link.kernel_mtu != 0 ? link.kernel_mtu
                                              : kDefaultMtu;
  Init init = {.name = link.name, .mac = mac, .mtu = mtu, .max_mtu = kMaxMtu};
  if (io == nullptr) {
    io = std::make_unique<SystemTapIo>();
  }
  return std::unique_ptr<TapDevice>(
      new TapDevice(context, std::move(init), std::move(link), options, std::move(io)));
}

TapDevice::TapDevice(netdev::NetContext& context, Init init, TapLink link,
                     const TapOptions& options, std::unique_ptr<TapIo> io)
    : NetDevice(context, std::move(init)),
      link_(std::move(link)),
      io_(std::move(io)),
      allow_csum_(options.csum),
      allow_tso_(options.csum && options.tso),
      allow_uso_(options.csum && options.uso),
      refusals_{{{.feature = Feature::kTso},
                 {.feature = Feature::kTso6},
                 {.feature = Feature::kGsoUdpL4},
                 {.feature = Feature::kHwCsum}}} {
  for (const UniqueFd& fd : link_.fds) {
    queues_.push_back(std::make_unique<TapQueue>(*this, fd.get(), link_, *io_));
  }
  rx_offloads_ = SetTapOffloads(link_, {.csum = allow_csum_, .tso = allow_tso_, .uso = allow_uso_});
  ClaimFeatures();
}

TapDevice::~TapDevice() = default;

// What a network card with these abilities would show. Sending and receiving are independent: a
// kernel may take USO from us, say, and the user may not want it from the kernel.
void TapDevice::ClaimFeatures() {
  FeatureSet tx = {Feature::kSg, Feature::kHighDma};
  FeatureSet rx;
  if (link_.vnet_hdr_size != 0 && allow_csum_) {
    tx |= Feature::kHwCsum;
    if (allow_tso_) {
      tx |= FeatureSet{Feature::kTso, Feature::kTso6, Feature::kTsoEcn};
    }
    // TUNSETOFFLOAD knows USO since the same release as the write side (Linux 6.2).
    if (rx_offloads_.uso) {
      tx |= Feature::kGsoUdpL4;
    }
  }
  if (rx_offloads_.csum) {
    rx |= Feature::kRxCsum;
  }
  if (rx_offloads_.tso) {
    rx |= Feature::kGroHw;
  }
  set_hw_features((tx & ~FeatureSet(Feature::kHighDma)) | rx);
  set_features(tx | rx);
  set_vlan_features(tx);
}

absl::StatusOr<TapDevice::FeatureOutcome> TapDevice::SetFeatures(FeatureSet features) {
  const TapOffloads wanted = {.csum = features.Has(Feature::kRxCsum),
                              .tso = features.Has(Feature::kGroHw) && allow_tso_,
                              .uso = features.Has(Feature::kGroHw) && allow_uso_};
  if (!gone_ && wanted != rx_offloads_) {
    rx_offloads_ = SetTapOffloads(link_, wanted);
  }
  return FeatureOutcome::kApply;
}

absl::Status TapDevice::OnSetMac(const MacAddress& mac) {
  if (mac == link_.kernel_mac) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(), ": ", mac.ToString(), " is the address of the kernel's end"));
  }
  return absl::OkStatus();
}

// ---- State ----

absl::Status TapDevice::OnUp() {
  const TapLinkState state = gone_ ? TapLinkState::kGone : io_->LinkState(queues_.front()->fd());
  if (state == TapLinkState::kGone) {
    return absl::FailedPreconditionError(
        absl::StrCat(name(), ": the interface was removed; create the TAP again and open it anew"));
  }
  for (const std::unique_ptr<TapQueue>& queue : queues_) {
    if (!queue->Post()) {
      OnDown();
      return absl::ResourceExhaustedError(
          absl::StrCat(name(), ": no packet buffers; raise the pool's budget"));
    }
    if (was_down_) {
      queue->DiscardPending();
    }
  }
  SetTapCarrier(link_, true);
  SetCarrier(state == TapLinkState::kUp);
  if (has_carrier()) {
    Probe();
  }
  return absl::OkStatus();
}

void TapDevice::OnDown() {
  was_down_ = true;
  // The carrier belongs to the interface, not to our queues of it.
  if (!gone_ && !IsSharedTap(link_)) {
    SetTapCarrier(link_, false);
  }
  for (const std::unique_ptr<TapQueue>& queue : queues_) {
    queue->Unpost();
  }
}

std::vector<netdev::PollFd> TapDevice::poll_fds() const {
  std::vector<netdev::PollFd> fds;
  if (!is_up() || gone_) {
    return fds;
  }
  for (const std::unique_ptr<TapQueue>& queue : queues_) {
    fds.push_back({.fd = queue->fd(), .poll = queue.get(), .want_write = false});
  }
  // A TAP becomes writable when the kernel's end comes up. While it is up it always is, so this is
  // watched without carrier only.
  fds.front().want_write = !has_carrier();
  return fds;
}

void TapDevice::ScheduleLinkWork() {
  link_work_ = true;
  queues_.front()->Schedule();
}

bool TapDevice::BeforePoll() {
  if (link_work_ || !has_carrier()) {
    link_work_ = false;
    CheckLink();
  }
  return is_up() && !gone_;
}

void TapDevice::CheckLink() {
  const TapLinkState state = io_->LinkState(queues_.front()->fd());
  if (state == TapLinkState::kGone) {
    MarkGone(
        absl::UnavailableError(absl::StrCat(name(), ": the interface was removed while in use")));
    return;
  }
  const bool up = state == TapLinkState::kUp;
  if (up != has_carrier()) {
    tap_stats_.link_lost.Inc(up ? 0 : 1);
    SetCarrier(up);
    context().PollFdsChanged();
    if (up) {
      Probe();
    }
  }
  if (!refused_pending_.empty()) {
    refused_ |= refused_pending_;
    refused_pending_ = FeatureSet();
    UpdateFeatures();
  }
}

void TapDevice::OnReadError(int err) {
  // EBADFD is what the TUN/TAP driver says of a removed interface. EAGAIN and EINTR never come
  // here.
  if (err != EBADFD && err != ENODEV && ++read_errors_ < kReadErrorLimit) {
    return;
  }
  MarkGone(SystemError(err, absl::StrCat(name(), ": read"),
                       err == EBADFD ? "the interface was removed while in use" : ""));
}

void TapDevice::MarkGone(const absl::Status& why) {
  if (gone_) {
    return;
  }
  gone_ = true;
  TW_LOG(kWarning) << why.message();
  SetCarrier(false);
  Down();
  if (gone_callback_) {
    context().Defer([callback = std::move(gone_callback_), why]() mutable { callback(why); });
  }
}

void TapDevice::Probe() {
  refused_ = refused_pending_ = FeatureSet();
  for (Refusals& refusals : refusals_) {
    refusals.count = 0;
  }
  if (link_.vnet_hdr_size != 0) {
    for (const ProbeKind kind : kProbeKinds) {
      const Feature feature = ProbedFeature(kind);
      if (!hw_features().Has(feature)) {
        continue;
      }
      const ProbeFrame frame = MakeProbeFrame(kind, mac());
      const int err = queues_.front()->WriteRaw(frame.hdr, frame.bytes);
      if (err == EINVAL || err == EOPNOTSUPP) {
        tap_stats_.probe_refused.Inc();
        refused_ |= feature;
        TW_LOG(kWarning) << name() << ": the kernel refuses " << FeatureSetToString(feature) << ": "
                         << ErrnoText(err) << "; segmenting in software";
      }
    }
  }
  UpdateFeatures();
}

// ---- Sending ----

TapQueue& TapDevice::QueueFor(const Packet& packet) {
  return queues_.size() == 1 ? *queues_.front() : *queues_[FlowHash(packet) % queues_.size()];
}

TxResult TapDevice::StartXmit(PacketPtr packet, bool /*more*/) {
  TapQueue& queue = QueueFor(*packet);
  // What was switched off a moment ago is not tried again.
  if (!refused_pending_.empty() && packet->meta.gso.size != 0 &&
      refused_pending_.Has(GsoFeature(*packet))) {
    return SendSegmented(std::move(packet), queue, 0);
  }
  if (const int err = queue.Write(*packet); err != 0) [[unlikely]] {
    return HandleWriteError(std::move(packet), queue, err);
  }
  tap_stats_.tx_writes.Inc();
  if (packet->meta.gso.size != 0) {
    tap_stats_.tx_gso_frames.Inc();
  }
  return TxResult::kSent;
}

TxResult TapDevice::HandleWriteError(PacketPtr packet, TapQueue& queue, int err) {
  CountWriteError(err);
  switch (err) {
    case EIO:  // the kernel's end is down
      ScheduleLinkWork();
      DropTx(std::move(packet), DropReason::kTxCarrierOff);
      return TxResult::kDeviceDown;
    case EBADFD:  // it was removed
    case ENODEV:
      ScheduleLinkWork();
      DropTx(std::move(packet), DropReason::kTxDeviceDown);
      return TxResult::kDeviceDown;
    case EAGAIN:
    case ENOBUFS:
    case ENOMEM:
      DropTx(std::move(packet), DropReason::kTxNoBuffer);
      return TxResult::kNoBuffer;
    default:
      return SendWithoutOffload(std::move(packet), queue, err);
  }
}

TxResult TapDevice::SendWithoutOffload(PacketPtr packet, TapQueue& queue, int err) {
  if (packet->meta.gso.size != 0) {
    return SendSegmented(std::move(packet), queue, err);
  }
  if (packet->meta.csum_state == CsumState::kPartial) {
    return SendChecksummed(std::move(packet), queue, err);
  }
  FailTx(std::move(packet), DropReason::kTxWriteError);
  return TxResult::kDropped;
}

TxResult TapDevice::SendSegmented(PacketPtr packet, TapQueue& queue, int err) {
  if (err != 0) {
    tap_stats_.tx_gso_refused.Inc();
    NoteRefusal(GsoFeature(*packet), err);
  }
  netdev::SegmentResult cut =
      netdev::SegmentPacket(packet->pool(), *packet, features() & ~netdev::kGsoMask);
  if (cut.error != DropReason::kNone || cut.segments.empty()) {
    FailTx(std::move(packet),
           cut.error != DropReason::kNone ? cut.error : DropReason::kTxSegmentationFailed);
    return TxResult::kDropped;
  }
  stats().tx_gso_segmented.Inc();
  packet.reset();
  TxResult first = TxResult::kSent;
  for (bool is_first = true; PacketPtr segment = cut.segments.PopFront(); is_first = false) {
    TxResult result = TxResult::kSent;
    if (const int segment_err = queue.Write(*segment); segment_err != 0) {
      result = HandleWriteError(std::move(segment), queue, segment_err);
    } else {
      tap_stats_.tx_writes.Inc();
    }
    first = is_first ? result : first;
  }
  return first;
}

TxResult TapDevice::SendChecksummed(PacketPtr packet, TapQueue& queue, int err) {
  tap_stats_.tx_csum_refused.Inc();
  NoteRefusal(Feature::kHwCsum, err);
  if (!netdev::ChecksumHelp(*packet)) {
    FailTx(std::move(packet), DropReason::kTxChecksumFailed);
    return TxResult::kDropped;
  }
  stats().tx_csum_software.Inc();
  if (const int again = queue.Write(*packet); again != 0) {
    return HandleWriteError(std::move(packet), queue, again);  // no longer kPartial: ends there
  }
  tap_stats_.tx_writes.Inc();
  return TxResult::kSent;
}

void TapDevice::NoteRefusal(Feature feature, int err) {
  for (Refusals& refusals : refusals_) {
    if (refusals.feature != feature) {
      continue;
    }
    if (!std::exchange(refusals.logged, true)) {
      TW_LOG(kWarning) << name() << ": the kernel refused a frame that needs "
                       << FeatureSetToString(feature) << ": " << ErrnoText(err)
                       << "; doing it in software, and for good after " << kRefusalLimit
                       << " refusals";
    }
    if (++refusals.count == kRefusalLimit) {
      refused_pending_ |= feature;
      ScheduleLinkWork();
    }
  }
}

// ---- Statistics ----

void TapDevice::CountWriteError(int err) {
  for (auto& [known, count] : write_errors_) {
    if (known == err) {
      ++count;
      return;
    }
  }
  write_errors_.emplace_back(err, 1);
}

uint64_t TapDevice::write_errors(int err) const {
  for (const auto& [known, count] : write_errors_) {
    if (known == err) {
      return count;
    }
  }
  return 0;
}

void TapDevice::ForEachDriverStat(
    const std::function<void(absl::string_view, uint64_t)>& visitor) const {
  tap_stats_.ForEach([&visitor](absl::string_view name, absl::string_view, uint64_t value) {
    visitor(name, value);
  });
  for (const auto& [err, count] : write_errors_) {
    visitor(absl::StrCat("tx_errno_", ErrnoName(err)), count);
  }
  std::vector<const netdev::Gro*> merging;
  for (const std::unique_ptr<TapQueue>& queue : queues_) merging.push_back(queue->gro());
  netdev::ForEachGroStat(merging, visitor);
}

}  // namespace tapwire::drivers
