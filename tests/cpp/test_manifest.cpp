#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "graphtune/bundle.h"
#include "graphtune/error.h"
#include "graphtune/json_view.h"
#include "sample_bundle.h"

namespace graphtune {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using test::read_text;
using test::SampleBundle;
using test::write_text;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// What parse_manifest says after `change` to a good manifest.
template <typename Change>
std::string manifest_error(Change change) {
  static const std::string good = [] {
    SampleBundle sample;
    return read_text(sample.write() / "manifest.json");
  }();
  Json json = parse_json(good, "manifest");
  change(json);
  const std::string text = json.dump();
  return message_of<BundleError>([&] { (void)parse_manifest(text); });
}

/// The bundle's manifest with `change`, sealed again where that is wanted; what reading it says.
template <typename Change>
std::string edited_error(bool seal, Change change) {
  SampleBundle sample;
  const fs::path manifest = sample.write() / "manifest.json";
  Json json = parse_json(read_text(manifest), "manifest");
  change(json);
  write_text(manifest, seal ? seal_manifest(json.dump()) : json.dump(1));
  return message_of<BundleError>([&] { (void)read_bundle(sample.path()); });
}

TEST(Manifest, HostileNamesAreRefused) {
  const auto renamed = [](const std::string& name) {
    return manifest_error(
        [&](Json& json) { json["files"][name] = json["files"]["graph_0/small/engine.json"]; });
  };
  EXPECT_THAT(renamed("../../etc/passwd"), HasSubstr("leads out of the bundle"));
  EXPECT_THAT(renamed("a/../../b"), HasSubstr("leads out of the bundle"));
  EXPECT_THAT(renamed("/etc/passwd"), HasSubstr("absolute"));
  EXPECT_THAT(renamed("a//b"), HasSubstr("empty component"));
  EXPECT_THAT(renamed("./a"), HasSubstr("'.'"));
  EXPECT_THAT(renamed("a/"), HasSubstr("empty component"));
  EXPECT_THAT(renamed(""), HasSubstr("empty name"));
  EXPECT_THAT(renamed("..\\evil"), HasSubstr("backslash"));
  EXPECT_THAT(renamed(std::string("a\0b", 3)), HasSubstr("control character"));
  EXPECT_THAT(renamed(std::string(5000, 'a')), HasSubstr("too long"));
  EXPECT_THAT(renamed("manifest.json"), HasSubstr("vouch for itself"));
  EXPECT_THAT(renamed("graph_0/small/engine.json/x"), HasSubstr("lies within a file"));
  const auto folder = [](const std::string& name) {
    return manifest_error([&](Json& json) { json["graphs"][0]["engines"][0]["folder"] = name; });
  };
  EXPECT_THAT(folder(".."), HasSubstr("/graphs/0/engines/0/folder: the name leads out"));
  EXPECT_THAT(folder("graph_0/large"), HasSubstr("another engine's"));
  EXPECT_THAT(folder("graph_0"), HasSubstr("another engine's"));
  EXPECT_THAT(folder("graph_0/large/data"), HasSubstr("another engine's"));
  EXPECT_THAT(folder("graph_0/lar"), HasSubstr("no file of this engine"));
}

TEST(Manifest, VersionsAreChecked) {
  EXPECT_THAT(manifest_error([](Json& json) { json["format_version"] = 2; }),
              HasSubstr("manifest.json/format_version: the bundle has format version 2, this "
                        "graphtune reads 1: update graphtune"));
  // The version decides before all that a newer one may have changed.
  EXPECT_THAT(manifest_error([](Json& json) {
                json["format_version"] = 7;
                json["new_thing"] = 1;
                json.erase("graphs");
              }),
              HasSubstr("update graphtune"));
  EXPECT_THAT(manifest_error([](Json& json) { json["format_version"] = 0; }),
              HasSubstr("format_version"));
  EXPECT_THAT(manifest_error([](Json& json) { json["format_version"] = "1"; }),
              HasSubstr("format_version"));
}

TEST(Manifest, HostileManifestsAreRefusedWithTheirPath) {
  const auto at = [](const char* pointer, const Json& value) {
    return manifest_error([&](Json& json) { json[Json::json_pointer(pointer)] = value; });
  };
  EXPECT_THAT(at("/extra", 1), HasSubstr("extra"));
  EXPECT_THAT(at("/graphs/0/extra", 1), HasSubstr("/graphs/0: "));
  EXPECT_EQ(at("/info", Json{{"anything", {1, 2}}}), "(nothing was thrown)");
  EXPECT_EQ(at("/graphs/0/engines/0/info/anything", Json::array()), "(nothing was thrown)");
  EXPECT_THAT(at("/info", 5), HasSubstr("manifest.json/info: expected an object"));
  EXPECT_THAT(at("/graphs", 5), HasSubstr("manifest.json/graphs: "));
  EXPECT_THAT(at("/strict", 1), HasSubstr("/strict: "));
  EXPECT_THAT(at("/strict", false), HasSubstr("/graphs/0/spec/inputs: "));
  EXPECT_THAT(at("/graphs/1/spec/name", "graph_0"), HasSubstr("/graphs/1: another graph has"));
  EXPECT_THAT(at("/graphs/0/plan/0/engine", "none"), HasSubstr("/graphs/0/plan/0: "));
  EXPECT_THAT(at("/graphs/0/plan/0/region/s7", {1, 2}), HasSubstr("no axis of the graph shows"));
  EXPECT_THAT(at("/graphs/0/plan/0/region/b", {2, 1}), HasSubstr("empty range"));
  EXPECT_THAT(at("/graphs/0/output_alias", {0}), HasSubstr("/graphs/0/output_alias: "));
  EXPECT_THAT(at("/graphs/0/output_alias", {0, 1}), HasSubstr("/graphs/0/output_alias/1: "));
  EXPECT_THAT(at("/graphs/0/output_alias", {-2, 0}), HasSubstr("/graphs/0/output_alias/0: "));
  EXPECT_THAT(at("/graphs/0/engines/1/name", "small"), HasSubstr("same name"));
  EXPECT_THAT(at("/graphs/0/engines/1/name", "eager"), HasSubstr("no name for an engine"));
  EXPECT_THAT(at("/graphs/0/engines/1/native_code", "no"), HasSubstr("/native_code: "));
  EXPECT_THAT(at("/graphs/0/spec/contract/sizes/0", Json::array({"b"})),
              HasSubstr("/graphs/0/spec/contract: "));
  EXPECT_THAT(at("/files/graph_0~1small~1engine.json/size", -1), HasSubstr("/size: "));
  EXPECT_THAT(at("/files/graph_0~1small~1engine.json/sha256", "abc"), HasSubstr("/sha256: "));
  EXPECT_THAT(at("/files/graph_0~1small~1engine.json/sha256", std::string(64, 'G')),
              HasSubstr("64 lower-case hexadecimal digits"));
  EXPECT_THAT(at("/versions/torch", 2), HasSubstr("/versions/torch: "));
  EXPECT_THAT(manifest_error([](Json& json) { json.erase("files"); }), HasSubstr("files"));
  EXPECT_THAT(manifest_error([](Json& json) { json["graphs"].push_back(json["graphs"][0]); }),
              HasSubstr("/graphs/2: another graph has the same name"));
  EXPECT_THAT(manifest_error([](Json& json) {
                json["graphs"].push_back(json["graphs"][1]);
                json["graphs"][2]["spec"]["name"] = "graph_2";
              }),
              HasSubstr("/graphs/2: its calls are those of graph_1"));
}

TEST(Manifest, DamageWithinTheManifestIsFound) {
  const auto widen = [](Json& json) {
    json["graphs"][0]["spec"]["contract"]["symbols"]["b"] = {1, 80};
  };
  EXPECT_THAT(edited_error(false, widen),
              AllOf(HasSubstr("manifest.json: its content is not what its sha256 says"),
                    HasSubstr("save the tuned module again")));
  EXPECT_EQ(edited_error(true, widen), "(nothing was thrown)");
  EXPECT_EQ(edited_error(false, [](Json&) {}), "(nothing was thrown)");
  for (const char* pointer :
       {"/graphs/0/spec/contract/index_ranges/0/high", "/graphs/0/spec/inputs/learned/axes",
        "/graphs/0/engines/0/info/build_seconds", "/graphs/0/output_alias/0", "/format_version"}) {
    EXPECT_THAT(edited_error(false,
                             [&](Json& json) {
                               Json& value = json[Json::json_pointer(pointer)];
                               value = value.get<double>() + 1;
                             }),
                HasSubstr("bundle "))
        << pointer;
  }
}

TEST(Manifest, EveryFlippedBitOfAManifestIsFound) {
  SampleBundle sample;
  const fs::path manifest = sample.write() / "manifest.json";
  const std::string good = read_text(manifest);
  const Json content = parse_json(good, "manifest");
  for (std::size_t i = 0; i < good.size(); i += 3) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 7)));
    const std::string message = message_of<BundleError>([&] { (void)parse_manifest(bad, true); });
    if (message == "(nothing was thrown)") {
      // Only space between the values may have changed.
      EXPECT_EQ(parse_json(bad, "manifest"), content) << "byte " << i;
    }
  }
}

TEST(Manifest, WhatIsMissingOrEmptyIsRefused) {
  const auto without = [](const char* parent, const char* key) {
    return manifest_error([&](Json& json) { json[Json::json_pointer(parent)].erase(key); });
  };
  const auto at = [](const char* pointer, const Json& value) {
    return manifest_error([&](Json& json) { json[Json::json_pointer(pointer)] = value; });
  };
  EXPECT_THAT(without("", "sha256"), HasSubstr("'sha256' is missing"));
  EXPECT_THAT(at("/sha256", "abc"), HasSubstr("64 lower-case hexadecimal digits"));
  EXPECT_THAT(without("/graphs/0/spec", "contract"), HasSubstr("'contract' is missing"));
  EXPECT_THAT(at("/graphs/0/output_alias", Json::array()), HasSubstr("expected 2 numbers"));
  EXPECT_THAT(at("/graphs/0/engines/0/backend", ""), HasSubstr("no name of a backend"));
  EXPECT_THAT(at("/graphs/0/engines/0/backend", "../evil"), HasSubstr("no name of a backend"));
  EXPECT_THAT(at("/graphs/0/plan", Json::array()), HasSubstr("has no plan"));
  EXPECT_THAT(at("/signature", Json::array()), HasSubstr("/signature: has no parameter"));
  EXPECT_THAT(at("/module", ""), HasSubstr("/module: must not be empty"));
  EXPECT_THAT(without("/versions", "graphtune"), HasSubstr("'graphtune' is missing"));
  EXPECT_THAT(at("/versions/graphtune", ""), HasSubstr("/versions/graphtune: must not be empty"));
  EXPECT_THAT(without("/versions", "weights"), HasSubstr("'weights' is missing"));
  EXPECT_THAT(at("/versions/weights", ""), HasSubstr("/versions/weights: expected 64"));
  EXPECT_THAT(without("/hardware", "architecture"), HasSubstr("'architecture' is missing"));
  EXPECT_THAT(without("", "versions"), HasSubstr("'versions' is missing"));
  // A graph that stayed eager has none of it.
  EXPECT_EQ(at("/graphs/1/output_alias", Json::array()), "(nothing was thrown)");
}

TEST(Manifest, TextThatIsNoManifestThrowsOnlyBundleErrors) {
  for (const std::string text : {"", "null", "[]", "5", "{}", "\"graphtune bundle\"",
                                 "{\"format\": 1}", "\xff", "{\"a\":1,\"a\":2}"}) {
    EXPECT_THROW((void)parse_manifest(text), BundleError) << text;
  }
  EXPECT_THROW((void)parse_manifest(std::string(100'000, '[')), BundleError);
}

TEST(Manifest, EveryTruncationOfAManifestIsABundleError) {
  SampleBundle sample;
  const std::string text = read_text(sample.write() / "manifest.json");
  for (std::size_t size = 0; size + 2 < text.size(); size += 7) {
    EXPECT_THROW((void)parse_manifest(std::string_view(text).substr(0, size)), BundleError) << size;
  }
}

}  // namespace
}  // namespace graphtune
