// SPDX-License-Identifier: Apache-2.0
#include "apps/command.h"
#include "apps/start_up.h"

int main(int argc, char** argv) {
  tapwire::apps::OpenMissingStandardDescriptors();
  return tapwire::apps::RunCommandLine(argc, argv);
}
