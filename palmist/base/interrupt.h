/// Ctrl-C and SIGTERM as a request to finish early with what there is.
#pragma once

namespace palmist {

/// Makes the first SIGINT or SIGTERM set a flag, and the second end the process at once with
/// 128 + the signal's number (130 for Ctrl-C). A signal that was ignored at the start stays so.
void InstallInterruptHandler();

/// Returns true once a signal came. Cheap: long work asks at every round.
bool InterruptRequested();

/// Returns the number of the first signal that came, or 0.
int InterruptSignal();

}  // namespace palmist
