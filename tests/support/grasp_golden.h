/// The numbers of the public evaluator that the checkout has, see palmist/grasp/eval/testdata.
#pragma once

#include <string>

#include "palmist/base/file.h"
#include "palmist/base/npy.h"

namespace palmist::test {

/// Returns a file or folder of the golden vectors; all of them for "".
inline std::string GraspGolden(const std::string& name = {}) {
  return PALMIST_SOURCE_DIR "/palmist/grasp/eval/testdata/golden/" + name;
}

inline NpyArray ReadGraspGolden(const std::string& name) {
  return ParseNpy(ReadFile(GraspGolden(name)).value()).value();
}

}  // namespace palmist::test
