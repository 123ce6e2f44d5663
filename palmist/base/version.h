/// What this build is.
#pragma once

namespace palmist {

/// Returns the version of the program, such as "0.1.0".
const char* Version();

/// Returns the build options in one line, such as "Release, GNU 12.2.0, torch off".
const char* BuildOptions();

}  // namespace palmist
