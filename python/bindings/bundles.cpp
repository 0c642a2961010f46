#include "bindings/bundles.h"

#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "bindings/call_signature.h"
#include "bindings/plan_conversion.h"
#include "bindings/python_values.h"
#include "bindings/stub_types.h"
#include "bindings/tensor_access.h"
#include "bindings/walk.h"
#include "graphtune/bundle.h"
#include "graphtune/module.h"
#include "graphtune/modules.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace graphtune::python {
namespace {

// (name, backend, folder, native_code, info as JSON)
using EngineParts = std::tuple<std::string, std::string, Path, bool, std::string>;

/// The bundle and where its engines' files come from.
struct BundleWriter {
  Bundle bundle;
  std::map<std::string, std::filesystem::path> sources;

  void add_graph(const GraphSpec& spec, const PlanEntries& plan,
                 const std::vector<EngineParts>& engines, std::vector<std::int32_t> output_alias,
                 const ArgumentChanges* changes) {
    StoredGraph graph{spec, make_plan(plan), {}, std::move(output_alias), {}};
    if (changes != nullptr) {
      graph.changes = *changes;
    }
    for (const auto& [name, backend, folder, native_code, info] : engines) {
      StoredEngine engine;
      engine.name = name;
      engine.backend = backend;
      engine.folder = spec.name() + "/" + name;
      engine.native_code = native_code;
      engine.info_json = info;
      sources[engine.folder] = folder;
      graph.engines.push_back(std::move(engine));
    }
    bundle.graphs.push_back(std::move(graph));
  }
};

// A bundle to be written, or one that was read.
using Storable = std::variant<const BundleWriter*, const Bundle*>;

void write_module_bundles(const std::vector<std::pair<std::string, Storable>>& modules,
                          const Path& path) {
  std::vector<ModuleSource> sources;
  sources.reserve(modules.size());
  for (const auto& [name, stored] : modules) {
    if (const auto* writer = std::get_if<const BundleWriter*>(&stored)) {
      sources.push_back({name, &(*writer)->bundle, &(*writer)->sources});
    } else {
      sources.push_back({name, std::get<const Bundle*>(stored), nullptr});
    }
  }
  write_modules(sources, path);
}

std::vector<std::pair<std::string, std::string>> module_paths(const Path& path) {
  const ModuleFolder folder = read_modules(path);
  std::vector<std::pair<std::string, std::string>> paths;
  paths.reserve(folder.modules.size());
  for (const StoredModule& module : folder.modules) {
    paths.emplace_back(module.name, folder.path_of(module).string());
  }
  return paths;
}

nb::tuple describe_constant(const Constant& constant) {
  if (constant.kind() == Constant::Kind::Other) {
    return nb::make_tuple("typed", to_python(constant.type_name()),
                          to_python(std::string_view(constant.text())));
  }
  return nb::make_tuple("constant", to_python(constant));
}

// How a type's context stands in a tree: see Walker::add_typed.
bool is_context_key(const Step& step) {
  return step.kind == Step::Kind::Key && step.key.kind() == Constant::Kind::Other &&
         step.key.type_name() == kContextKey;
}

Step step_of(const CallTree& tree, const Node& node) {
  switch (node.step) {
    case Step::Kind::Key:
      return Step::of_key(tree.keys()[node.key]);
    case Step::Kind::Attribute:
      return Step::attribute(tree.keys()[node.key].text());
    case Step::Kind::Index:
      break;
  }
  return Step::at(node.index);
}

// A result's structure as nested tuples, from which Python makes an object of the recorded types.
nb::tuple describe_node(const CallTree& tree, std::uint32_t index) {
  const Node& node = tree.nodes()[index];
  switch (node.kind) {
    case NodeKind::Tensor:
      return nb::make_tuple("tensor", nb::steal(dtype_to_python(tree.tensors()[node.leaf].dtype)));
    case NodeKind::Constant:
      return describe_constant(tree.constants()[node.leaf]);
    case NodeKind::Opaque:
      return nb::make_tuple("opaque", to_python(std::string_view(*node.type)));
    default:
      break;
  }
  nb::object context = nb::none();
  nb::list children;
  for (std::uint32_t child = index + 1; child < node.end; child = tree.nodes()[child].end) {
    const Step step = step_of(tree, tree.nodes()[child]);
    if (is_context_key(step)) {
      context = to_python(std::string_view(step.key.text()));
    } else {
      children.append(nb::make_tuple(to_python(step), describe_node(tree, child)));
    }
  }
  switch (node.kind) {
    case NodeKind::List:
      return nb::make_tuple("list", children);
    case NodeKind::Tuple:
      return nb::make_tuple("tuple", children);
    case NodeKind::Dict:
      return nb::make_tuple("dict", children);
    default:
      return nb::make_tuple("object", to_python(std::string_view(*node.type)), context, children);
  }
}

AnyTuple describe_result(const GraphSpec& spec) {
  return describe_node(spec.output_spec().tree(), 0);
}

std::optional<AnyTuple> describe_changes(const Bundle& bundle, std::size_t graph) {
  const std::optional<ArgumentChanges>& changes = bundle.graphs.at(graph).changes;
  return changes ? std::optional<AnyTuple>(describe_node(changes->form, 0)) : std::nullopt;
}

nb::typed<nb::tuple, Router, nb::typed<nb::list, nb::str>> load_router(
    const Bundle& bundle, std::optional<bool> allow_native_code, int threads, bool has_model,
    EngineLoading loading) {
  LoadOptions options;
  options.loading = loading;
  options.has_model = has_model;
  options.allow_native_code = allow_native_code;
  options.engine.threads = threads;
  std::vector<std::string> problems;
  std::shared_ptr<Router> router;
  {
    const nb::gil_scoped_release release;
    router = make_router(bundle, options, &problems);
  }
  return nb::make_tuple(router, problems);
}

}  // namespace

void bind_bundles(nb::module_& module) {
  nb::class_<BundleWriter>(module, "BundleWriter", "Gathers what a bundle holds, and writes it.")
      .def(
          "__init__",
          [](BundleWriter* self, const std::string& name, bool strict,
             const CallSignature* signature, std::map<std::string, std::string> versions) {
            new (self) BundleWriter();
            self->bundle.module_name = name;
            self->bundle.strict = strict;
            self->bundle.signature = signature == nullptr ? Signature() : signature->signature();
            self->bundle.versions = std::move(versions);
            self->bundle.hardware = describe_hardware();
          },
          "name"_a, "strict"_a, "signature"_a.none(), "versions"_a)
      .def("add_graph", &BundleWriter::add_graph, "spec"_a, "plan"_a, "engines"_a, "output_alias"_a,
           "changes"_a.none() = nb::none(),
           "Engines: (name, backend, folder, native_code, info as JSON).")
      .def(
          "write",
          [](const BundleWriter& self, const Path& path) {
            write_bundle(self.bundle, self.sources, path);
          },
          "path"_a, nb::call_guard<nb::gil_scoped_release>(),
          "Replaces a bundle that is there. Raises BundleError.");

  nb::class_<Bundle>(module, "Bundle", "A bundle whose manifest and files were checked")
      .def_ro("module_name", &Bundle::module_name)
      .def_ro("strict", &Bundle::strict)
      .def_ro("versions", &Bundle::versions)
      .def_ro("hardware", &Bundle::hardware)
      .def_prop_ro("graph_specs",
                   [](const Bundle& bundle) {
                     std::vector<GraphSpec> specs;
                     for (const StoredGraph& graph : bundle.graphs) {
                       specs.push_back(graph.spec);
                     }
                     return specs;
                   })
      .def_prop_ro("signature", [](const Bundle& bundle) {
        return CallSignature(bundle.signature.parameters());
      });
  module.def(
      "read_bundle",
      [](const Path& path, bool verify, std::optional<bool> allow_native_code) {
        OpenOptions options;
        options.verify = verify;
        options.allow_native_code = allow_native_code;
        return read_bundle(path, options);
      },
      "path"_a, "verify"_a = true, "allow_native_code"_a = nb::none(),
      nb::call_guard<nb::gil_scoped_release>(),
      "Reads and checks a manifest and every file that it names. Raises BundleError.");
  module.def(
      "copy_bundle", [](const Bundle& bundle, const Path& path) { copy_bundle(bundle, path); },
      "bundle"_a, "path"_a, nb::call_guard<nb::gil_scoped_release>(),
      "Writes a bundle that was read to another place. Raises BundleError when it was changed.");
  module.def(
      "seal_manifest", [](const std::string& text) { return seal_manifest(text); }, "text"_a,
      "The text of an edited manifest, with the digest of what it now says.");
  nb::enum_<EngineLoading>(module, "EngineLoading", "When the engines of a bundle are loaded.")
      .value("IN_TURN", EngineLoading::InTurn, "One after the other.")
      .value("IN_PARALLEL", EngineLoading::InParallel, "As many at a time as there are cores.")
      .value("ON_FIRST_CALL", EngineLoading::OnFirstCall, "Each by the first call that it gets.");
  module.def("load_router", &load_router, "bundle"_a, "allow_native_code"_a = nb::none(),
             "threads"_a = 0, "has_model"_a = false, "loading"_a = EngineLoading::InTurn,
             "(Router, problems): engines that do not fit this machine are problems where another "
             "can serve.");
  module.def("write_modules", &write_module_bundles, "modules"_a, "path"_a,
             nb::call_guard<nb::gil_scoped_release>(),
             "Writes several modules, (name, BundleWriter or Bundle), whole or not at all. Raises "
             "BundleError.");
  module.def(
      "holds_modules", [](const Path& path) { return holds_modules(path); }, "path"_a,
      "Whether the folder holds the bundles of several modules.");
  module.def("read_modules", &module_paths, "path"_a, nb::call_guard<nb::gil_scoped_release>(),
             "(name, the bundle's path) of each module of a folder. Raises BundleError.");
  module.def("describe_result", &describe_result, "spec"_a,
             "The structure of a graph's results as nested tuples.");
  module.def("describe_changes", &describe_changes, "bundle"_a, "graph"_a,
             "The same of the form of a graph's changes, by the graph's place; None: it has none.");
}

}  // namespace graphtune::python
