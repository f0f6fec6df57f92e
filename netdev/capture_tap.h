// SPDX-License-Identifier: Apache-2.0
// Capture: writes the frames of devices to a pcapng file as they are (or would be) on the wire.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "netdev/base/time.h"
#include "netdev/device.h"
#include "netdev/pcapng_writer.h"

namespace tapwire::netdev {

// What a frame looks like outside: the bytes with a VLAN tag kept in the metadata put in its place.
struct WireFrame {
  std::vector<uint8_t> bytes;  // cut to the asked length
  uint32_t length = 0;         // of the whole frame
  bool partial = false;        // the metadata declares an unfinished checksum
  bool completed = false;      // … and it was completed in `bytes`
  uint32_t csum_start = 0;     // with `partial`: from the start of the frame
  uint16_t csum_offset = 0;
};
// Copies `packet` (data() at the Ethernet header) into `out`, whose buffer is reused. With
// `complete` a partial checksum is computed over the whole frame; of a super-packet that is the
// checksum one frame of that length would have. At most `max_length` bytes are kept; 0: all.
void CopyWireFrame(const Packet& packet, bool complete, uint32_t max_length, WireFrame& out);

// "csum=partial start=34 offset=16 gso=tcpv4 size=1448 segs=3"; what is usual (no offload, sent) is
// left out, so most frames have an empty one.
std::string OffloadComment(const Packet& packet, const WireFrame& frame, TxResult result);

class CaptureTap {
 public:
  struct Options {
    // Frames as they are in memory, partial checksums and all.
    bool raw = false;
    // Bytes kept of each frame; 0: all.
    uint32_t snap_length = 0;
    // Wall-clock time minus context time: captures carry wall-clock stamps, and the stack knows
    // none.
    Duration wall_clock_offset{};
  };

  // `writer` must outlive the object; several taps may share it.
  CaptureTap(PcapngWriter& writer, Options options);
  ~CaptureTap();
  CaptureTap(const CaptureTap&) = delete;
  CaptureTap& operator=(const CaptureTap&) = delete;

  // Captures `device` from now on, as an interface of its own in the file. Must be undone by
  // Detach() or the destructor before the device goes, unless the context goes first.
  void Attach(NetDevice& device);
  void Detach(NetDevice& device);

 private:
  class DeviceTap;

  void Write(uint32_t interface, const Packet& packet, const NetDevice& device,
             TapDirection direction, TxResult result);

  PcapngWriter& writer_;
  Options options_;
  WireFrame frame_;  // reused
  std::vector<std::unique_ptr<DeviceTap>> taps_;
};

}  // namespace tapwire::netdev
