#include "palmist/base/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

namespace palmist {
namespace {

std::atomic<int> g_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may touch it");

extern "C" void HandleInterrupt(int signal) {
  int none = 0;
  if (!g_signal.compare_exchange_strong(none, signal)) ::_exit(128 + signal);
}

}  // namespace

void InstallInterruptHandler() {
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = HandleInterrupt;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
}

bool InterruptRequested() { return g_signal.load(std::memory_order_relaxed) != 0; }

int InterruptSignal() { return g_signal; }

}  // namespace palmist
