# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the scripts of this folder share: timed steps that name themselves when they fail, and the
# way to root. Sourced, never run; callers have set -euo pipefail already.

tw_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tw_script=${0##*/}
tw_step=
tw_cleanups=()
# Some tools of the tests (bridge, sysctl) are in folders that a user's PATH lacks on Debian.
export PATH=$PATH:/usr/sbin:/sbin

# now_ms: wall-clock milliseconds, from bash alone.
now_ms() {
  local t=${EPOCHREALTIME/[.,]/}
  printf '%s\n' "$((t / 1000))"
}

# seconds_since START_MS: "12.3".
seconds_since() {
  local ms=$(($(now_ms) - $1))
  printf '%d.%d' "$((ms / 1000))" "$((ms % 1000 / 100))"
}

# step "what it does" COMMAND...: runs the command (or function) and says how long it took. The
# command is not part of a condition, so that `set -e` stays in force inside a function.
step() {
  local outer=$tw_step start
  tw_step=$1
  shift
  start=$(now_ms)
  printf '==> %s\n' "$tw_step"
  "$@"
  printf '    %s: %s s\n' "$tw_step" "$(seconds_since "$start")"
  tw_step=$outer
}

# die MESSAGE...: one line on stderr, then out.
die() {
  printf '%s: %s\n' "$tw_script" "$*" >&2
  tw_step=
  exit 1
}

# at_exit COMMAND: runs at the end, in reverse order of registration, whatever the result.
at_exit() { tw_cleanups+=("$1"); }

tw_on_exit() {
  local rc=$? i
  set +e
  for ((i = ${#tw_cleanups[@]} - 1; i >= 0; i--)); do
    eval "${tw_cleanups[i]}"
  done
  if ((rc != 0)) && [[ -n $tw_step ]]; then
    printf '%s: FAILED (exit %d) in: %s\n' "$tw_script" "$rc" "$tw_step" >&2
  fi
  exit "$rc"
}
trap tw_on_exit EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# as_root COMMAND...: runs it as root, through sudo when we are not root.
as_root() {
  if ((EUID == 0)); then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo -- "$@"
  else
    die "'$1' needs root: run this as root or install sudo"
  fi
}

# jobs_default: how many compilers or tests to run at once; TAPWIRE_JOBS overrides it.
jobs_default() { printf '%s\n' "${TAPWIRE_JOBS:-$(nproc)}"; }

# test_jobs: how many tests to run at once: a third of them waits for the kernel most of the time.
test_jobs() { printf '%s\n' "${TAPWIRE_JOBS:-$(($(nproc) + 2))}"; }

# configure_and_build PRESET [TARGET...]: the usual two CMake steps, the second one limited to
# the targets if there are any. TAPWIRE_WERROR=ON makes warnings errors.
configure_and_build() {
  local preset=$1 targets=()
  shift
  if (($# > 0)); then
    targets=(--target "$@")
  fi
  cd "$tw_root" || return
  step "configure build/$preset" \
    quiet_unless_it_fails cmake --preset "$preset" "-DTAPWIRE_WERROR=${TAPWIRE_WERROR:-OFF}"
  step "build build/$preset${1:+ ($*)}" \
    cmake --build --preset "$preset" --parallel "$(jobs_default)" "${targets[@]}"
}

# quiet_unless_it_fails COMMAND...: keeps its output for the case that it is wanted.
quiet_unless_it_fails() {
  local log rc=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 || rc=$?
  if ((rc != 0)); then
    cat "$log" >&2
  fi
  rm -f "$log"
  return "$rc"
}

# ctest_in_short PRESET ARGUMENT...: only ctest's verdict, or all of its output when it is bad.
ctest_in_short() {
  local preset=$1 log rc=0
  shift
  log=$(mktemp)
  ctest --preset "$preset" --no-tests=error --parallel "$(jobs_default)" "$@" >"$log" 2>&1 || rc=$?
  if ((rc != 0)); then
    cat "$log"
  else
    grep -E '^[0-9]+% tests passed' "$log" || true
  fi
  rm -f "$log"
  return "$rc"
}

# ---- namespaces and processes ----

# wait_until SECONDS COMMAND...: repeats the command until it succeeds; fails after that time.
wait_until() {
  local seconds=$1 end
  shift
  end=$(($(now_ms) + seconds * 1000))
  until "$@"; do
    (($(now_ms) < end)) || return 1
    sleep 0.05
  done
}

# has_own_net PID: the process is in another network namespace than this one.
has_own_net() { [[ $(readlink "/proc/$1/ns/net") != "$(readlink /proc/self/ns/net)" ]]; }

# in_net_of PID COMMAND...: runs the command in the network namespace of a process.
in_net_of() {
  local pid=$1
  shift
  nsenter --net="/proc/$pid/ns/net" -- "$@"
}

# stop_process [PID [-SIGNAL]]: ends a process that this script started and waits for it.
stop_process() {
  if [[ -n ${1:-} ]] && kill -0 "$1" 2>/dev/null; then
    kill "${2:--TERM}" "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
  fi
}
