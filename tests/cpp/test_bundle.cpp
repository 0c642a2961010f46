#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

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

std::string read_error(const fs::path& path, const OpenOptions& options = {}) {
  return message_of<BundleError>([&] { (void)read_bundle(path, options); });
}

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

TEST(Bundle, ReadsBackWhatWasWritten) {
  SampleBundle sample;
  const fs::path path = sample.write();
  const Bundle read = read_bundle(path);
  EXPECT_EQ(read.module_name, "sample");
  EXPECT_TRUE(read.strict);
  EXPECT_EQ(read.signature.parameters().size(), 2U);
  ASSERT_EQ(read.graphs.size(), 2U);
  EXPECT_EQ(read.graphs[0].spec.describe(InfoLevel::Full),
            sample.bundle.graphs[0].spec.describe(InfoLevel::Full));
  EXPECT_EQ(read.graphs[0].plan, sample.bundle.graphs[0].plan);
  EXPECT_EQ(read.graphs[0].output_alias, (std::vector<std::int32_t>{-1, 0}));
  EXPECT_EQ(read.graphs[0].engines[0].folder, "graph_0/small");
  EXPECT_EQ(read.graphs[0].engines[0].info_json, R"({"build_seconds":1.5})");
  EXPECT_EQ(read.graphs[1].spec.eager_reason(), "the exporter said no");
  EXPECT_EQ(read.hardware, sample.bundle.hardware);
  EXPECT_EQ(read.versions, sample.bundle.versions);
  EXPECT_EQ(read.folder, fs::canonical(path));
  ASSERT_EQ(read.files.size(), 3U);
  EXPECT_EQ(read.files.at("graph_0/large/data/weights.bin").size, 1000U);
  // Writing it again changes nothing.
  EXPECT_EQ(write_manifest(read), read_text(path / "manifest.json"));
}

TEST(Bundle, AnExistingBundleIsReplacedWhole) {
  SampleBundle sample;
  const fs::path path = sample.write();
  sample.bundle.graphs[0].engines.pop_back();
  sample.bundle.graphs[0].plan.entries = {{"small", {}}};
  sample.bundle.module_name = "second";
  sample.write();
  EXPECT_EQ(read_bundle(path).module_name, "second");
  EXPECT_FALSE(fs::exists(path / "graph_0" / "large"));
  // Nothing is left beside it.
  std::size_t entries = 0;
  for (const auto& entry : fs::directory_iterator(sample.folder())) {
    (void)entry;
    ++entries;
  }
  EXPECT_EQ(entries, 2U);  // "source" and the bundle
}

TEST(Bundle, AFailedWriteLeavesTheOldOne) {
  SampleBundle sample;
  const fs::path path = sample.write();
  const std::string before = read_text(path / "manifest.json");
  fs::remove_all(sample.folder() / "source" / "large");
  EXPECT_THAT(message_of<BundleError>([&] { sample.write(); }), HasSubstr("can't be written"));
  sample.sources.erase("graph_0/small");
  EXPECT_THAT(message_of<ValueError>([&] { sample.write(); }),
              HasSubstr("engine small has no source"));
  EXPECT_EQ(read_text(path / "manifest.json"), before);
  EXPECT_NO_THROW((void)read_bundle(path));
}

TEST(Bundle, OnlyBundlesAndEmptyFoldersAreReplaced) {
  SampleBundle sample;
  fs::create_directory(sample.path());
  EXPECT_NO_THROW(sample.write());

  const fs::path documents = sample.folder() / "documents";
  write_text(documents / "thesis.txt", "years of work");
  const auto error = [&](const fs::path& path) {
    return message_of<ValueError>([&] { write_bundle(sample.bundle, sample.sources, path); });
  };
  EXPECT_THAT(error(documents), HasSubstr("exists and is no graphtune bundle"));
  EXPECT_THAT(error(documents / "thesis.txt"), HasSubstr("is no graphtune bundle"));
  write_text(documents / "manifest.json", R"({"name": "a browser extension"})");
  EXPECT_THAT(error(documents), HasSubstr("is no graphtune bundle"));
  EXPECT_EQ(read_text(documents / "thesis.txt"), "years of work");
  EXPECT_THAT(error(""), HasSubstr("empty"));
}

TEST(Bundle, FoldersOnTheWayAreMadeAndATrailingSlashIsFine) {
  SampleBundle sample;
  const fs::path path = sample.folder() / "a" / "b" / "c.bundle";
  write_bundle(sample.bundle, sample.sources, path.string() + "/");
  EXPECT_EQ(read_bundle(path).module_name, "sample");
}

TEST(Bundle, ALinkToABundleStaysALink) {
  SampleBundle sample;
  sample.write();
  const fs::path link = sample.folder() / "current";
  fs::create_directory_symlink(sample.path(), link);
  sample.bundle.module_name = "second";
  write_bundle(sample.bundle, sample.sources, link);
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read_bundle(sample.path()).module_name, "second");
}

TEST(Bundle, WhatCanNotBeReadIsNotWritten) {
  SampleBundle sample;
  sample.bundle.graphs[0].plan.entries[0].engine = "aoti";
  EXPECT_THAT(message_of<ValueError>([&] { sample.write(); }), HasSubstr("/graphs/0/plan/0: "));
  SampleBundle outside;
  outside.bundle.graphs[0].engines[0].folder = "../outside";
  outside.sources["../outside"] = outside.sources["graph_0/small"];
  EXPECT_THROW(outside.write(), Error);
  EXPECT_FALSE(fs::exists(outside.folder() / "outside"));
  SampleBundle text;
  text.bundle.module_name = "\xff\xfe";
  EXPECT_THAT(message_of<ValueError>([&] { text.write(); }), HasSubstr("UTF-8"));
  SampleBundle info;
  info.bundle.graphs[0].engines[0].info_json = "[1]";
  EXPECT_THAT(message_of<ValueError>([&] { info.write(); }), HasSubstr("JSON object"));
}

TEST(Bundle, WhatIsNoBundleIsSaid) {
  SampleBundle sample;
  EXPECT_THAT(read_error(sample.folder() / "nowhere"), HasSubstr("does not exist"));
  EXPECT_THAT(read_error(sample.source("small")), HasSubstr("a bundle is a folder"));
  EXPECT_THAT(read_error(sample.folder()), HasSubstr("has no manifest.json"));
  const fs::path path = sample.write();
  write_text(path / "manifest.json", "{");
  EXPECT_THAT(read_error(path), AllOf(HasSubstr(path.string()), HasSubstr("line 1")));
  write_text(path / "manifest.json", "");
  EXPECT_THAT(read_error(path), HasSubstr("manifest.json"));
  write_text(path / "manifest.json", R"({"format": "other"})");
  EXPECT_THAT(read_error(path), HasSubstr("it is no graphtune bundle"));
}

TEST(Bundle, DamagedFilesAreNamed) {
  const auto damaged = [](auto change, const OpenOptions& options = {}) {
    SampleBundle sample;
    const fs::path path = sample.write();
    change(path / "graph_0" / "large" / "data" / "weights.bin");
    return read_error(path, options);
  };
  EXPECT_THAT(damaged([](const fs::path& file) { fs::remove(file); }),
              HasSubstr("graph_0/large/data/weights.bin: is missing"));
  EXPECT_THAT(damaged([](const fs::path& file) { write_text(file, "short"); }),
              HasSubstr("weights.bin: has 5 bytes, the manifest says 1000"));
  const auto flip = [](const fs::path& file) { write_text(file, std::string(999, 'w') + "v"); };
  EXPECT_THAT(damaged(flip), HasSubstr("weights.bin: its SHA-256 is not the manifest's"));
  EXPECT_EQ(damaged(flip, {.verify = false, .allow_native_code = {}}), "(nothing was thrown)");
  EXPECT_THAT(damaged([](const fs::path& file) {
                fs::remove(file);
                fs::create_directory(file);
              }),
              HasSubstr("is no regular file"));
  EXPECT_THAT(damaged([](const fs::path& file) {
                fs::remove(file);
                mkfifo(file.c_str(), 0600);
              }),
              HasSubstr("is no regular file"));
}

TEST(Bundle, LinksMayNotLeaveTheFolder) {
  SampleBundle sample;
  const fs::path path = sample.write();
  const fs::path file = path / "graph_0" / "large" / "data" / "weights.bin";
  const fs::path outside = sample.folder() / "outside.bin";
  fs::rename(file, outside);
  fs::create_symlink(outside, file);
  EXPECT_THAT(read_error(path), HasSubstr("is a symbolic link that leaves the bundle"));
  fs::remove(file);
  fs::create_symlink(file.filename(), file);
  EXPECT_THAT(read_error(path), HasSubstr("weights.bin"));  // a link to itself
  // One that stays within may be.
  fs::remove(file);
  fs::rename(outside, path / "shared.bin");
  fs::create_symlink("../../../shared.bin", file);
  EXPECT_NO_THROW((void)read_bundle(path));
}

TEST(Bundle, AFolderMayNotBeALinkElsewhere) {
  SampleBundle sample;
  const fs::path path = sample.write();
  const fs::path elsewhere = sample.folder() / "elsewhere";
  fs::rename(path / "graph_0", elsewhere);
  fs::create_directory_symlink(elsewhere, path / "graph_0");
  EXPECT_THAT(read_error(path), HasSubstr("is a symbolic link that leaves the bundle"));
}

TEST(Bundle, AFileThatTheManifestDoesNotNameIsRefusedWithinAnEngine) {
  SampleBundle sample;
  const fs::path path = sample.write();
  write_text(path / "README.txt", "mine");
  EXPECT_NO_THROW((void)read_bundle(path));
  write_text(path / "graph_0" / "small" / "plugin.so", "evil");
  EXPECT_THAT(read_error(path), HasSubstr("graph_0/small/plugin.so: lies in an engine's folder"));
}

TEST(Bundle, HostileNamesAreRefused) {
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

TEST(Bundle, VersionsAreChecked) {
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

TEST(Bundle, HostileManifestsAreRefusedWithTheirPath) {
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

/// The bundle's manifest with `change`, sealed again where that is wanted; what reading it says.
template <typename Change>
std::string edited_error(bool seal, Change change) {
  SampleBundle sample;
  const fs::path manifest = sample.write() / "manifest.json";
  Json json = parse_json(read_text(manifest), "manifest");
  change(json);
  write_text(manifest, seal ? seal_manifest(json.dump()) : json.dump(1));
  return read_error(sample.path());
}

TEST(Bundle, DamageWithinTheManifestIsFound) {
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

TEST(Bundle, EveryFlippedBitOfAManifestIsFound) {
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

TEST(Bundle, WhatIsMissingOrEmptyIsRefused) {
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

TEST(Bundle, AContractThatWasNotSetIsWrittenAsLearned) {
  SampleBundle sample;
  StoredGraph& graph = sample.bundle.graphs[0];
  GraphSpec spec("graph_0", graph.spec.input_spec(), graph.spec.output_spec());
  graph.spec = spec;
  graph.output_alias.clear();
  const Bundle read = read_bundle(sample.write());
  EXPECT_EQ(read.graphs[0].spec.contract(), spec.contract());
  EXPECT_EQ(read.graphs[0].output_alias, (std::vector<std::int32_t>{-1, -1}));
}

TEST(Bundle, WhatWasReadCanBeCopied) {
  SampleBundle sample;
  const Bundle read = read_bundle(sample.write());
  const fs::path copy = sample.folder() / "copy.bundle";
  copy_bundle(read, copy);
  EXPECT_EQ(read_text(copy / "manifest.json"), read_text(sample.path() / "manifest.json"));
  EXPECT_EQ(read_bundle(copy).files.size(), 3U);
  copy_bundle(read, sample.path());  // onto itself
  EXPECT_NO_THROW((void)read_bundle(sample.path()));

  const auto error = [&] { return message_of<BundleError>([&] { copy_bundle(read, copy); }); };
  const fs::path weights = sample.path() / "graph_0/large/data/weights.bin";
  write_text(weights, std::string(1000, 'x'));
  EXPECT_THAT(error(), HasSubstr("weights.bin was changed since the bundle was loaded"));
  fs::remove(weights);
  EXPECT_THAT(error(), HasSubstr("weights.bin was removed since the bundle was loaded"));
  fs::remove_all(sample.path());
  EXPECT_THAT(error(), HasSubstr("can't be written"));
  EXPECT_NO_THROW((void)read_bundle(copy));  // the old one is left
}

TEST(Bundle, TextThatIsNoManifestThrowsOnlyBundleErrors) {
  for (const std::string text : {"", "null", "[]", "5", "{}", "\"graphtune bundle\"",
                                 "{\"format\": 1}", "\xff", "{\"a\":1,\"a\":2}"}) {
    EXPECT_THROW((void)parse_manifest(text), BundleError) << text;
  }
  EXPECT_THROW((void)parse_manifest(std::string(100'000, '[')), BundleError);
}

TEST(Bundle, EveryTruncationOfAManifestIsABundleError) {
  SampleBundle sample;
  const std::string text = read_text(sample.write() / "manifest.json");
  for (std::size_t size = 0; size + 2 < text.size(); size += 7) {
    EXPECT_THROW((void)parse_manifest(std::string_view(text).substr(0, size)), BundleError) << size;
  }
}

TEST(Hardware, IsDescribed) {
  const auto hardware = describe_hardware();
  EXPECT_FALSE(hardware.at("cpu").empty());
  EXPECT_FALSE(hardware.at("architecture").empty());
  EXPECT_EQ(hardware, describe_hardware());
  const std::string& id = hardware.at("machine_id");
  EXPECT_TRUE(id.empty() || id.size() == 64U);
}

TEST(Hardware, CodeForAnotherProcessorIsFound) {
  auto hardware = describe_hardware();
  EXPECT_EQ(native_code_obstacle(hardware), "");
  EXPECT_EQ(native_code_obstacle({}), "");
  hardware["instruction_set"] += " hyperspeed_512";
  EXPECT_THAT(native_code_obstacle(hardware), HasSubstr("may need hyperspeed_512"));
  hardware["architecture"] = "pdp11";
  EXPECT_THAT(native_code_obstacle(hardware), HasSubstr("built for pdp11"));
}

}  // namespace
}  // namespace graphtune
