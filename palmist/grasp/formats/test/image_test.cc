#include "palmist/grasp/formats/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "palmist/base/npy.h"
#include "test_files.h"

namespace palmist::grasp {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

// What testdata/make_files.py puts into its images.
constexpr int kWidth = 5, kHeight = 3;
int Grey16(int u, int v) { return 1000 * v + 7 * u; }
int Grey8(int u, int v) { return 40 * v + 7 * u; }

template <typename Value>
std::vector<float> Expected(Value value) {
  std::vector<float> values;
  for (int v = 0; v < kHeight; ++v) {
    for (int u = 0; u < kWidth; ++u) values.push_back(static_cast<float>(value(u, v)));
  }
  return values;
}

void ExpectDepth(const std::string& name, const std::vector<float>& expected, bool is_integer) {
  const auto depth = ReadDepthValues(TestData("files/" + name));
  ASSERT_TRUE(depth.ok()) << Message(depth);
  EXPECT_EQ(depth->width, kWidth) << name;
  EXPECT_EQ(depth->height, kHeight) << name;
  EXPECT_EQ(depth->is_integer, is_integer) << name;
  EXPECT_EQ(depth->values, expected) << name;
}

TEST(Image, ReadsDepthOfEveryKind) {
  ExpectDepth("grey16_gamma.png", Expected(Grey16), true);
  ExpectDepth("grey8.png", Expected(Grey8), true);
  ExpectDepth("grey16_big_endian.tif", Expected(Grey16), true);
  ExpectDepth("grey16_deflate.tif", Expected(Grey16), true);
  ExpectDepth("grey8_packbits.tif", Expected(Grey8), true);
  ExpectDepth("grey8_bigtiff.tif", Expected(Grey8), true);
  ExpectDepth(
      "metres_lzw.tif", Expected([](int u, int v) { return Grey16(u, v) / 1000.0; }), false);
}

TEST(Image, ReadsDepthArrays) {
  const std::vector<double> metres = {0.5, std::numeric_limits<double>::quiet_NaN(), 1.25, 2};
  const auto depth = ParseDepthValues(WriteNpy(MakeNpyArray<double>({1, 4}, metres)));
  ASSERT_TRUE(depth.ok()) << Message(depth);
  EXPECT_EQ(depth->width, 4);
  EXPECT_FALSE(depth->is_integer);
  EXPECT_EQ(depth->values[2], 1.25F);
  EXPECT_TRUE(std::isnan(depth->values[1]));
  const std::vector<std::uint16_t> millimetres = {500, 65535};
  const auto integers =
      ParseDepthValues(WriteNpy(MakeNpyArray<std::uint16_t>({2, 1}, millimetres)));
  ASSERT_TRUE(integers.ok()) << Message(integers);
  EXPECT_TRUE(integers->is_integer);
  EXPECT_EQ(integers->values[1], 65535.0F);
  EXPECT_THAT(Message(ParseDepthValues(WriteNpy(MakeNpyArray<double>({4}, metres)))),
              HasSubstr("expected an array (height, width), got 1 dimensions"));
  const std::vector<std::int64_t> wide = {1};
  EXPECT_THAT(Message(ParseDepthValues(WriteNpy(MakeNpyArray<std::int64_t>({1, 1}, wide)))),
              HasSubstr("got <i8"));
  EXPECT_THAT(Message(ParseDepthValues(WriteNpy(MakeNpyArray<double>({0, 4}, {})))),
              HasSubstr("got 4 x 0"));
}

TEST(Image, ReadsColourOfEveryKind) {
  for (const char* name : {"rgb.png", "rgba.png", "palette.png", "rgb.tif", "rgb16.tif"}) {
    const auto color = ReadColor(TestData(std::string("files/") + name));
    ASSERT_TRUE(color.ok()) << Message(color);
    ASSERT_EQ(color->width, kWidth) << name;
    ASSERT_EQ(color->height, kHeight) << name;
    for (int v = 0; v < kHeight; ++v) {
      for (int u = 0; u < kWidth; ++u) {
        const std::uint8_t* pixel = color->rgb.data() + 3 * (v * kWidth + u);
        EXPECT_EQ(pixel[0], Grey8(u, v)) << name;
        EXPECT_EQ(pixel[1], 255 - Grey8(u, v)) << name;
        EXPECT_EQ(pixel[2], 3 * u) << name;
      }
    }
  }
}

TEST(Image, GreyBecomesGreyColour) {
  for (const char* name : {"grey8.png", "grey8_packbits.tif"}) {
    const auto color = ReadColor(TestData(std::string("files/") + name));
    ASSERT_TRUE(color.ok()) << Message(color);
    EXPECT_EQ(color->rgb[3 * 6], Grey8(1, 1));
    EXPECT_EQ(color->rgb[3 * 6 + 1], Grey8(1, 1));
    EXPECT_EQ(color->rgb[3 * 6 + 2], Grey8(1, 1));
  }
}

TEST(Image, SaysWhatIsWrong) {
  const auto depth = [](const char* name) {
    return Message(ReadDepthValues(TestData(std::string("files/") + name)));
  };
  EXPECT_THAT(depth("rgb.png"), AllOf(HasSubstr("rgb.png"), HasSubstr("expected a grey PNG")));
  EXPECT_THAT(depth("palette.png"), HasSubstr("got a palette"));
  EXPECT_THAT(depth("rgb.tif"), HasSubstr("expected a grey TIFF, got 3 channels"));
  EXPECT_THAT(depth("tiles.tif"), HasSubstr("in tiles or planes"));
  EXPECT_THAT(depth("stored.npz"), HasSubstr("expected a PNG, TIFF or .npy file"));
  EXPECT_THAT(depth("missing.png"), HasSubstr("missing.png"));
  EXPECT_THAT(Message(ReadColor(TestData("files/metres_lzw.tif"))), HasSubstr("got float32"));
  EXPECT_THAT(Message(ReadLabels(TestData("files/metres_lzw.tif"))), HasSubstr("got floats"));
  EXPECT_THAT(Message(ParseColor("")), HasSubstr("neither"));
}

TEST(Image, EveryTruncationIsAnErrorAndSilent) {
  ::testing::internal::CaptureStderr();
  struct File {
    const char* name;
    bool is_color, is_depth;
  };
  for (const auto& [name, is_color, is_depth] : {File{"grey16_gamma.png", true, true},
                                                 File{"rgb.png", true, false},
                                                 File{"palette.png", true, false},
                                                 File{"grey16_big_endian.tif", true, true},
                                                 File{"grey16_deflate.tif", true, true},
                                                 File{"metres_lzw.tif", false, true},
                                                 File{"grey8_packbits.tif", true, true}}) {
    const std::string bytes = ReadFile(TestData(std::string("files/") + name)).value();
    EXPECT_EQ(ParseColor(bytes).ok(), is_color) << name;
    EXPECT_EQ(ParseDepthValues(bytes).ok(), is_depth) << name;
    // tifffile pads the end of a file by up to 16 bytes, which nobody misses.
    const bool is_png = std::string(name).ends_with(".png");
    for (std::size_t size = 0; size < bytes.size() - (is_png ? 0 : 17); ++size) {
      const std::string_view cut = std::string_view(bytes).substr(0, size);
      EXPECT_FALSE(is_color && ParseColor(cut).ok()) << name << " " << size;
      EXPECT_FALSE(is_depth && ParseDepthValues(cut).ok()) << name << " " << size;
    }
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(Image, ReadsWhatCompressesWell) {
  // 16 million black pixels of one bit in about 2 kB.
  const auto color = ReadColor(TestData("files/black_1bit.png"));
  ASSERT_TRUE(color.ok()) << Message(color);
  EXPECT_EQ(color->width, 4000);
  EXPECT_EQ(color->height, 4000);
  EXPECT_EQ(*std::max_element(color->rgb.begin(), color->rgb.end()), 0);
}

TEST(Image, RefusesWhatTheBytesCannotHold) {
  std::string bytes = ReadFile(TestData("files/grey16_big_endian.tif")).value();
  // ImageWidth (tag 256), as a big-endian SHORT or LONG, becomes large.
  const std::size_t tag = bytes.find(std::string("\x01\x00\x00", 3));
  ASSERT_NE(tag, std::string::npos);
  const bool is_short = bytes[tag + 3] == 3;
  bytes[tag + (is_short ? 8 : 9)] = '\x7f';
  EXPECT_THAT(Message(ParseDepthValues(bytes)), HasSubstr("cannot hold"));
  // 3 MB of pixels, which 700 bytes hold only where one channel of three is counted.
  bytes = ReadFile(TestData("files/rgb.png")).value();
  constexpr std::size_t kWidthOffset = 16, kCrcOffset = 29;
  bytes.replace(kWidthOffset, 8, std::string("\0\0\x03\xe8\0\0\x03\xe8", 8));
  bytes.replace(kCrcOffset, 4, "\xc2\xc1\x43\xb3");
  bytes.resize(700);
  EXPECT_THAT(Message(ParseColor(bytes)), HasSubstr("700 bytes cannot hold 1000 x 1000 pixels"));
}

TEST(Image, SurvivesWritingAndReading) {
  const Folder folder;
  const DepthImage depth{2, 2, {0, 0.5F, 1.2344F, 65.535F}};
  ASSERT_TRUE(WriteDepthPng(folder.File("depth.png"), depth).ok());
  const auto values = ReadDepthValues(folder.File("depth.png"));
  ASSERT_TRUE(values.ok()) << Message(values);
  EXPECT_THAT(values->values, ElementsAreArray({0, 500, 1234, 65535}));

  ColorImage color{3, 2, {}};
  for (int i = 0; i < 18; ++i) color.rgb.push_back(static_cast<std::uint8_t>(13 * i));
  ASSERT_TRUE(WriteColorPng(folder.File("color.png"), color).ok());
  EXPECT_EQ(ReadColor(folder.File("color.png")).value().rgb, color.rgb);

  for (const std::uint16_t largest : {std::uint16_t{255}, std::uint16_t{256}}) {
    const LabelImage labels{1, 3, {0, 7, largest}};
    ASSERT_TRUE(WriteLabelsPng(folder.File("labels.png"), labels).ok());
    EXPECT_EQ(ReadLabels(folder.File("labels.png")).value().ids, labels.ids);
    constexpr std::size_t kBitDepthOffset = 24;
    EXPECT_EQ(ReadFile(folder.File("labels.png")).value()[kBitDepthOffset], largest > 255 ? 16 : 8);
  }
}

TEST(Image, RefusesToWriteWhatDoesNotFit) {
  const Folder folder;
  EXPECT_THAT(Message(WriteDepthPng(folder.File("a.png"), {1, 1, {65.6F}})),
              AllOf(HasSubstr("a.png"), HasSubstr("does not fit into 16 bits")));
  EXPECT_THAT(Message(WriteDepthPng(folder.File("a.png"), {1, 1, {-0.1F}})), HasSubstr("16 bits"));
  EXPECT_THAT(Message(WriteColorPng(folder.File("a.png"), {0, 0, {}})), HasSubstr("0 x 0"));
  EXPECT_FALSE(WriteColorPng("/nowhere/a.png", {1, 1, {0, 0, 0}}).ok());
}

TEST(Image, ReadsARealCamerasPair) {
  const std::string frames = SharedData("frames");
  PALMIST_SKIP_WITHOUT(frames);
  const auto depth = ReadDepthValues(frames + "/kinect_laptop_depth.tiff");
  ASSERT_TRUE(depth.ok()) << Message(depth);
  EXPECT_EQ(depth->width, 640);
  EXPECT_EQ(depth->height, 480);
  EXPECT_TRUE(depth->is_integer);
  const auto valid =
      std::count_if(depth->values.begin(), depth->values.end(), [](float z) { return z > 0; });
  EXPECT_NEAR(static_cast<double>(valid) / (640 * 480), 0.88, 0.005);
  const auto color = ReadColor(frames + "/kinect_laptop_rgb.tiff");
  ASSERT_TRUE(color.ok()) << Message(color);
  EXPECT_EQ(color->width, 640);
}

}  // namespace
}  // namespace palmist::grasp
