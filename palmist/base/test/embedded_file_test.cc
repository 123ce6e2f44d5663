#include "palmist/base/embedded_file.h"

#include <gtest/gtest.h>

#include "palmist/base/file.h"
#include "palmist/sample_files.h"

namespace palmist {
namespace {

const std::string kFolder = std::string(PALMIST_SOURCE_DIR) + "/palmist/base/";

TEST(EmbeddedFiles, KeepNamesOrderAndBytes) {
  ASSERT_EQ(kSampleFiles.size(), 3U);
  EXPECT_EQ(kSampleFiles[0].name, "embed/bytes.bin");
  EXPECT_EQ(kSampleFiles[0].content, *ReadFile(kFolder + "testdata/embed/bytes.bin"));
  EXPECT_EQ(kSampleFiles[1].name, "embed/empty.txt");
  EXPECT_EQ(kSampleFiles[1].content, "");
  // A file outside the base folder goes by its last part.
  EXPECT_EQ(kSampleFiles[2].name, "CMakeLists.txt");
  EXPECT_EQ(kSampleFiles[2].content, *ReadFile(kFolder + "CMakeLists.txt"));
}

TEST(EmbeddedFiles, EndWithAZeroByte) {
  for (const EmbeddedFile& file : kSampleFiles) {
    EXPECT_EQ(file.content.data()[file.content.size()], '\0');
  }
}

// Constant-initialized, so usable before main() and by other initializers.
const std::size_t kCountAtStart = kSampleFiles.size();

TEST(EmbeddedFiles, AreReadyAtStart) { EXPECT_EQ(kCountAtStart, 3U); }

}  // namespace
}  // namespace palmist
