#include <gtest/gtest.h>

#include "graphtune/dtype.h"
#include "graphtune/error.h"

namespace graphtune {
namespace {

TEST(DType, NamesGoThereAndBack) {
  int known = 0;
  for (int number = -128; number < 128; ++number) {
    const auto dtype = static_cast<DType>(number);
    if (to_string(dtype) == "unknown") {
      EXPECT_EQ(item_size(dtype), 0U) << number;
      continue;
    }
    ++known;
    EXPECT_EQ(dtype_from_string(to_string(dtype)), dtype);
    EXPECT_EQ(dtype_from_string("torch." + std::string(to_string(dtype))), dtype);
  }
  EXPECT_EQ(known, 32);
}

TEST(DType, HasTorchsNamesAndSizes) {
  EXPECT_EQ(to_string(DType::Float32), "float32");
  EXPECT_EQ(to_string(DType::BFloat16), "bfloat16");
  EXPECT_EQ(to_string(DType::Float8E4M3FN), "float8_e4m3fn");
  EXPECT_EQ(item_size(DType::Complex128), 16U);
  EXPECT_EQ(item_size(DType::Bool), 1U);
  EXPECT_EQ(item_size(DType::QUInt4x2), 0U);
}

TEST(DType, RefusesOtherNamesAndListsItsOwn) {
  for (const char* name :
       {"", "float", "Float32", "float32 ", "torch.", "unknown", "torch.torch.float32"}) {
    EXPECT_THROW((void)dtype_from_string(name), ValueError) << name;
  }
  try {
    (void)dtype_from_string("float31");
    FAIL();
  } catch (const ValueError& error) {
    EXPECT_NE(std::string(error.what()).find("'float31'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("float32"), std::string::npos);
  }
}

TEST(DeviceTypeAndLayout, NamesGoThereAndBack) {
  for (int number = -128; number < 128; ++number) {
    const auto device = static_cast<DeviceType>(number);
    if (to_string(device) != "unknown") {
      EXPECT_EQ(device_type_from_string(to_string(device)), device);
    }
    const auto layout = static_cast<Layout>(number);
    if (to_string(layout) != "unknown") {
      EXPECT_EQ(layout_from_string(to_string(layout)), layout);
    }
  }
  EXPECT_EQ(to_string(Layout::Sparse), "sparse_coo");
  EXPECT_THROW((void)device_type_from_string("gpu"), ValueError);
  EXPECT_THROW((void)layout_from_string("dense"), ValueError);
}

}  // namespace
}  // namespace graphtune
