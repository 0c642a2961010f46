#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "graphtune/error.h"
#include "graphtune/json_view.h"
#include "graphtune/modules.h"
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

/// Two modules, of which the second multiplies by ten.
class Modules : public ::testing::Test {
 protected:
  Modules() {
    write_text(second_.source("small"), R"({"factor": 10, "outputs": [0, 0]})");
    second_.bundle.module_name = "second";
  }

  [[nodiscard]] fs::path path() const { return first_.folder() / "pipeline.modules"; }
  [[nodiscard]] std::vector<ModuleSource> sources(const std::string& first = "text.encoder",
                                                  const std::string& second = "head") const {
    return {{first, &first_.bundle, &first_.sources}, {second, &second_.bundle, &second_.sources}};
  }
  fs::path write() {
    write_modules(sources(), path());
    return path();
  }
  /// What read_modules says after `change` to the list.
  template <typename Change>
  std::string error_after(Change change) {
    fs::remove_all(path());
    const fs::path list = write() / "modules.json";
    Json json = parse_json(read_text(list), "list");
    change(json);
    write_text(list, json.dump());
    return message_of<BundleError>([&] { (void)read_modules(path()); });
  }
  [[nodiscard]] std::size_t entry_count() const {
    const fs::directory_iterator entries(first_.folder());
    return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
  }

  SampleBundle first_;
  SampleBundle second_;
};

TEST_F(Modules, AllAreLoadedByName) {
  const auto modules = load_modules(write());
  ASSERT_EQ(modules.size(), 2U);
  const auto ninth = [&](const char* name) {
    Tensor input = test::ids({2, 5});
    input.data_as<std::int64_t>()[9] = 9;
    return modules.at(name)({input})["hidden"].tensor().data_as<float>()[9];
  };
  EXPECT_EQ(ninth("text.encoder"), 9.0F);
  EXPECT_EQ(ninth("head"), 90.0F);
  EXPECT_EQ(modules.at("head").stats().calls, 1U);
  EXPECT_EQ(modules.at("head").bundle().module_name, "second");
  EXPECT_TRUE(holds_modules(path()));
  EXPECT_FALSE(holds_modules(path() / "head"));
  EXPECT_FALSE(holds_modules(path() / "nowhere"));
}

TEST_F(Modules, BundlesThatWereReadAreCopied) {
  const Bundle read = read_bundle(read_modules(write()).path_of(read_modules(path()).at("head")));
  const fs::path copy = first_.folder() / "copy.modules";
  const std::vector<ModuleSource> both = {{"read", &read, nullptr}, sources()[0]};
  write_modules(both, copy);
  EXPECT_EQ(load_modules(copy).at("read").bundle().module_name, "second");
  // What was changed since is not passed on as what it was.
  write_text(path() / "head" / "graph_0" / "small" / "engine.json", R"({"factor": 9})");
  EXPECT_THAT(message_of<BundleError>([&] { write_modules(both, copy); }),
              HasSubstr("was changed since"));
  EXPECT_EQ(load_modules(copy).size(), 2U);
}

TEST_F(Modules, TheListSaysWhereEachIs) {
  const ModuleFolder list = read_modules(write());
  ASSERT_EQ(list.modules.size(), 2U);
  EXPECT_EQ(list.modules[0].name, "text.encoder");  // in the order in which they were given
  EXPECT_EQ(list.modules[0].folder, "text.encoder");
  EXPECT_EQ(list.path_of(list.at("head")), fs::canonical(path()) / "head");
  EXPECT_THAT(message_of<ValueError>([&] { (void)list.at("tail"); }),
              AllOf(HasSubstr("no module 'tail'"), HasSubstr("text.encoder, head")));
  EXPECT_EQ(write_module_list(list), read_text(path() / "modules.json"));
}

TEST_F(Modules, NamesThatNoFolderCanHaveGetOthers) {
  const std::string long_name(300, 'x');
  std::vector<ModuleSource> all;
  for (const std::string& name :
       {std::string("../../up"), std::string("modules.json"), std::string("a/b"),
        std::string("a_b"), std::string("A_B"), std::string(".."), std::string("\u00fcber"),
        long_name, long_name + "y"}) {
    all.push_back({name, &first_.bundle, &first_.sources});
  }
  write_modules(all, path());
  const auto modules = load_modules(path());
  EXPECT_EQ(modules.size(), all.size());
  EXPECT_EQ(entry_count(), 2U);  // "source" and the modules: nothing was written elsewhere
  for (const StoredModule& module : read_modules(path()).modules) {
    EXPECT_EQ(module.folder.find('/'), std::string::npos);
  }
}

TEST_F(Modules, WhatCanNotBeToldApartIsRefused) {
  const auto error = [&](const std::vector<ModuleSource>& modules) {
    return message_of<ValueError>([&] { write_modules(modules, path()); });
  };
  EXPECT_THAT(error({}), HasSubstr("no module"));
  EXPECT_THAT(error(sources("a", "a")), HasSubstr("two modules to write have the name 'a'"));
  EXPECT_THAT(error(sources("", "a")), HasSubstr("empty name"));
  EXPECT_THAT(error(sources("\xff", "a")), HasSubstr("UTF-8"));
  EXPECT_FALSE(fs::exists(path()));
}

TEST_F(Modules, WrittenWholeOrNotAtAll) {
  write();
  const std::string before = read_text(path() / "modules.json");
  fs::remove_all(second_.folder() / "source" / "large");
  EXPECT_THAT(message_of<BundleError>([&] { write(); }), HasSubstr("can't be written"));
  EXPECT_EQ(read_text(path() / "modules.json"), before);
  EXPECT_NO_THROW((void)load_modules(path()));
  EXPECT_EQ(entry_count(), 2U);

  // A later one replaces it whole, as does the bundle of one module, and the other way round.
  write_modules(std::vector{sources()[0]}, path());
  EXPECT_FALSE(fs::exists(path() / "head"));
  write_bundle(first_.bundle, first_.sources, path());
  EXPECT_EQ(read_bundle(path()).module_name, "sample");
  write_modules(std::vector{sources()[0]}, path());
  EXPECT_EQ(load_modules(path()).size(), 1U);
  EXPECT_EQ(entry_count(), 2U);
}

TEST_F(Modules, OnlyWhatGraphtuneWroteIsReplaced) {
  write_text(path() / "modules.json", R"({"name": "of a browser"})");
  EXPECT_THAT(message_of<ValueError>([&] { write(); }), HasSubstr("no graphtune bundle"));
  EXPECT_EQ(read_text(path() / "modules.json"), R"({"name": "of a browser"})");
}

TEST_F(Modules, WhatWasChangedIsNotLoaded) {
  write();
  const fs::path manifest = path() / "head" / "manifest.json";
  const std::string good = read_text(manifest);
  std::string other = good;
  other.replace(other.find("second"), 6, "SECOND");
  write_text(manifest, other);
  const auto error = [&] { return message_of<BundleError>([&] { (void)load_modules(path()); }); };
  EXPECT_THAT(error(), AllOf(HasSubstr("head/manifest.json"), HasSubstr("SHA-256")));
  write_text(manifest, good + " ");
  EXPECT_THAT(error(), AllOf(HasSubstr("head/manifest.json"), HasSubstr("bytes")));
  fs::remove_all(path() / "head");
  EXPECT_THAT(error(), AllOf(HasSubstr("head/manifest.json"), HasSubstr("is missing")));
  fs::create_directory_symlink(second_.write(), path() / "head");
  EXPECT_THAT(error(), HasSubstr("leaves the bundle"));
  write();
  write_text(path() / "head" / "graph_0" / "small" / "engine.json", "{}");
  EXPECT_THAT(error(), AllOf(HasSubstr("head"), HasSubstr("graph_0/small/engine.json")));
}

TEST_F(Modules, WhatIsNoFolderOfModulesIsSaid) {
  const auto error = [](const fs::path& path) {
    return message_of<BundleError>([&] { (void)load_modules(path); });
  };
  EXPECT_THAT(error(path()), HasSubstr("does not exist"));
  EXPECT_THAT(error(first_.folder()), HasSubstr("has no modules.json"));
  EXPECT_THAT(error(first_.write()), HasSubstr("it is the bundle of one module"));
  write();
  EXPECT_THAT(message_of<BundleError>([&] { (void)Module::load(path()); }),
              HasSubstr("holds the bundles of several modules"));
}

TEST_F(Modules, EachPartOfTheListIsChecked) {
  const auto first = [](auto change) {
    return [change](Json& json) { change(json["modules"][0]); };
  };
  EXPECT_THAT(error_after([](Json& json) { json["format"] = "zip"; }),
              HasSubstr("no list of graphtune modules"));
  EXPECT_THAT(error_after([](Json& json) { json["format_version"] = 2; }),
              HasSubstr("update graphtune"));
  EXPECT_THAT(error_after([](Json& json) { json["modules"] = Json::array(); }),
              HasSubstr("names no module"));
  EXPECT_THAT(error_after([](Json& json) { json["extra"] = 1; }), HasSubstr("extra"));
  EXPECT_THAT(error_after(first([](Json& module) { module["name"] = ""; })),
              HasSubstr("/modules/0/name: an empty name"));
  EXPECT_THAT(error_after(first([](Json& module) { module["name"] = "head"; })),
              HasSubstr("another module has the same name"));
  for (const char* folder : {"../sample.bundle", "/etc", "a/../../b", "", "a\\b"}) {
    EXPECT_THAT(error_after(first([&](Json& module) { module["folder"] = folder; })),
                HasSubstr("/modules/0/folder: "))
        << folder;
  }
  EXPECT_THAT(error_after(first([](Json& module) { module["folder"] = "head"; })),
              HasSubstr("also another module's"));
  EXPECT_THAT(error_after(first([](Json& module) { module["folder"] = "head/inside"; })),
              HasSubstr("lies within"));
  EXPECT_THAT(error_after(first([](Json& module) { module["manifest"]["sha256"] = "abc"; })),
              HasSubstr("64 lower-case hexadecimal digits"));
  EXPECT_THAT(error_after(first([](Json& module) { module["manifest"]["size"] = -1; })),
              HasSubstr("/modules/0/manifest/size"));
  EXPECT_THAT(message_of<BundleError>([] { (void)parse_module_list("[1"); }),
              HasSubstr("modules.json"));
}

}  // namespace
}  // namespace graphtune
