#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calls.h"
#include "fake_backend.h"
#include "graphtune/engines/registry.h"
#include "graphtune/error.h"
#include "temporary_folder.h"

namespace graphtune {
namespace {

using test::FakeBackend;
using test::message_of;
using test::TemporaryFolder;
using ::testing::HasSubstr;

/// Sets GRAPHTUNE_ENGINE_PATH for the time of a test.
class EnginePath {
 public:
  explicit EnginePath(const std::string& value) {
    setenv("GRAPHTUNE_ENGINE_PATH", value.c_str(), 1);
  }
  ~EnginePath() { unsetenv("GRAPHTUNE_ENGINE_PATH"); }
  EnginePath(const EnginePath&) = delete;
  EnginePath& operator=(const EnginePath&) = delete;
};

TEST(Registry, FindsWhatWasRegisteredAndKeepsWhatWasReplaced) {
  auto first = std::make_shared<FakeBackend>("registry_test");
  register_backend(first);
  Backend& found = find_backend("registry_test");
  EXPECT_EQ(&found, first.get());
  auto second = std::make_shared<FakeBackend>("registry_test");
  register_backend(second);
  EXPECT_EQ(&find_backend("registry_test"), second.get());
  first.reset();
  EXPECT_EQ(found.version(), "fake 1.0");  // the reference from before is still good
}

TEST(Registry, RefusesWhatHasNoUsableName) {
  EXPECT_THROW(register_backend(nullptr), ValueError);
  EXPECT_THROW(register_backend(std::make_shared<FakeBackend>("")), ValueError);
  EXPECT_THROW(register_backend(std::make_shared<FakeBackend>("Fake")), ValueError);
}

TEST(Registry, AMissingLibraryIsNamedWithThePlacesTried) {
  const TemporaryFolder folder;
  const EnginePath path(folder.path().string() + "::" + (folder.path() / "more").string());
  const std::string message = message_of<EngineError>([] { (void)find_backend("nowhere"); });
  EXPECT_THAT(message, HasSubstr("backend 'nowhere' is not available"));
  EXPECT_THAT(message, HasSubstr((folder.path() / "libgraphtune_engine_nowhere.so").string() +
                                 ": not there"));
  EXPECT_THAT(message, HasSubstr("more/libgraphtune_engine_nowhere.so"));
  EXPECT_THAT(message, HasSubstr("GRAPHTUNE_ENGINE_PATH"));
}

TEST(Registry, ALibraryThatWouldNotOpenIsReportedInTheLoadersWords) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "libgraphtune_engine_garbage.so") << "this is no library";
  const EnginePath path(folder.path().string());
  EXPECT_THAT(message_of<EngineError>([] { (void)find_backend("garbage"); }),
              HasSubstr("it would not open: "));
}

#ifdef GRAPHTUNE_TEST_ENGINES
TEST(Registry, ALibraryMustHoldTheBackendOfItsName) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink(
      std::filesystem::path(GRAPHTUNE_TEST_ENGINES) / "libgraphtune_engine_fake.so",
      folder.path() / "libgraphtune_engine_disguised.so");
  const EnginePath path(folder.path().string());
  EXPECT_THAT(message_of<EngineError>([] { (void)find_backend("disguised"); }),
              HasSubstr("it holds backend 'fake'"));
}
#endif

TEST(Registry, NamesCanNotLeadOutOfTheFolders) {
  for (const char* name : {"", "../evil", "a/b", "a.b", "OpenVINO", "x\n", "a b"}) {
    EXPECT_THAT(message_of<EngineError>([&] { (void)find_backend(name); }),
                HasSubstr("is no name of a backend"))
        << name;
  }
  EXPECT_THROW((void)find_backend(std::string(100'000, 'a')), EngineError);
  EXPECT_THROW((void)find_backend(std::string_view("fake\0x", 6)), EngineError);
}

TEST(Registry, ListsKnownAndRegisteredBackendsWithTheirState) {
  register_backend(std::make_shared<FakeBackend>("listed"));
  register_backend(std::make_shared<FakeBackend>("listed_absent", "no such device"));
  int seen = 0;
  for (const BackendInfo& info : list_backends()) {
    if (info.name == "listed") {
      EXPECT_EQ(info.version, "fake 1.0");
      EXPECT_EQ(info.unavailable_reason, "");
      ++seen;
    } else if (info.name == "listed_absent") {
      EXPECT_EQ(info.unavailable_reason, "no such device");
      ++seen;
    } else if (info.name == "aoti" || info.name == "openvino") {
      EXPECT_NE(info.version.empty(), info.unavailable_reason.empty()) << info.name;
      ++seen;
    }
  }
  EXPECT_EQ(seen, 4);
}

TEST(Registry, ManyThreadsMayAskAtOnce) {
  register_backend(std::make_shared<FakeBackend>("threads_test"));
  std::vector<std::thread> threads;
  std::atomic<int> found = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 50; ++round) {
        if (i == 0) {
          register_backend(std::make_shared<FakeBackend>("threads_test"));
        }
        found += find_backend("threads_test").name() == "threads_test" ? 1 : 0;
        EXPECT_THROW((void)find_backend("absent_for_threads"), EngineError);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(found, 400);
}

}  // namespace
}  // namespace graphtune
