// SPDX-License-Identifier: Apache-2.0
#include "netdev/packet/chunk_source.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "netdev/base/check.h"

namespace tapwire {
namespace {

size_t RoundToPage(size_t size) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (size + page - 1) / page * page;
}

std::span<uint8_t> Map(size_t size, int flags, int fd, uint64_t offset) {
  if (size == 0) {
    return {};
  }
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, fd, static_cast<off_t>(offset));
  if (memory == MAP_FAILED) {
    return {};
  }
  return {static_cast<uint8_t*>(memory), size};
}

}  // namespace

std::optional<ChunkFile> ChunkSource::FileOf(std::span<const uint8_t>) const {
  return std::nullopt;
}

std::span<uint8_t> AnonymousChunkSource::Allocate(size_t size) {
  return Map(size, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

void AnonymousChunkSource::Free(std::span<uint8_t> chunk) {
  if (!chunk.empty()) {
    munmap(chunk.data(), chunk.size());
  }
}

MemfdChunkSource::MemfdChunkSource() : fd_(memfd_create("tapwire-pool", MFD_CLOEXEC)) {}

MemfdChunkSource::~MemfdChunkSource() {
  TW_CHECK(mappings_.empty(), "chunks outlive their source");
  if (fd_ >= 0) {
    close(fd_);
  }
}

std::span<uint8_t> MemfdChunkSource::Allocate(size_t size) {
  // Offsets stay aligned to pages because every chunk takes whole ones.
  const uint64_t new_size = file_size_ + RoundToPage(size);
  if (fd_ < 0 || size == 0 || ftruncate(fd_, static_cast<off_t>(new_size)) != 0) {
    return {};
  }
  const std::span<uint8_t> chunk = Map(size, MAP_SHARED, fd_, file_size_);
  if (!chunk.empty()) {
    mappings_.push_back({chunk.data(), file_size_});
    file_size_ = new_size;
  }
  return chunk;
}

void MemfdChunkSource::Free(std::span<uint8_t> chunk) {
  const auto found = std::find_if(mappings_.begin(), mappings_.end(), [&](const Mapping& mapping) {
    return mapping.start == chunk.data();
  });
  if (found == mappings_.end()) {
    return;
  }
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(found->offset),
            static_cast<off_t>(RoundToPage(chunk.size())));
  munmap(chunk.data(), chunk.size());
  mappings_.erase(found);
}

std::optional<ChunkFile> MemfdChunkSource::FileOf(std::span<const uint8_t> chunk) const {
  for (const Mapping& mapping : mappings_) {
    if (mapping.start == chunk.data()) {
      return ChunkFile{fd_, mapping.offset};
    }
  }
  return std::nullopt;
}

}  // namespace tapwire
