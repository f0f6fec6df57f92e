// SPDX-License-Identifier: Apache-2.0
// The words of a request, taken one after the other, and what the files of this folder share about
// the two tools.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "apps/ctl/ctl.h"
#include "apps/ctl/ip_view.h"

namespace tapwire::apps::ctl {

using Argv = std::vector<std::string>;

class Words {
 public:
  explicit Words(const Argv& argv, size_t next = 0) : argv_(argv), next_(next) {}
  bool done() const { return next_ >= argv_.size(); }
  // The next word; empty at the end.
  absl::string_view Peek() const { return done() ? absl::string_view() : argv_[next_]; }
  absl::string_view Take() {
    const absl::string_view word = Peek();
    if (!done()) ++next_;
    return word;
  }
  // Takes the next word if it is this one.
  bool TakeIf(absl::string_view word) {
    if (done() || Peek() != word) return false;
    ++next_;
    return true;
  }

 private:
  const Argv& argv_;
  size_t next_;
};

// ip's rule: every word may be shortened. The first that fits counts.
inline bool ShortFor(absl::string_view word, std::initializer_list<absl::string_view> full) {
  for (const absl::string_view candidate : full) {
    if (!word.empty() && absl::StartsWith(candidate, word)) return true;
  }
  return false;
}

inline Reply Fail(int exit_code, std::string err) { return {exit_code, "", std::move(err)}; }
inline Reply Print(std::string out) { return {0, std::move(out), ""}; }

// ip's exit codes: a word or device that is wrong, what the device layer refuses, a line that is
// not understood.
inline constexpr int kIpError = 1, kIpRefused = 2, kIpUsage = 255;
Reply IpIncomplete();
Reply IpCannotFind(absl::string_view device);

Reply RunIp(World& world, const Argv& argv);       // argv[0] is "ip"
Reply RunEthtool(World& world, const Argv& argv);  // argv[0] is "ethtool"
// `ip link set|add|del`, the words behind these.
Reply IpLinkSet(World& world, Words words);
Reply IpLinkAdd(World& world, Words words);
Reply IpLinkDelete(World& world, Words words);

}  // namespace tapwire::apps::ctl
