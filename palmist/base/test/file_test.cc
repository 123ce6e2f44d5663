#include "palmist/base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

namespace palmist {
namespace {

using ::testing::HasSubstr;

class FileTest : public ::testing::Test {
 protected:
  FileTest() {
    std::string pattern = ::testing::TempDir() + "palmist_file_test_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~FileTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  void Write(const std::string& name, const std::string& content) const {
    std::ofstream(Path(name), std::ios::binary) << content;
  }

  std::size_t EntryCount() const {
    const std::filesystem::directory_iterator entries(folder_);
    return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
  }

  std::string folder_;
};

TEST_F(FileTest, ReadsAllBytes) {
  std::string content(200'000, 'x');
  content[1000] = '\0';
  Write("a", content);
  EXPECT_EQ(*ReadFile(Path("a")), content);
  Write("empty", "");
  EXPECT_EQ(*ReadFile(Path("empty")), "");
}

TEST_F(FileTest, LimitIsInclusive) {
  Write("a", "12345");
  EXPECT_EQ(*ReadFile(Path("a"), 5), "12345");
  const auto result = ReadFile(Path("a"), 4);
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message(), HasSubstr("expected at most 4 B"));
  EXPECT_THAT(result.error().message(), HasSubstr(Path("a")));
}

TEST_F(FileTest, SaysWhyItCannotRead) {
  const auto missing = ReadFile(Path("none"));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind(), ErrorKind::kInput);
  EXPECT_THAT(missing.error().message(), HasSubstr(Path("none")));
  EXPECT_THAT(missing.error().message(), HasSubstr("no such file"));
  EXPECT_THAT(ReadFile(folder_).error().message(), HasSubstr("it is a folder"));
  Write("file", "");
  EXPECT_THAT(ReadFile(Path("file/below")).error().message(), HasSubstr("not a folder"));
}

TEST_F(FileTest, EndlessDeviceStopsAtTheLimit) {
  EXPECT_THAT(ReadFile("/dev/zero", 1'000'000).error().message(), HasSubstr("larger"));
}

TEST_F(FileTest, HugeSparseFileIsRefusedBeforeReading) {
  Write("sparse", "");
  std::filesystem::resize_file(Path("sparse"), std::uintmax_t{1} << 40);
  EXPECT_THAT(ReadFile(Path("sparse")).error().message(), HasSubstr("larger"));
}

TEST_F(FileTest, PipeWithoutWriterDoesNotHang) {
  ASSERT_EQ(::mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(*ReadFile(Path("pipe")), "");
}

TEST_F(FileTest, ReadsAPipe) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::string content(300'000, 'p');
  std::thread writer([&] {
    for (std::size_t i = 0; i < content.size(); i += 1000) {
      EXPECT_EQ(::write(ends[1], content.data() + i, 1000), 1000);
    }
    ::close(ends[1]);
  });
  EXPECT_EQ(*ReadFile("/dev/fd/" + std::to_string(ends[0])), content);
  writer.join();
  ::close(ends[0]);
}

TEST_F(FileTest, WritesAndReplaces) {
  ASSERT_TRUE(WriteFileAtomic(Path("out"), "first").ok());
  EXPECT_EQ(*ReadFile(Path("out")), "first");
  ASSERT_TRUE(WriteFileAtomic(Path("out"), "second").ok());
  EXPECT_EQ(*ReadFile(Path("out")), "second");
  EXPECT_EQ(EntryCount(), 1U);
}

TEST_F(FileTest, KeepsModeAndFollowsLinks) {
  Write("real", "old");
  ::chmod(Path("real").c_str(), 0640);
  std::filesystem::create_symlink("real", Path("link"));
  ASSERT_TRUE(WriteFileAtomic(Path("link"), "new").ok());
  EXPECT_EQ(*ReadFile(Path("real")), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(Path("link")));
  struct stat info {};
  ASSERT_EQ(::stat(Path("real").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0640U);
}

TEST_F(FileTest, NewFileHasTheUsualMode) {
  const mode_t before = ::umask(027);
  ASSERT_TRUE(WriteFileAtomic(Path("out"), "").ok());
  ::umask(before);
  struct stat info {};
  ASSERT_EQ(::stat(Path("out").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0640U);
}

TEST_F(FileTest, DevicesAreNotReplaced) {
  ASSERT_TRUE(WriteFileAtomic("/dev/null", "gone").ok());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(FileTest, SaysWhyItCannotWrite) {
  const auto missing = WriteFileAtomic(Path("none/out"), "x");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind(), ErrorKind::kInput);
  EXPECT_THAT(missing.error().message(), HasSubstr(Path("none/out")));
  EXPECT_THAT(missing.error().message(), HasSubstr("no such file or folder"));
  EXPECT_THAT(WriteFileAtomic(folder_, "x").error().message(), HasSubstr("it is a folder"));
}

TEST_F(FileTest, FailureWhileWritingKeepsTheOldFileAndLeavesNothing) {
  Write("out", "old");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto result = WriteFileAtomic(Path("out"), std::string(5000, 'x'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind(), ErrorKind::kRuntime);
  EXPECT_EQ(*ReadFile(Path("out")), "old");
  EXPECT_EQ(EntryCount(), 1U);
}

TEST_F(FileTest, FullDeviceIsARuntimeError) {
  const auto result = WriteFileAtomic("/dev/full", "x");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind(), ErrorKind::kRuntime);
  EXPECT_THAT(result.error().message(), HasSubstr("no space"));
}

}  // namespace
}  // namespace palmist
