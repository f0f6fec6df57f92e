// SPDX-License-Identifier: Apache-2.0
// The tables.

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/lab/result.h"
#include "apps/lab/statistics.h"

namespace tapwire::apps::lab {
namespace {

constexpr double kMega = 1e6;

std::string Placement(const Conditions& c) {
  return c.cpu < 0 ? "not kept on one CPU" : absl::StrCat("on CPU ", c.cpu);
}

// "118034 (115000 - 120000)".
std::string Spread(std::vector<double> values, double unit) {
  if (values.empty()) return "-";
  const Summary s = Summarize(std::move(values));
  return absl::StrFormat("%.0f (%.0f - %.0f)", s.median / unit, s.min / unit, s.max / unit);
}

// "4.57 (4.50 - 4.61)".
std::string RatioSpread(const Series& a, const Series& b, int decimals = 2) {
  const std::vector<double> ratios = PairedRatios(a.values, b.values);
  if (ratios.empty()) return "-";
  const Summary s = Summarize(ratios);
  return absl::StrFormat("%.*f (%.*f - %.*f)", decimals, s.median, decimals, s.min, decimals,
                         s.max);
}

std::string Row(absl::string_view label, absl::string_view mail, absl::string_view ours) {
  return absl::StrFormat("  %-44s %9s   %s\n", label, mail, ours);
}

const Series* FindSeries(const std::vector<Series>& all, absl::string_view name) {
  for (const Series& series : all) {
    if (series.name == name && !series.values.empty()) return &series;
  }
  return nullptr;
}

std::string KernelProblems(const KernelPoint& point) {
  std::string text;
  for (const Series& series : point.series) {
    if (!series.problem.empty()) {
      absl::StrAppend(&text, "  ", series.name, ": not measured: ", series.problem, "\n");
    }
  }
  return text;
}

std::string RatioRow(const Series* a, const Series* b) {
  if (a == nullptr || b == nullptr) return "";
  return Row(absl::StrCat(a->name, " / ", b->name == "plain" ? "the kernel's macvlans" : b->name),
             "", RatioSpread(*a, *b));
}

std::string FeaturesKernel(const FeaturesResult& result) {
  const KernelResult& kernel = result.kernel;
  if (kernel.points.empty()) return absl::StrCat("\nThe kernel's figures: ", kernel.problem, "\n");
  const KernelPoint& point = kernel.points.front();
  const Series* plain = FindSeries(point.series, "plain");
  const Series* alone = FindSeries(point.series, "gso_max_segs_1");
  const Series* veth = FindSeries(point.series, "veth_no_offloads");
  const std::vector<Series>& ours = result.variants;
  std::string text = absl::StrCat(
      "\nThe kernel (", kernel.release, ") in our place, both programs on that CPU, CUBIC. Its ",
      "macvlans keep their offloads\nwhatever is asked for, so two things stand in for losing ",
      "them.\n");
  const std::pair<const Series*, absl::string_view> rows[] = {
      {plain, "plain: its macvlans, the lower's offloads off"},
      {alone, "gso_max_segs_1: each segment alone"},
      {veth, "veth_no_offloads: a veth pair without them"}};
  for (const auto& [series, label] : rows) {
    if (series != nullptr) text += Row(label, "", Spread(series->values, kMega));
  }
  if (plain != nullptr && alone != nullptr) {
    text += Row("plain / gso_max_segs_1", "", RatioSpread(*plain, *alone));
  }
  text += RatioRow(&ours[0], plain) + RatioRow(&ours[1], veth) + RatioRow(&ours[2], veth) +
          RatioRow(&ours[1], alone);
  return text + KernelProblems(point);
}

// Why a small ratio is no loss.
std::string FeaturesVerdict(const FeaturesResult& result) {
  const std::vector<Series>& ours = result.variants;
  const double ratio = Summarize(PairedRatios(ours[0].values, ours[1].values)).median;
  if (ratio >= kMailFeaturesRatio || result.kernel.points.empty()) return "";
  const Series* alone = FindSeries(result.kernel.points.front().series, "gso_max_segs_1");
  if (alone == nullptr) return "";
  const double slow = Summarize(PairedRatios(ours[1].values, alone->values)).median;
  if (slow <= 2) return "";
  return absl::StrFormat(
      "The ratio is below the mail's %.2f only because `inherited` is fast: %.1f times the "
      "kernel's gso_max_segs_1.\n",
      kMailFeaturesRatio, slow);
}

// ---- macvlan-rx ----

const MailRxRow* MailRow(size_t flows) {
  for (const MailRxRow& row : kMailRx) {
    if (row.flows == flows) return &row;
  }
  return nullptr;
}

std::string MailCells(size_t flows) {
  const MailRxRow* row = MailRow(flows);
  if (row == nullptr) return absl::StrFormat("%8s %8s %8s", "-", "-", "-");
  return absl::StrFormat("%8.0f %8.0f %+7.2f%%", row->before, row->after, row->change_percent);
}

std::string IntervalCell(const RxPoint& point) {
  const std::optional<MeanRatio> mean =
      ConfidenceOfMean(PairedRatios(point.reinject.values, point.queue.values));
  if (!mean.has_value()) return "-";
  return absl::StrFormat("%+.2f%% (%+.2f%% - %+.2f%%)", (mean->mean - 1) * 100,
                         (mean->low - 1) * 100, (mean->high - 1) * 100);
}

std::string RxRow(const RxPoint& point) {
  const Summary cost = Summarize(QueueCosts(point));
  return absl::StrFormat("%4d %s  %-26s %-26s %-23s %-28s %5.1f (%.1f - %.1f)\n",
                         static_cast<int>(point.flows), MailCells(point.flows),
                         Spread(point.queue.values, 1), Spread(point.reinject.values, 1),
                         RatioSpread(point.reinject, point.queue, 3), IntervalCell(point),
                         cost.median, cost.min, cost.max);
}

std::string RxHead() {
  return absl::StrFormat("%4s %8s %8s %8s  %-26s %-26s %-23s %-28s %s\n", "N", "before", "after",
                         "change", "queue (before)", "reinject (after)", "reinject / queue",
                         "mean gain, 95 % interval", "queue costs, ns/packet");
}

std::string SourceTable(const RxSource& source) {
  std::string text = absl::StrCat("\n", source.title, "\n");
  if (!source.points.empty()) text += RxHead();
  for (const RxPoint& point : source.points) text += RxRow(point);
  if (!source.problem.empty()) absl::StrAppend(&text, "  Not measured: ", source.problem, "\n");
  return text;
}

std::string RxKernel(const KernelResult& kernel) {
  if (kernel.points.empty()) return absl::StrCat("\nThe kernel's figures: ", kernel.problem, "\n");
  std::string text = absl::StrCat(
      "\nThe kernel (", kernel.release, ") in our place: a client on the far end of a veth, the ",
      "server on a macvlan over it (or on the veth\nitself, without offloads), each one process ",
      "with epoll on that CPU.\n");
  for (const KernelPoint& point : kernel.points) {
    absl::StrAppendFormat(&text, "%4d", static_cast<int>(point.flows));
    for (const Series& series : point.series) {
      absl::StrAppend(&text, "  ", series.name, " ", Spread(series.values, 1));
    }
    text += "\n" + KernelProblems(point);
  }
  return text;
}

std::string RxNotes(const RxResult& result) {
  const int degrees = std::max(result.conditions.pairs - 1, 0);
  return absl::StrFormat(
      "\nRatios are of neighbouring runs: median (min - max). The 95 %% interval is that of their "
      "geometric mean, by Student's t\nwith %d degrees of freedom on their logarithms. What queue "
      "costs is the time of a transaction with it less that of one\nwithout, divided by the "
      "packets "
      "that the macvlan receives in one (%.2f).\n"
      "A queued packet is linked to the end of the backlog, gets its time, and is taken up in the "
      "next round of the same batch: the\nreceive core starts once more from the device's index. "
      "Nothing is copied, nothing locked, and no budget is spent twice; but\nall packets of a "
      "round "
      "are moved before the first of them is received, and are touched again when their turn "
      "comes.\n",
      degrees, WorstPoint(result).packets_per_transaction);
}

}  // namespace

std::string Quietness(const Conditions& c) {
  std::string text;
  if (c.repeated > 0) {
    absl::StrAppend(&text, c.repeated,
                    " runs were thrown away and made again, since something else used the CPUs.\n");
  }
  if (c.disturbed > 0) {
    absl::StrAppend(&text, c.disturbed,
                    " runs count although something else used the CPUs meanwhile: repeat this on a "
                    "quiet machine.\n");
  }
  return text;
}

std::string FeaturesText(const FeaturesResult& result) {
  const Conditions& c = result.conditions;
  const std::vector<Series>& ours = result.variants;
  std::string text = absl::StrFormat(
      "macvlan: Add support for 'always_on' offload features (mail of 3 March 2014)\n\n"
      "TCP from one host to another, on two macvlans in bridge mode over one lower device without "
      "offloads; MTU 1500, copying\nwrites and reads of 16 KiB, CUBIC. One thread, %s; %d runs of "
      "%g s of each by turns.\n\n",
      Placement(c), c.pairs, c.seconds);
  text += Row("Mbit/s", "the mail", "ours: median (min - max)");
  text += Row("always_on: the macvlans' own offloads", absl::StrFormat("%.2f", kMailAlwaysOn),
              Spread(ours[0].values, kMega));
  text += Row("inherited: none, TCP builds single segments",
              absl::StrFormat("%.2f", kMailInherited), Spread(ours[1].values, kMega));
  text += Row("inherited_late: none, cut before the macvlan", "-", Spread(ours[2].values, kMega));
  text += Row("always_on / inherited", absl::StrFormat("%.2f", kMailFeaturesRatio),
              RatioSpread(ours[0], ours[1]));
  text += Row("always_on / inherited_late", "", RatioSpread(ours[0], ours[2]));
  return absl::StrCat(text, FeaturesKernel(result), FeaturesVerdict(result), Quietness(c));
}

std::string RxText(const RxResult& result) {
  const Conditions& c = result.conditions;
  std::string text = absl::StrFormat(
      "macvlan: optimize the receive path (mail of 10 October 2014)\n\n"
      "N parallel TCP connections, one byte each way, to a host on a macvlan; transactions per "
      "second. The server's thread is %s;\n%d runs of %g s of each variant by turns (%g s where "
      "the "
      "client is the kernel or another thread).\n",
      Placement(c), c.pairs, c.seconds, c.side_seconds);
  text += SourceTable(result.veth);
  for (const RxSource& source : result.others) text += SourceTable(source);
  return absl::StrCat(text, RxKernel(result.kernel), RxNotes(result), Quietness(c));
}

}  // namespace tapwire::apps::lab
