// SPDX-License-Identifier: Apache-2.0
// What a measurement needs of the process: one processor to stay on, a flag that Ctrl-C raises, and
// a look at what else the machine was doing.
#pragma once

#include <sched.h>

#include <csignal>
#include <optional>
#include <vector>

#include "absl/status/status.h"

namespace tapwire::apps::lab {

// While it lives the first SIGINT or SIGTERM raises the flag, and the second ends the process with
// 130. One object at a time.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  static bool requested();
  // kCancelled once it was.
  static absl::Status Check();
  // For a forked child: signals do what they do by default.
  static void Forget();

 private:
  struct sigaction old_int_ = {}, old_term_ = {};
};

// Keeps the calling thread, and what it starts meanwhile, on one processor: the last that it may
// use. Without the right to do so it stays where it is.
class OneProcessor {
 public:
  OneProcessor();
  ~OneProcessor();
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;

  int cpu() const { return cpu_; }                         // -1: not kept
  std::optional<int> other_cpu() const { return other_; }  // that it might have used
  // Moves the calling thread, another one, there.
  static void MoveTo(int cpu);

 private:
  cpu_set_t before_;
  int cpu_ = -1;
  std::optional<int> other_;
};

// Processor time that others took since this was made: busy time of all processors less that of
// this process, of children that it has waited for, and of the kernel's softirq threads.
class ForeignLoad {
 public:
  ForeignLoad();
  // Whether so much of it was used that a figure measured meanwhile is worthless: a tenth of a
  // processor, apart from what the counters cannot tell.
  bool disturbed() const;
  // Of one processor's time.
  double share() const;

 private:
  struct Reading {
    double wall_s, busy_s, own_s;
  };
  Reading Read() const;

  std::vector<int> softirq_threads_;
  Reading start_;
};

}  // namespace tapwire::apps::lab
