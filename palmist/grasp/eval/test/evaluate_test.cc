#include "palmist/grasp/eval/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "palmist/grasp/eval/test/sphere_scene.h"

namespace palmist::grasp {
namespace {

using testing::ElementsAre;

class EvaluateFrameTest : public testing::Test {
 protected:
  /// Places balls 30 cm apart along x.
  void PlaceBalls(int n) {
    for (int i = 0; i < n; ++i) {
      centers_C_.push_back(Vector3d(0.3 * i, 0, 0.5));
      input_.objects.push_back(&ball_);
      input_.X_CO.push_back(ShiftedBy(centers_C_.back()));
    }
  }

  FrameResult Evaluate(ContactRule rule = ContactRule::kStrict, bool remove_colliding = false) {
    input_.grasps = grasps_;
    return EvaluateFrame(input_, {rule, remove_colliding});
  }

  /// Adds `n` grasps of a ball that the suppression keeps: turned about y by 31 degrees each.
  void AddTurnedGrasps(int ball, int n, double score, double step) {
    for (int i = 0; i < n; ++i) {
      Grasp grasp = BallGrasp(Vector3d::Zero(), score - i * step);
      const Matrix3d turn =
          Eigen::AngleAxisd(31 * i * M_PI / 180, Vector3d::UnitY()).toRotationMatrix();
      grasp.R_CG = turn * grasp.R_CG;
      grasp.p_CG = turn * grasp.p_CG + centers_C_[ball];
      grasps_.push_back(grasp);
    }
  }

  const ObjectModel ball_ = BallModel(3);
  std::vector<Vector3d> centers_C_;
  FrameInput input_;
  GraspGroup grasps_;
};

TEST(PrecisionTest, IsTheShareThatHoldsAndCountsMissingGraspsAsFailures) {
  std::array<std::array<double, 6>, 4> accuracy;
  const std::vector<double> scores = {0.4, kNoClosure, 0.2};
  Precision(scores, accuracy);
  EXPECT_THAT(accuracy[0], ElementsAre(0, 1, 1, 1, 1, 1));
  EXPECT_THAT(accuracy[1], ElementsAre(0, 0.5, 0.5, 0.5, 0.5, 0.5));
  EXPECT_THAT(accuracy[2], ElementsAre(1 / 3., 2 / 3., 2 / 3., 2 / 3., 2 / 3., 2 / 3.));
  EXPECT_THAT(accuracy[3], ElementsAre(0.25, 0.5, 0.5, 0.5, 0.5, 0.5));
}

TEST(PrecisionTest, MeansAreOverRanksAndFrames) {
  std::vector<Accuracy> accuracies(2);
  for (auto& rank : accuracies[0]) rank = {0, 0.5, 1, 1, 1, 1};
  const AveragePrecision mean = MeanPrecision(accuracies);
  EXPECT_NEAR(mean.of_friction[0], 0, 1e-15);
  EXPECT_NEAR(mean.ap_04(), 0.25, 1e-14);
  EXPECT_NEAR(mean.ap_08(), 0.5, 1e-14);
  EXPECT_NEAR(mean.ap(), 4.5 / 12, 1e-14);
  EXPECT_EQ(MeanPrecision({}).ap(), 0);
}

TEST(CountPointsTest, LimitsAreStrictButThoseOfTheInside) {
  Grasp grasp;  // the gripper's frame is the camera's
  grasp.width_m = 0.0625;
  grasp.depth_m = 0.03125;
  const auto count = [&](double x, double y, double z) {
    const std::vector<Vector3d> points = {Vector3d(x, y, z)};
    const PointCounts counts = CountPoints(grasp, points);
    return std::array{counts.left_finger, counts.right_finger, counts.palm, counts.inside};
  };
  EXPECT_THAT(count(0, 0, 0), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(count(0, 0.03125, 0), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(count(0, -0.03125, 0), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(count(0, 0.032, 0), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(count(0, -0.032, 0), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(count(0, 0.0414, 0), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(count(0.03125, 0, 0), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(count(0.031, 0, 0), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(count(-0.0201, 0, 0), ElementsAre(0, 0, 1, 0));
  EXPECT_THAT(count(-0.0299, 0.04, 0), ElementsAre(0, 0, 1, 0));
  EXPECT_THAT(count(-0.0301, 0, 0), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(count(-0.02, 0, 0), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(count(0, 0, 0.01), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(count(0, 0, -0.0099), ElementsAre(0, 0, 0, 1));
}

TEST(TableTest, IsAMetreSquareInSixLayers) {
  const TablePoints table = PublicTable();
  ASSERT_EQ(table.x_m.size(), 125u);
  EXPECT_EQ(table.x_m, table.y_m);
  EXPECT_EQ(table.x_m.front(), -0.5);
  EXPECT_EQ(table.x_m.back(), 0.5);
  EXPECT_NEAR(table.x_m[62], 0, 1e-15);
  ASSERT_EQ(table.z_m.size(), 6u);
  EXPECT_EQ(table.z_m.front(), -0.05);
  EXPECT_EQ(table.z_m.back(), 0);
}

TEST_F(EvaluateFrameTest, NoGraspsAreAResult) {
  PlaceBalls(1);
  const FrameResult result = Evaluate();
  EXPECT_TRUE(result.evaluated.empty());
  EXPECT_EQ(MeanPrecision({&result.accuracy, 1}).ap(), 0);
}

TEST_F(EvaluateFrameTest, NoObjectsAreAResult) {
  grasps_.push_back(BallGrasp(Vector3d(0, 0, 0.5), 1));
  const FrameResult result = Evaluate();
  EXPECT_TRUE(result.evaluated.empty());
  EXPECT_EQ(MeanPrecision({&result.accuracy, 1}).ap(), 0);
}

TEST_F(EvaluateFrameTest, OneGoodGraspCountsAtEveryRank) {
  PlaceBalls(1);
  grasps_.push_back(BallGrasp(centers_C_[0], 1));
  const FrameResult result = Evaluate();
  ASSERT_EQ(result.evaluated.size(), 1u);
  EXPECT_FALSE(result.evaluated[0].counts.collides());
  EXPECT_EQ(result.evaluated[0].score, 0.2);
  for (int k = 0; k < kRanks; ++k) {
    for (const double value : result.accuracy[k]) EXPECT_EQ(value, 1.0 / (k + 1));
  }
  // Along the grid through the centre, the public method finds no contact.
  EXPECT_EQ(Evaluate(ContactRule::kCompat).evaluated[0].score, kNoClosure);
}

TEST_F(EvaluateFrameTest, TheTableCollides) {
  PlaceBalls(1);
  grasps_.push_back(BallGrasp(centers_C_[0], 1));
  input_.table = PublicTable();
  // The table's top faces the camera, at the fingers' tips and then 2 cm behind them.
  input_.X_CT.topLeftCorner<3, 3>() = Eigen::AngleAxisd(M_PI, Vector3d::UnitX()).toRotationMatrix();
  input_.X_CT.topRightCorner<3, 1>() = centers_C_[0] - Vector3d(0, 0, 0.005);
  const EvaluatedGrasp colliding = Evaluate().evaluated[0];
  EXPECT_GT(colliding.counts.left_finger, 0);
  EXPECT_GT(colliding.counts.right_finger, 0);
  EXPECT_EQ(colliding.score, kNoClosure);
  EXPECT_EQ(colliding.closure_score, 0.2);
  input_.X_CT.topRightCorner<3, 1>() = centers_C_[0] + Vector3d(0, 0, 0.02);
  EXPECT_EQ(Evaluate().evaluated[0].score, 0.2);
}

TEST_F(EvaluateFrameTest, WidthsAreClipped) {
  PlaceBalls(1);
  grasps_.push_back(BallGrasp(centers_C_[0], 1));
  grasps_[0].width_m = 0.3;
  EXPECT_EQ(Evaluate().evaluated[0].line.width_m, 0.1);
  grasps_[0].width_m = -1;
  EXPECT_EQ(Evaluate().evaluated[0].score, kNoClosure);
}

TEST_F(EvaluateFrameTest, GraspsGoToTheNearestObjectAndTenOfEachAreTaken) {
  PlaceBalls(2);
  AddTurnedGrasps(1, 11, 0.9, 0.01);
  AddTurnedGrasps(0, 3, 0.5, 0.01);
  const FrameResult result = Evaluate(ContactRule::kCompat);
  EXPECT_EQ(result.kept_rows.size(), 14u);
  ASSERT_EQ(result.evaluated.size(), 13u);
  std::vector<std::size_t> rows;
  for (const EvaluatedGrasp& grasp : result.evaluated) {
    rows.push_back(grasp.row);
    EXPECT_EQ(grasp.object, grasp.row < 11 ? 1 : 0);
  }
  EXPECT_THAT(rows, ElementsAre(11, 12, 13, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(result.order, ElementsAre(3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 1, 2));
}

TEST_F(EvaluateFrameTest, TheBest50AreTakenAndThoseThatShareThe50thScore) {
  PlaceBalls(6);
  for (int ball = 0; ball < 6; ++ball) AddTurnedGrasps(ball, 10, 1 - 0.1 * ball, 0.001);
  EXPECT_EQ(Evaluate(ContactRule::kCompat).evaluated.size(), 50u);

  grasps_.clear();
  for (int ball = 0; ball < 6; ++ball) AddTurnedGrasps(ball, 10, 1, 0);
  const FrameResult tied = Evaluate(ContactRule::kCompat);
  EXPECT_EQ(tied.evaluated.size(), 60u);
  for (std::size_t i = 0; i < tied.order.size(); ++i) {
    EXPECT_EQ(tied.evaluated[tied.order[i]].row, i) << "the lower row is the better one";
  }
}

TEST_F(EvaluateFrameTest, CollidingGraspsAreReplacedWhereTheyAreRemoved) {
  PlaceBalls(1);
  // Twelve that meet the ball with a finger, then one that is good.
  for (int i = 0; i < 12; ++i) {
    Grasp grasp = BallGrasp(centers_C_[0], 1 - 0.01 * i);
    const Matrix3d turn =
        Eigen::AngleAxisd(31 * i * M_PI / 180, Vector3d::UnitZ()).toRotationMatrix();
    grasp.R_CG = turn * grasp.R_CG;
    grasp.width_m = 0.03;
    grasps_.push_back(grasp);
  }
  grasps_.push_back(BallGrasp(centers_C_[0], 0.1));
  grasps_.back().R_CG.col(0) *= -1;
  grasps_.back().R_CG.col(2) *= -1;
  grasps_.back().p_CG.z() += 2 * grasps_.back().depth_m;
  const FrameResult kept = Evaluate();
  ASSERT_EQ(kept.evaluated.size(), 6u) << "five of the twelve differ by 30 degrees or more";
  EXPECT_EQ(kept.evaluated[kept.order[0]].score, kNoClosure);
  const FrameResult removed = Evaluate(ContactRule::kStrict, true);
  ASSERT_EQ(removed.evaluated.size(), 1u);
  EXPECT_EQ(removed.evaluated[0].row, 12u);
  EXPECT_EQ(removed.accuracy[0][0], 1);
}

TEST_F(EvaluateFrameTest, OnlyStrictKnowsThatTheFingersAreAlike) {
  PlaceBalls(1);
  grasps_.push_back(BallGrasp(centers_C_[0], 1));
  grasps_.push_back(BallGrasp(centers_C_[0], 0.5));
  grasps_[1].R_CG.col(1) *= -1;
  grasps_[1].R_CG.col(2) *= -1;
  EXPECT_EQ(Evaluate(ContactRule::kStrict).kept_rows.size(), 1u);
  EXPECT_EQ(Evaluate(ContactRule::kCompat).kept_rows.size(), 2u);
}

TEST_F(EvaluateFrameTest, MovingTheCameraChangesNothingInStrict) {
  PlaceBalls(3);
  for (int ball = 0; ball < 3; ++ball) {
    for (int i = 0; i < 4; ++i) {
      grasps_.push_back(BallGrasp(centers_C_[ball], 1 - 0.1 * i - 0.01 * ball, 0.005 * i));
    }
  }
  const FrameResult before = Evaluate();
  Isometry3d X_DC = Isometry3d::Identity();
  X_DC.translate(Vector3d(0.1, -0.2, 0.3));
  X_DC.rotate(Eigen::AngleAxisd(0.7, Vector3d(1, 2, 3).normalized()));
  for (Grasp& grasp : grasps_) {
    grasp.R_CG = X_DC.rotation() * grasp.R_CG;
    grasp.p_CG = X_DC * grasp.p_CG;
  }
  for (Eigen::Matrix4f& X_CO : input_.X_CO) {
    X_CO = (X_DC.matrix() * X_CO.cast<double>()).cast<float>();
  }
  const FrameResult after = Evaluate();
  EXPECT_GT(MeanPrecision({&before.accuracy, 1}).ap(), 0);
  EXPECT_EQ(before.accuracy, after.accuracy);
  EXPECT_EQ(before.kept_rows, after.kept_rows);
}

}  // namespace
}  // namespace palmist::grasp
