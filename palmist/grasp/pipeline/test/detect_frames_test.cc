#include "palmist/grasp/pipeline/detect_frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "palmist/base/file.h"
#include "palmist/base/progress.h"
#include "palmist/grasp/eval/run.h"
#include "palmist/grasp/formats/test/test_files.h"
#include "palmist/grasp/label/run_labels.h"
#include "palmist/grasp/pipeline/analytic_dataset.h"
#include "palmist/grasp/pipeline/oracle.h"

namespace palmist::grasp {
namespace {

using ::testing::HasSubstr;

/// One scene of six solids with coarse labels, made once for all tests.
class DetectFramesTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    SetProgressEnabled(false);
    root_ = ::testing::TempDir() + "palmist_detect_frames_" + std::to_string(::getpid());
    const std::vector<AnalyticScene> scenes = {SmallTable(1)};
    WriteAnalyticDataset(
        root_, scenes, {.frames = 2, .camera = LoadIntrinsics("realsense", 640, 360).value()})
        .value();
    LabelRunOptions labels;
    labels.label.spacing_m = 0.015;
    labels.label.views = 100;
    labels.label.threads = 2;
    ASSERT_TRUE(RunLabels(root_, labels).value().failed.empty());
    ASSERT_TRUE(RunSceneLabels(root_, labels).value().failed.empty());
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(root_); }

  DetectRun Detect(OrientationSource source, const std::string& dump) const {
    return DetectFrames(data_, {.sources = {source}, .dump = dump, .threads = 2}).value();
  }

  /// Returns the strict AP of a dump, of the grasps that do not collide: FAS sees no far sides.
  double ApOf(const std::string& dump) const {
    return EvaluateDump(data_, {.dump = dump, .rules = {ContactRule::kStrict}, .threads = 2})
        .value()
        .entries.at(0)
        .collisions_removed.all.precision.ap();
  }

  static std::string root_;
  Dataset data_ = Dataset::Open(root_).value();
  Folder folder_;
};

std::string DetectFramesTest::root_;

TEST_F(DetectFramesTest, EachSourceBeatsRandomOrientations) {
  std::map<OrientationSource, double> ap;
  for (const OrientationSource source : {OrientationSource::kOracle,
                                         OrientationSource::kTopDown,
                                         OrientationSource::kAntipodal,
                                         OrientationSource::kRandom}) {
    const std::string dump = folder_.File(ToString(source));
    const DetectRun run = Detect(source, dump);
    EXPECT_EQ(run.frames, 2);
    EXPECT_GT(run.grasps, 0) << ToString(source);
    ap[source] = ApOf(dump);
    RecordProperty(ToString(source), std::to_string(ap[source]));
  }
  EXPECT_GT(ap[OrientationSource::kOracle], ap[OrientationSource::kRandom]);
  EXPECT_GT(ap[OrientationSource::kTopDown], ap[OrientationSource::kRandom]);
  EXPECT_GT(ap[OrientationSource::kAntipodal], ap[OrientationSource::kRandom]);
  EXPECT_GT(ap[OrientationSource::kOracle], 0.2);
}

TEST_F(DetectFramesTest, ThreadsAndRepetitionDoNotMatter) {
  const FrameId id = {100, "realsense", 1};
  std::string bytes;
  for (const int threads : {1, 2}) {
    const std::string dump = folder_.File("dump" + std::to_string(threads));
    DetectFrames(data_,
                 {.sources = {OrientationSource::kOracle, OrientationSource::kAntipodal},
                  .frames = {1},
                  .dump = dump,
                  .threads = threads})
        .value();
    EXPECT_FALSE(std::filesystem::exists(DumpPath(dump, {100, "realsense", 0})));
    const std::string written = ReadFile(DumpPath(dump, id)).value();
    if (bytes.empty()) bytes = written;
    EXPECT_EQ(written, bytes);
  }
}

TEST_F(DetectFramesTest, TheOraclesCandidatesHoldAndAreFree) {
  Oracle oracle(data_, {.per_object = 50});
  const FrameId id = {100, "realsense", 0};
  const FrameImages frame = ReadFrame(data_, id).value();
  const std::vector<Candidate> candidates =
      oracle.Candidates(id, frame.depth, frame.camera).value();
  EXPECT_GT(candidates.size(), 100U);
  EXPECT_LE(candidates.size(), 300U);
  const Matrix4d X_TC0 = data_.Camera0WrtTable(100, "realsense").value();
  for (const Candidate& candidate : candidates) {
    EXPECT_GE(candidate.score, 0.1 - 1e-12);
    const Eigen::Vector4d tip =
        X_TC0 * (candidate.p_CG + 0.04 * candidate.R_CG.col(0)).homogeneous();
    EXPECT_GT(tip.z(), 0);
  }
}

TEST_F(DetectFramesTest, ErrorsNameWhatIsMissing) {
  EXPECT_THAT(Message(DetectFrames(data_, {.frames = {7}, .dump = folder_.File("dump")})),
              HasSubstr("has no frame 7"));
  const std::string copy = folder_.File("copy");
  std::filesystem::copy(root_, copy, std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(copy + "/collision_label");
  const Dataset unlabelled = Dataset::Open(copy).value();
  EXPECT_THAT(
      Message(DetectFrames(
          unlabelled, {.sources = {OrientationSource::kOracle}, .dump = folder_.File("dump")})),
      HasSubstr("palmist grasp label --data"));
}

TEST_F(DetectFramesTest, ReadsDepthByTheMetaFile) {
  const FrameId id = {100, "realsense", 0};
  const FrameImages frame = ReadFrame(data_, id).value();
  EXPECT_EQ(frame.camera.width, 640);
  EXPECT_NEAR(frame.depth.at(320, 180), 0.68, 0.15);
}

}  // namespace
}  // namespace palmist::grasp
