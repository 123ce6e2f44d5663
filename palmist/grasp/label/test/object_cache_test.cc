#include "palmist/grasp/label/object_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "palmist/grasp/core/mesh_shapes.h"
#include "palmist/grasp/formats/test/test_files.h"
#include "palmist/grasp/label/content_key.h"
#include "palmist/grasp/label/run_labels.h"
#include "palmist/grasp/label/test/label_dataset.h"

namespace palmist::grasp {
namespace {

using ::testing::HasSubstr;

/// Labelled boxes, the objects 0, 1 and 2.
class ObjectCacheTest : public ::testing::Test {
 protected:
  ObjectCacheTest() {
    std::filesystem::create_directories(paths_.Scene(0));
    LabelRunOptions options;
    options.label.spacing_m = 0.03;
    options.label.views = 20;
    for (int i = 0; i < 3; ++i) AddModel(paths_, i, BoxMesh(Vector3d(0.03, 0.05, 0.04 + 0.01 * i)));
    RunLabels(paths_.root, options).value();
  }

  std::string LabelsPath(int object) const { return SparseLabelsPath(paths_.root, object); }

  Folder folder_;
  DatasetPaths paths_{folder_.File("data")};
};

TEST_F(ObjectCacheTest, KeepsOnlyTheLabelsThatTheSceneNeeds) {
  const Dataset dataset = Dataset::Open(paths_.root).value();
  ObjectCache cache(dataset);
  const std::vector<int> first = {0, 1}, second = {2, 1};
  const std::vector<std::int64_t> keys = cache.Begin(first).value();
  const ObjectCache::Object* one = cache.Load(1).value();
  EXPECT_EQ(keys[1], KeyOf(*one->labels));
  EXPECT_FALSE(one->cloud_O.empty());
  EXPECT_EQ(cache.Begin(second).value()[1], keys[1]);
  std::filesystem::remove(LabelsPath(0));
  std::filesystem::remove(LabelsPath(1));
  std::filesystem::remove(LabelsPath(2));
  EXPECT_EQ(cache.Load(1).value(), one);
  EXPECT_TRUE(cache.Load(2).value()->labels.has_value());
  EXPECT_THAT(Message(cache.Load(0)), HasSubstr("000_sparse.npz: is missing"));
  // Keys do not need labels again.
  EXPECT_EQ(cache.Begin(first).value(), keys);
  EXPECT_THAT(Message(cache.Load(2)), HasSubstr("002_sparse.npz: is missing"));
}

TEST_F(ObjectCacheTest, RefusesLabelsOfAnotherModel) {
  AddModel(paths_, 1, BoxMesh(Vector3d(0.03, 0.05, 0.06)));
  const Dataset dataset = Dataset::Open(paths_.root).value();
  ObjectCache cache(dataset);
  const std::vector<int> ids = {0, 1};
  EXPECT_THAT(Message(cache.Begin(ids)), HasSubstr("001_sparse.npz: was made of another model"));
}

}  // namespace
}  // namespace palmist::grasp
