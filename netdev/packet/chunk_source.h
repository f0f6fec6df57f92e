// SPDX-License-Identifier: Apache-2.0
//
// Where the slab pool gets its memory from, in large pieces. The only place below the drivers that
// knows the operating system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tapwire {

// Place of a chunk in a shareable file, for drivers that map the pool into a device.
struct ChunkFile {
  int fd = -1;
  uint64_t offset = 0;
};

class ChunkSource {
 public:
  virtual ~ChunkSource() = default;

  // Zeroed memory of `size` bytes, aligned to a page; empty if there is none.
  virtual std::span<uint8_t> Allocate(size_t size) = 0;

  // Takes back what Allocate() returned, whole.
  virtual void Free(std::span<uint8_t> chunk) = 0;

  // The file behind a chunk; nullopt for memory that cannot be shared. The descriptor stays with
  // the source.
  virtual std::optional<ChunkFile> FileOf(std::span<const uint8_t> chunk) const;
};

// Private anonymous memory.
class AnonymousChunkSource : public ChunkSource {
 public:
  std::span<uint8_t> Allocate(size_t size) override;
  void Free(std::span<uint8_t> chunk) override;
};

// Memory of one memfd, which grows with each chunk; a freed chunk leaves a hole. If the system has
// no memfd, Allocate() returns nothing. Chunks must be freed before the source goes.
class MemfdChunkSource : public ChunkSource {
 public:
  MemfdChunkSource();
  MemfdChunkSource(const MemfdChunkSource&) = delete;
  MemfdChunkSource& operator=(const MemfdChunkSource&) = delete;
  ~MemfdChunkSource() override;

  std::span<uint8_t> Allocate(size_t size) override;
  void Free(std::span<uint8_t> chunk) override;
  std::optional<ChunkFile> FileOf(std::span<const uint8_t> chunk) const override;

  // −1 if the system has no memfd.
  int fd() const { return fd_; }

 private:
  struct Mapping {
    const uint8_t* start;
    uint64_t offset;
  };

  int fd_ = -1;
  uint64_t file_size_ = 0;
  std::vector<Mapping> mappings_;
};

}  // namespace tapwire
