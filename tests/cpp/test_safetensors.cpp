#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graphtune/digest.h"
#include "graphtune/error.h"
#include "graphtune/file.h"
#include "graphtune/safetensors.h"

namespace graphtune {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

/// A folder that goes with the test.
class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "graphtune-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw std::runtime_error("no temporary folder");
    }
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] fs::path operator/(const char* name) const { return path_ / name; }
  [[nodiscard]] std::size_t count() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_;
};

std::string file_of(const std::string& header, const std::string& data, std::uint64_t header_size) {
  std::string bytes(reinterpret_cast<const char*>(&header_size), sizeof header_size);
  return bytes + header + data;
}

std::string file_of(const std::string& header, const std::string& data) {
  return file_of(header, data, header.size());
}

std::vector<NamedTensor> parse(const std::string& bytes, TextMap* metadata = nullptr) {
  return parse_safetensors(std::as_bytes(std::span(bytes)), "test.safetensors", metadata);
}

template <typename ErrorType>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const ErrorType& error) {
    return error.what();
  }
  return "nothing of this type was thrown";
}

std::vector<std::string> names(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> all;
  for (const NamedTensor& tensor : tensors) {
    all.push_back(tensor.first);
  }
  return all;
}

TEST(Safetensors, ReadsAFileOfTheReferenceImplementation) {
  // safetensors 0.8.0: save({"b": BOOL, "w": F32, "h": I16 scalar, "e": empty F32},
  // metadata={"format": "pt"}).
  using namespace std::string_literals;
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"e":{"dtype":"F32","shape":[0,5],"data_offsets":[0,0]},)"
      R"("w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
      R"("h":{"dtype":"I16","shape":[],"data_offsets":[16,18]},)"
      R"("b":{"dtype":"BOOL","shape":[3],"data_offsets":[18,21]}}   )";
  const std::string data = "\x00\x00\x80?\x00\x00\x00@\x00\x00@@\x00\x00\x80@\x07\x00\x01\x00\x01"s;
  TextMap metadata;
  const std::vector<NamedTensor> tensors = parse(file_of(header, data), &metadata);
  EXPECT_THAT(names(tensors), ElementsAre("e", "w", "h", "b"));
  EXPECT_EQ(metadata, (TextMap{{"format", "pt"}}));
  EXPECT_EQ(tensors[0].second.sizes(), (Dims{0, 5}));
  EXPECT_EQ(tensors[1].second.sizes(), (Dims{2, 2}));
  EXPECT_EQ(tensors[1].second.strides(), (Dims{2, 1}));
  EXPECT_EQ(tensors[1].second.data_as<float>()[3], 4.0F);
  EXPECT_EQ(*tensors[2].second.data_as<std::int16_t>(), 7);
  EXPECT_TRUE(tensors[3].second.data_as<bool>()[2]);
}

TEST(Safetensors, RoundTripsEveryType) {
  const Folder folder;
  std::vector<NamedTensor> tensors;
  for (int number = 0; number < 64; ++number) {
    const auto dtype = static_cast<DType>(number);
    const bool held = item_size(dtype) > 0 && dtype != DType::Complex32 &&
                      dtype != DType::Complex128 && dtype != DType::QInt8 &&
                      dtype != DType::QUInt8 && dtype != DType::QInt32 && dtype != DType::Bits8 &&
                      dtype != DType::Bits16;
    if (held) {
      Tensor tensor = Tensor::zeros(dtype, {3, 1});
      static_cast<char*>(tensor.data())[0] = 1;
      tensors.emplace_back(to_string(dtype), tensor);
    } else if (item_size(dtype) > 0) {
      const std::vector<NamedTensor> one{{"x", Tensor::zeros(dtype, {1})}};
      EXPECT_THROW(write_safetensors(folder / "no", one), ValueError) << to_string(dtype);
    }
  }
  EXPECT_EQ(tensors.size(), 19U);
  const TextMap metadata{{"format", "pt"}, {"é", "\n\"quoted\""}};
  write_safetensors(folder / "a.safetensors", tensors, metadata);
  TextMap metadata_back;
  const std::vector<NamedTensor> back = read_safetensors(folder / "a.safetensors", &metadata_back);
  EXPECT_EQ(metadata_back, metadata);
  EXPECT_EQ(back.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const auto found =
        std::find_if(back.begin(), back.end(), [&](const auto& b) { return b.first == name; });
    ASSERT_NE(found, back.end()) << name;
    EXPECT_EQ(found->second.dtype(), tensor.dtype());
    EXPECT_EQ(found->second.sizes(), tensor.sizes());
    EXPECT_EQ(std::memcmp(found->second.data(), tensor.data(), tensor.byte_size()), 0) << name;
    EXPECT_EQ(found->second.owner(), back[0].second.owner())
        << "aligned tensors share the file's buffer";
  }
  EXPECT_EQ(folder.count(), 1U);
}

TEST(Safetensors, RoundTripsNothing) {
  const Folder folder;
  write_safetensors(folder / "a", {});
  EXPECT_TRUE(read_safetensors(folder / "a").empty());
  EXPECT_TRUE(parse(file_of("{}", "")).empty());
}

TEST(Safetensors, WritesStridedTensorsRowMajor) {
  const Folder folder;
  const std::vector<float> values{0, 1, 2, 3, 4, 5};
  const Tensor base = Tensor::from<float>(values, {2, 3});
  const Tensor transposed(base.data(), DType::Float32, {3, 2}, {1, 3}, base.owner());
  const std::vector<NamedTensor> tensors{{"t", transposed}};
  write_safetensors(folder / "a", tensors);
  const Tensor back = read_safetensors(folder / "a")[0].second;
  EXPECT_EQ(std::vector<float>(back.data_as<float>(), back.data_as<float>() + 6),
            (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

TEST(Safetensors, AlignsTensorsThatTheFileDoesNot) {
  using namespace std::string_literals;
  const std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                             R"("b":{"dtype":"F64","shape":[1],"data_offsets":[1,9]}})";
  const std::vector<NamedTensor> tensors = parse(file_of(header, "\x05\0\0\0\0\0\0\xf0\x3f"s));
  EXPECT_EQ(*tensors[1].second.data_as<double>(), 1.0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensors[1].second.data()) % alignof(double), 0U);
}

TEST(Safetensors, RefusesDamagedFiles) {
  const auto one = [](const std::string& fields) { return R"({"x":{)" + fields + "}}"; };
  const std::string four(4, '\0');
  const std::string good = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
  EXPECT_EQ(parse(file_of(one(good), four)).size(), 1U);
  const std::vector<std::pair<std::string, std::string>> rows{
      {"", "only 0 bytes"},
      {"1234567", "only 7 bytes"},
      {file_of("", ""), "does not begin with {"},
      {file_of("{}", "", 3), "a header of 3 bytes"},
      {file_of("{}", "", ~std::uint64_t{0}), "a header of 18446744073709551615 bytes"},
      {file_of("{}", "", ~std::uint64_t{0} - 7), "a header of"},
      {file_of(" {}", ""), "does not begin with {"},
      {file_of("[]", ""), "does not begin with {"},
      {file_of("{", ""), "not valid JSON"},
      {file_of("{\"\xff\":1}", ""), "not valid JSON"},
      {file_of("{}", "x"), "1 bytes of data, but the tensors have 0"},
      {file_of(one(good), "123"), "/x/data_offsets/1"},
      {file_of(one(good), four + "5"), "5 bytes of data"},
      {file_of("{\"x\":{" + good + "},\"x\":{" + good + "}}", four), "'x' twice"},
      {file_of(one(R"("dtype":"F32","shape":[1])"), four), "'data_offsets' is missing"},
      {file_of(one(good + ",\"more\":1"), four), "'more' is unknown"},
      {file_of(one(R"("dtype":"F33","shape":[1],"data_offsets":[0,4])"), four),
       "/x/dtype: the dtype 'F33'"},
      {file_of(one(R"("dtype":4,"shape":[1],"data_offsets":[0,4])"), four), "/x/dtype"},
      {file_of(one(R"("dtype":"F32","shape":1,"data_offsets":[0,4])"), four), "/x/shape"},
      {file_of(one(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), four), "/x/shape/0"},
      {file_of(one(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])"), four), "/x/shape/0"},
      {file_of(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), four),
       "4 bytes for a tensor that has 8"},
      {file_of(one(R"("dtype":"F32","shape":[0],"data_offsets":[0,4])"), four),
       "4 bytes for a tensor that has 0"},
      {file_of(one(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), four),
       "/x/data_offsets/1"},
      {file_of(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,8])"), four),
       "/x/data_offsets"},
      {file_of(one(R"("dtype":"F32","shape":[1],"data_offsets":[-4,0])"), four),
       "/x/data_offsets/0"},
      {file_of(one(R"("dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,4])"), four),
       "/x/data_offsets/0"},
      {file_of(one(R"("dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,4])"), four),
       "counted"},
      {file_of(one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4])"), four),
       "counted"},
      {file_of(one(R"("dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0])"), ""),
       "counted"},
      {file_of(
           R"({"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"y":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
           four),
       "'y' begin at 2, the tensor before ends at 3"},
      {file_of(
           R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"y":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
           four),
       "'y' begin at 2"},
      {file_of(
           R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"y":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
           four),
       "begin at 0"},
      {file_of(one(R"("dtype":"BOOL","shape":[4],"data_offsets":[0,4])"),
               std::string("\0\1\2\0", 4)),
       "other than 0 and 1"},
      {file_of(R"({"__metadata__":{"a":1}})", ""), "/__metadata__/a"},
      {file_of(R"({"__metadata__":[]})", ""), "/__metadata__"},
      {file_of(R"({"x":5})", ""), "/x: expected an object"},
  };
  for (const auto& [bytes, expected] : rows) {
    const std::string message = message_of<BundleError>([&] { (void)parse(bytes); });
    EXPECT_THAT(message, HasSubstr(expected)) << bytes;
    EXPECT_THAT(message, HasSubstr("test.safetensors")) << bytes;
  }
}

TEST(Safetensors, EveryCutOfAFileIsRefused) {
  const std::string header = R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const std::string bytes = file_of(header, "1234");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW((void)parse(bytes.substr(0, size)), BundleError) << size;
  }
}

TEST(Safetensors, NamesTheFileThatCannotBeRead) {
  const Folder folder;
  EXPECT_THAT(message_of<Error>([&] { (void)read_safetensors(folder / "none"); }),
              HasSubstr((folder / "none").string()));
  EXPECT_THROW((void)read_safetensors(folder / ""), Error);
  EXPECT_THROW((void)read_safetensors("/dev/null"), Error);
  std::ofstream(folder / "text") << "this is no tensor file";
  EXPECT_THAT(message_of<BundleError>([&] { (void)read_safetensors(folder / "text"); }),
              HasSubstr((folder / "text").string()));
}

TEST(Safetensors, RefusesWhatAFileCannotHold) {
  const Folder folder;
  const Tensor tensor = Tensor::zeros(DType::Float32, {1});
  const Tensor elsewhere(nullptr, DType::Float32, {1}, {1}, nullptr, DeviceType::Cuda, 0);
  const auto message = [&](const std::vector<NamedTensor>& tensors, const TextMap& metadata = {}) {
    return message_of<ValueError>([&] { write_safetensors(folder / "a", tensors, metadata); });
  };
  EXPECT_THAT(message({{"x", tensor}, {"x", tensor}}), HasSubstr("'x'"));
  EXPECT_THAT(message({{"__metadata__", tensor}}), HasSubstr("__metadata__"));
  EXPECT_THAT(message({{"\xff", tensor}}), HasSubstr("\\xff"));
  EXPECT_THAT(message({{"x", Tensor()}}), HasSubstr("undefined"));
  EXPECT_THAT(message({{"x", elsewhere}}), HasSubstr("CPU"));
  EXPECT_THAT(message({{"x", tensor}}, {{"k", "\xff"}}), HasSubstr("'k'"));
  EXPECT_EQ(folder.count(), 0U);
  const std::vector<NamedTensor> good{{"x", tensor}};
  EXPECT_THAT(message_of<Error>([&] { write_safetensors("/nonexistent/a", good); }),
              HasSubstr("/nonexistent/a"));
}

TEST(OutputFile, AppearsWhenItIsComplete) {
  const Folder folder;
  std::ofstream(folder / "a") << "old";
  {
    OutputFile file(folder / "a");
    file.write("new");
    EXPECT_EQ(read_file(folder / "a", 100), "old");
  }
  EXPECT_EQ(read_file(folder / "a", 100), "old");
  EXPECT_EQ(folder.count(), 1U);
  OutputFile file(folder / "a");
  file.write("newer");
  file.commit();
  EXPECT_EQ(read_file(folder / "a", 100), "newer");
  EXPECT_THROW((void)read_file(folder / "a", 4), Error);
  EXPECT_EQ(folder.count(), 1U);
}

TEST(Digest, OfAFileIsThatOfItsBytes) {
  const Folder folder;
  const std::string bytes(3'000'000, 'x');
  std::ofstream(folder / "a") << bytes;
  EXPECT_EQ(sha256_file(folder / "a"), sha256(bytes));
}

}  // namespace
}  // namespace graphtune
