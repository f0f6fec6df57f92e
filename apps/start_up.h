// SPDX-License-Identifier: Apache-2.0
// What a process has to put right before it does anything else.
#pragma once

namespace tapwire::apps {

// Opens /dev/null where standard input, output or error is closed. Otherwise the next descriptor,
// an event loop's say, would take that number: messages would go into it, and libuv ends a process
// that closes such a one.
void OpenMissingStandardDescriptors();

// A signal that does nothing until somebody handles it: SIGUSR1 must not kill a program that is
// about to answer it, and writing to a closed pipe (SIGPIPE) is an error, not a reason to die.
// Unlike SIG_IGN this does not pass on to programs that are executed.
void CatchSignal(int signal_number);

}  // namespace tapwire::apps
