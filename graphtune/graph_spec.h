#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graphtune/call_key.h"
#include "graphtune/contract.h"
#include "graphtune/export.h"
#include "graphtune/fixed_constants.h"
#include "graphtune/sample_metadata.h"

namespace graphtune {

/// One execution graph: its inputs and outputs as learned over all its samples. A value; not
/// synchronised.
class GRAPHTUNE_API GraphSpec {
 public:
  /// Sets eager_reason when no engine could serve the graph: opaque objects, layouts other than
  /// strided, results that hold no tensor or what can't be given back.
  GraphSpec(std::string name, SampleMetadata input_spec, SampleMetadata output_spec);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const SampleMetadata& input_spec() const noexcept { return input_spec_; }
  [[nodiscard]] const SampleMetadata& output_spec() const noexcept { return output_spec_; }
  [[nodiscard]] std::uint64_t sample_count() const noexcept { return sample_count_; }

  /// Learns from another sample of this graph. Throws ValueError (naming the difference) when the
  /// inputs are of another graph; outputs of another structure, rank or dtype, or with other
  /// constants, make the graph untunable (eager_reason) instead.
  void update(const SampleMetadata& input, const SampleMetadata& output);
  /// Same, from trees whose input key is known to be this graph's. True when the sizes (or the
  /// batch size) are new.
  bool observe(const CallTree& input, const CallTree& output,
               std::optional<std::int64_t> batch_size);

  [[nodiscard]] std::optional<std::int64_t> min_batch_size() const;
  [[nodiscard]] std::optional<std::int64_t> max_batch_size() const;

  /// Why calls of this graph run eagerly; empty: it can be (or is) tuned.
  [[nodiscard]] const std::string& eager_reason() const noexcept { return eager_reason_; }
  void set_eager_reason(std::string reason);

  /// Learned contract (Contract::from_metadata), until the tuner sets the one that was validated.
  [[nodiscard]] Contract contract() const;
  /// Throws ValueError when its tensors or their ranks are not the inputs'.
  void set_contract(Contract contract);

  /// The constants that its engines have built in: those of the first call, until the tuner says
  /// which. With strict mode on they are part of the key and need no check.
  [[nodiscard]] FixedConstants fixed_constants() const;
  /// Throws ValueError when there are not as many as the graph's calls have.
  void set_fixed_constants(FixedConstants constants);

  /// Name, the tables of inputs and outputs, symbols with ranges, ambiguities, why it stayed eager.
  [[nodiscard]] std::string describe(InfoLevel level) const;

 private:
  friend struct GraphSpecJson;
  void check_tunable();
  void note_output(const CallTree& output, const CallKey& key);

  std::string name_;
  SampleMetadata input_spec_;
  SampleMetadata output_spec_;
  CallKey output_key_;  // strict, whatever output_spec_ is: constants of a result are part of it
  std::uint64_t sample_count_ = 1;
  std::string eager_reason_;
  std::optional<Contract> contract_;
  std::optional<FixedConstants> fixed_constants_;
};

}  // namespace graphtune
