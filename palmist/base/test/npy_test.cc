#include "palmist/base/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "palmist/base/file.h"

namespace palmist {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Returns a file with the given header text, written independently of WriteNpy.
std::string MakeFile(const std::string& header, const std::string& data, char major = 1) {
  std::string file = "\x93NUMPY";
  file += major;
  file += '\0';
  file += static_cast<char>(header.size() % 256);
  file += static_cast<char>(header.size() / 256);
  if (major == 2) file += std::string(2, '\0');
  return file + header + data;
}

std::string Message(const std::string& bytes) {
  const auto result = ParseNpy(bytes);
  return result.ok() ? "parsed" : result.error().message();
}

template <typename T>
void ExpectRoundTrip(const std::vector<std::int64_t>& shape, const std::vector<T>& values) {
  const NpyArray array = MakeNpyArray<T>(shape, values);
  const std::string file = WriteNpy(array);
  EXPECT_EQ((file.size() - array.data.size()) % 64, 0U);
  const auto again = ParseNpy(file);
  ASSERT_TRUE(again.ok()) << again.error().what();
  EXPECT_EQ(again->shape, shape);
  const auto read = again->As<T>();
  EXPECT_EQ(std::vector<T>(read.begin(), read.end()), values);
}

TEST(Npy, EveryTypeRoundTrips) {
  ExpectRoundTrip<float>({2, 2}, {1.5F, -2.0F, 0.0F, 3e30F});
  ExpectRoundTrip<double>({3}, {1.5, -2.0, 1e300});
  ExpectRoundTrip<std::int32_t>({1, 2, 1}, {-1, 1 << 30});
  ExpectRoundTrip<std::int64_t>({2}, {-1, std::int64_t{1} << 60});
  ExpectRoundTrip<std::uint8_t>({2}, {0, 255});
  ExpectRoundTrip<std::uint16_t>({2}, {0, 65535});
  ExpectRoundTrip<float>({}, {2.5F});
  ExpectRoundTrip<float>({0, 5}, {});
}

TEST(Npy, BooleansRoundTrip) {
  constexpr std::array<bool, 3> kValues = {true, false, true};
  const auto again = ParseNpy(WriteNpy(MakeNpyArray<bool>({3}, kValues)));
  ASSERT_TRUE(again.ok());
  EXPECT_THAT(again->As<bool>(), ElementsAre(true, false, true));
}

TEST(Npy, ReadsWhatNumpyWrote) {
  // The bytes that numpy.save gives for numpy.arange(1, 7, dtype='<f4').reshape(2, 3).
  const auto bytes =
      ReadFile(std::string(PALMIST_SOURCE_DIR) + "/palmist/base/testdata/fuzz/npy/f4");
  const auto array = ParseNpy(*bytes);
  ASSERT_TRUE(array.ok()) << array.error().what();
  EXPECT_THAT(array->shape, ElementsAre(2, 3));
  EXPECT_THAT(array->As<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Npy, HeaderMayBeOrderedAndSpacedOtherwise) {
  EXPECT_EQ(Message(MakeFile("{'shape':(2,),'fortran_order':False,'descr':'|u1'}\n", "ab")),
            "parsed");
  EXPECT_EQ(Message(MakeFile("{ \"descr\" : '<u2', 'fortran_order' : False , 'shape' : ( 1 , 1 ) }",
                             "ab")),
            "parsed");
  EXPECT_EQ(Message(MakeFile("{'descr':'|u1','fortran_order':False,'shape':(2,)}", "ab", 2)),
            "parsed");
}

TEST(Npy, RefusesWhatItDoesNotRead) {
  EXPECT_THAT(Message(""), HasSubstr("mark of the format"));
  EXPECT_THAT(Message("PK\x03\x04"), HasSubstr("mark of the format"));
  EXPECT_THAT(Message(MakeFile("{}", "", 3)), HasSubstr("version 1 or 2, got 3"));
  EXPECT_THAT(Message(MakeFile("{'descr':'<f4','fortran_order':True,'shape':(1,)}", "abcd")),
              HasSubstr("Fortran order"));
  EXPECT_THAT(Message(MakeFile("{'descr':'>f4','fortran_order':False,'shape':(1,)}", "abcd")),
              HasSubstr("\">f4\""));
  EXPECT_THAT(Message(MakeFile("{'descr':'|O','fortran_order':False,'shape':(1,)}", "abcd")),
              HasSubstr("\"|O\""));
  EXPECT_THAT(Message(MakeFile("{'descr':'<f4'}", "")), HasSubstr("lacks"));
  EXPECT_THAT(Message(MakeFile("{'name':'<f4'}", "")), HasSubstr("\"name\""));
}

TEST(Npy, RefusesShapeThatDoesNotMatchTheData) {
  EXPECT_THAT(Message(MakeFile("{'descr':'<f4','fortran_order':False,'shape':(2,)}", "abcd")),
              HasSubstr("needs 8 bytes of data, it has 4"));
  EXPECT_THAT(Message(MakeFile("{'descr':'<f4','fortran_order':False,'shape':(0,)}", "abcd")),
              HasSubstr("needs 0 bytes"));
  EXPECT_THAT(Message(MakeFile(
                  "{'descr':'<f4','fortran_order':False,'shape':(9223372036854775807,9)}", "")),
              HasSubstr("more than 2^63"));
  EXPECT_THAT(Message(MakeFile("{'descr':'<f4','fortran_order':False,'shape':(-1,)}", "")),
              HasSubstr("a size of at least 0"));
}

TEST(Npy, RefusesTooManyDimensions) {
  std::string shape;
  for (int i = 0; i < 33; ++i) shape += "1,";
  EXPECT_THAT(
      Message(MakeFile("{'descr':'|u1','fortran_order':False,'shape':(" + shape + ")}", "a")),
      HasSubstr("more than 32"));
}

TEST(Npy, RefusesBooleansThatAreNone) {
  EXPECT_THAT(Message(MakeFile("{'descr':'|b1','fortran_order':False,'shape':(1,)}", "\x02")),
              HasSubstr("0 or 1"));
}

TEST(Npy, EveryTruncationIsAnError) {
  const std::string file = WriteNpy(MakeNpyArray<float>({2}, std::vector<float>{1, 2}));
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_FALSE(ParseNpy(file.substr(0, size)).ok()) << size;
  }
}

TEST(Npy, WrongTypeIsNamed) {
  const NpyArray array = MakeNpyArray<float>({1}, std::vector<float>{1});
  try {
    (void)array.As<double>();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "expected an array of type <f8, got <f4");
  }
}

TEST(Npy, WriterRefusesAShapeThatLies) {
  EXPECT_THROW(WriteNpy(MakeNpyArray<float>({2}, std::vector<float>{1})), Error);
}

TEST(NpyFileBytesTest, AreThoseOfTheWholeFile) {
  const std::vector<float> values(6, 1.5F);
  const std::string file = WriteNpy(MakeNpyArray<float>({2, 3}, values));
  EXPECT_EQ(NpyFileBytes(file).value(), file.size());
  EXPECT_EQ(NpyFileBytes(file.substr(0, file.size() - 24)).value(), file.size());
  EXPECT_FALSE(NpyFileBytes(file.substr(0, 40)).ok());
  EXPECT_FALSE(NpyFileBytes("no array").ok());
}

}  // namespace
}  // namespace palmist
