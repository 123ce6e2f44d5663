#include "palmist/base/version.h"

namespace palmist {

const char* Version() { return PALMIST_VERSION; }

const char* BuildOptions() { return PALMIST_BUILD_OPTIONS; }

}  // namespace palmist
