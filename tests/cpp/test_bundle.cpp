#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "graphtune/bundle.h"
#include "graphtune/error.h"
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
