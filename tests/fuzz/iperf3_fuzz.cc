// SPDX-License-Identifier: Apache-2.0
//
// What a peer can put on an iperf3 control connection. The first byte chooses the end (server or
// client, and how far the test has come), the second how large the pieces are that it comes in.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include "apps/perf/iperf3_control.h"

namespace {

using namespace tapwire::apps::iperf3;

// Aborts if a machine breaks its promises.
void Require(bool holds) {
  if (!holds) std::abort();
}

class Client final : public ClientOwner {
 public:
  void SendControl(std::string bytes) override { Require(!bytes.empty()); }
  void OnParamExchange() override { Step(1); }
  void OnCreateStreams() override { Step(2); }
  void OnTestStart() override { Step(3); }
  void OnTestRunning() override { Step(4); }
  Results LocalResults() override {
    Step(5);
    return {};
  }
  void OnDisplayResults(const Results& peer) override {
    Step(6);
    Require(CoversStreams(peer, 2));
  }
  void OnFinished(std::optional<Error> error) override {
    Require(!finished_ && (error.has_value() || step_ == 6));
    if (error) Require(!ErrorText(*error).empty());
    finished_ = true;
  }

 private:
  void Step(int step) {
    Require(!finished_ && step == step_ + 1);
    step_ = step;
  }
  int step_ = 0;
  bool finished_ = false;
};

class Server final : public ServerOwner {
 public:
  void SendControl(std::string bytes) override { Require(!bytes.empty()); }
  std::optional<Error> OnParams(const Params& params) override {
    Step(1);
    Require(!CheckParams(params).has_value());
    Params again;
    Require(!ParseParams(EncodeParams(params), again).has_value());
    return std::nullopt;
  }
  void OnTestStart() override { Step(2); }
  void OnTestEnd() override { Step(3); }
  Results LocalResults() override {
    Step(4);
    return {};
  }
  void OnDisplayResults(const Results& peer) override {
    Step(5);
    Results again;
    Require(!ParseResults(EncodeResults(peer), again).has_value());
  }
  void OnFinished(std::optional<Error> error) override {
    Require(!finished_ && (error.has_value() || step_ == 5));
    finished_ = true;
  }

 private:
  void Step(int step) {
    Require(!finished_ && step == step_ + 1);
    step_ = step;
  }
  int step_ = 0;
  bool finished_ = false;
};

using Input = std::span<const uint8_t>;

template <typename Machine>
void Feed(Machine& machine, Input input, size_t piece) {
  while (!input.empty()) {
    const size_t size = std::min(piece, input.size());
    machine.OnBytes(input.first(size));
    input = input.subspan(size);
  }
}

Input Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string Cookie() { return std::string(36, 'a') + '\0'; }

void RunClient(int progress, Input input, size_t piece) {
  Client owner;
  Params params;
  params.parallel = 2;
  ClientControl client(params, Cookie(), owner);
  client.Start();
  if (progress > 0) Feed(client, Bytes("\x09\x0a\x01\x02"), 4);
  if (progress > 1) client.EndTest();
  if (progress > 2) Feed(client, Bytes("\x0d"), 1);
  Feed(client, input, piece);
  client.OnClosed();
}

void RunServer(int progress, Input input, size_t piece) {
  Server owner;
  ServerControl server(owner);
  if (progress > 0) Feed(server, Bytes(Cookie()), 37);
  if (progress > 1) Feed(server, Bytes(EncodeJson(R"({"tcp":true,"parallel":1})")), 64);
  if (progress > 1) server.StreamsReady();
  if (progress > 2) Feed(server, Bytes("\x04"), 1);
  Feed(server, input, piece);
  server.StreamsReady();
  server.OnClosed();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const size_t piece = std::max<size_t>(data[1], 1);
  const Input input(data + 2, size - 2);
  const int progress = (data[0] >> 1) % 4;
  if (data[0] % 2 == 0) {
    RunServer(progress, input, piece);
  } else {
    RunClient(progress, input, piece);
  }
  return 0;
}
