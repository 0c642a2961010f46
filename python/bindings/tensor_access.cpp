#include "bindings/tensor_access.h"

#include <cstring>
#include <memory>
#include <string>

#include <ATen/ATen.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>

#include "graphtune/error.h"

namespace graphtune::python {
namespace {

// The core's numbers are torch's: types convert with a cast.
template <typename Ours, typename Theirs>
constexpr bool same(Ours ours, Theirs theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}
static_assert(same(DType::UInt8, at::kByte) && same(DType::Int8, at::kChar) &&
              same(DType::Int16, at::kShort) && same(DType::Int32, at::kInt) &&
              same(DType::Int64, at::kLong));
static_assert(same(DType::Float16, at::kHalf) && same(DType::Float32, at::kFloat) &&
              same(DType::Float64, at::kDouble) && same(DType::BFloat16, at::kBFloat16));
static_assert(same(DType::Complex32, at::kComplexHalf) &&
              same(DType::Complex64, at::kComplexFloat) &&
              same(DType::Complex128, at::kComplexDouble) && same(DType::Bool, at::kBool));
static_assert(same(DType::QInt8, at::kQInt8) && same(DType::QUInt8, at::kQUInt8) &&
              same(DType::QInt32, at::kQInt32) && same(DType::QUInt4x2, at::kQUInt4x2) &&
              same(DType::QUInt2x4, at::kQUInt2x4));
static_assert(same(DType::Bits1x8, at::kBits1x8) && same(DType::Bits2x4, at::kBits2x4) &&
              same(DType::Bits4x2, at::kBits4x2) && same(DType::Bits8, at::kBits8) &&
              same(DType::Bits16, at::kBits16));
static_assert(same(DType::Float8E5M2, at::kFloat8_e5m2) &&
              same(DType::Float8E4M3FN, at::kFloat8_e4m3fn) &&
              same(DType::Float8E5M2FNUZ, at::kFloat8_e5m2fnuz) &&
              same(DType::Float8E4M3FNUZ, at::kFloat8_e4m3fnuz));
static_assert(same(DType::UInt16, at::kUInt16) && same(DType::UInt32, at::kUInt32) &&
              same(DType::UInt64, at::kUInt64));
static_assert(same(DeviceType::Cpu, c10::DeviceType::CPU) &&
              same(DeviceType::Cuda, c10::DeviceType::CUDA) &&
              same(DeviceType::Hip, c10::DeviceType::HIP) &&
              same(DeviceType::Xla, c10::DeviceType::XLA) &&
              same(DeviceType::Xpu, c10::DeviceType::XPU) &&
              same(DeviceType::Mps, c10::DeviceType::MPS) &&
              same(DeviceType::Meta, c10::DeviceType::Meta));
static_assert(same(Layout::Strided, at::kStrided) && same(Layout::Sparse, at::kSparse) &&
              same(Layout::SparseCsr, at::kSparseCsr) && same(Layout::Mkldnn, at::kMkldnn) &&
              same(Layout::SparseCsc, at::kSparseCsc) && same(Layout::SparseBsr, at::kSparseBsr) &&
              same(Layout::SparseBsc, at::kSparseBsc) && same(Layout::Jagged, at::kJagged));

constexpr c10::DispatchKeySet kTransforms{
    c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchBatchedDecomposition,
    c10::DispatchKey::BatchedNestedTensor, c10::DispatchKey::FuncTorchGradWrapper,
    c10::DispatchKey::Functionalize};

/// FakeTensor and FunctionalTensor: what torch passes to a model while it traces it.
bool is_tracing_type(PyTypeObject* type) {
  static const void* virtual_type = nullptr;  // the one seen last; the check below imports nothing
  if (type == virtual_type) {
    return true;
  }
  PyObject* module = PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__module__");
  const char* text =
      module != nullptr && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : nullptr;
  const bool traces = text != nullptr && std::strncmp(text, "torch._subclasses", 17) == 0;
  Py_XDECREF(module);
  PyErr_Clear();
  if (traces) {
    virtual_type = type;  // torch's classes live as long as the process
  }
  return traces;
}

const at::Tensor& unpack(PyObject* tensor) noexcept {
  return reinterpret_cast<THPVariable*>(tensor)->cdata;
}

/// First byte of the elements, without the write that at::Tensor::data_ptr() announces to a lazily
/// copied storage.
void* data_of(const c10::TensorImpl& tensor) {
  if (!tensor.has_storage()) {
    return nullptr;
  }
  const char* base = static_cast<const char*>(tensor.unsafe_storage().data());
  if (base == nullptr) {
    return nullptr;
  }
  // The core only reads inputs; its view is not const because results are views too.
  return const_cast<char*>(base +
                           tensor.storage_offset() * static_cast<std::int64_t>(tensor.itemsize()));
}

void fill_facts(const c10::TensorImpl& tensor, TensorView& view) {
  const c10::Device device = tensor.device();
  view.dtype = static_cast<DType>(c10::typeMetaToScalarType(tensor.dtype()));
  view.device = static_cast<DeviceType>(device.type());
  view.device_index = device.index();
  view.layout = static_cast<Layout>(tensor.layout());
  view.requires_grad = tensor.requires_grad();
}

/// A subclass whose operations call a `__torch_function__`, its own or the one that all inherit,
/// which gives the result the type. Parameters have it switched off.
bool has_torch_function(PyTypeObject* type) {
  if (THPVariable_CheckTypeExact(type)) {
    return false;
  }
  static PyObject* switched_off = nullptr;  // as long as the process
  if (switched_off == nullptr) {
    PyObject* const torch = PyImport_ImportModule("torch._C");
    switched_off =
        torch == nullptr ? nullptr : PyObject_GetAttrString(torch, "_disabled_torch_function_impl");
    Py_XDECREF(torch);
  }
  PyObject* const own =
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__torch_function__");
  const bool has = own == nullptr || own != switched_off;
  Py_XDECREF(own);
  PyErr_Clear();
  return has;
}

}  // namespace

bool is_tensor_type(PyTypeObject* type) noexcept {
  return THPVariableClass != nullptr &&
         (THPVariable_CheckTypeExact(type) ||
          PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(THPVariableClass)) != 0);
}

TensorState view_of(PyObject* object, TensorView& view) {
  const c10::TensorImpl* tensor = unpack(object).unsafeGetTensorImpl();
  view.data = nullptr;
  view.strides = nullptr;
  TensorState state = TensorState::Plain;
  const c10::DispatchKeySet keys = tensor->key_set();
  if (tensor->is_python_dispatch() || keys.has_any(kTransforms)) {
    state = !tensor->is_python_dispatch() || is_tracing_type(Py_TYPE(object))
                ? TensorState::Virtual
                : TensorState::Foreign;
  } else if (has_torch_function(Py_TYPE(object))) {
    state = TensorState::Foreign;
  }
  // Nested and symbolic sizes can't be had as numbers.
  if (state == TensorState::Foreign || tensor->is_nested() ||
      tensor->has_symbolic_sizes_strides()) {
    if (state == TensorState::Virtual) {
      view.sizes = nullptr;
      view.rank = 0;
      return TensorState::Virtual;
    }
    return TensorState::Foreign;
  }
  const at::IntArrayRef sizes = tensor->sizes();
  view.sizes = sizes.data();
  view.rank = static_cast<std::int32_t>(sizes.size());
  fill_facts(*tensor, view);
  if (state == TensorState::Plain && view.layout == Layout::Strided) {
    view.strides = tensor->strides().data();
    view.data = data_of(*tensor);
  }
  return state;
}

const at::Tensor& tensor_of(PyObject* tensor) noexcept { return unpack(tensor); }

PyObject* wrap(const at::Tensor& tensor) {
  PyObject* object = THPVariable_Wrap(tensor);
  if (object == nullptr) {
    throw python_error();
  }
  return object;
}

Tensor to_core(PyObject* object) {
  const at::Tensor& given = unpack(object);
  if (given.layout() != at::kStrided || given.unsafeGetTensorImpl()->is_python_dispatch()) {
    throw TypeError("a tensor of type " + std::string(Py_TYPE(object)->tp_name) +
                    " has no strided memory that an engine could read");
  }
  auto owner = std::make_shared<at::Tensor>(given);
  if (given.is_conj() || given.is_neg()) {
    *owner = owner->resolve_conj().resolve_neg();
  }
  if (given._is_zerotensor()) {
    *owner = owner->clone();
  }
  const c10::TensorImpl& tensor = *owner->unsafeGetTensorImpl();
  void* data = data_of(tensor);
  if (data == nullptr && tensor.numel() != 0 && !tensor.is_meta()) {
    throw TypeError("a tensor of type " + std::string(Py_TYPE(object)->tp_name) +
                    " has no memory that an engine could read");
  }
  TensorView facts;
  fill_facts(tensor, facts);
  const at::IntArrayRef sizes = tensor.sizes();
  const at::IntArrayRef strides = tensor.strides();
  return {data,
          facts.dtype,
          Dims({sizes.data(), sizes.size()}),
          Dims({strides.data(), strides.size()}),
          std::move(owner),
          facts.device,
          facts.device_index};
}

bool has_readable_memory(PyObject* object, TensorView& view) {
  const at::Tensor& tensor = unpack(object);
  return view_of(object, view) == TensorState::Plain && view.data != nullptr &&
         view.strides != nullptr && view.element_count() > 0 && !tensor.is_conj() &&
         !tensor.is_neg();
}

Tensor to_engine(PyObject* object, bool may_lend) {
  TensorView view;
  if (may_lend && has_readable_memory(object, view) && view.is_contiguous()) {
    return {view.data, view.dtype, Dims(view.shape()),
            Dims({view.strides, static_cast<std::size_t>(view.rank)}),
            // Points at something and counts nothing.
            std::shared_ptr<void>(std::shared_ptr<void>(), object), view.device, view.device_index};
  }
  Tensor tensor = to_core(object);
  return tensor.view().is_contiguous() ? tensor : tensor.contiguous();
}

bool is_lent(const Tensor& tensor) noexcept {
  return tensor.owner() != nullptr && tensor.owner().use_count() == 0;
}

PyObject* from_core(const Tensor& tensor) {
  const auto dims = [](const Dims& values) {
    return at::IntArrayRef(values.data(), values.size());
  };
  const c10::Device device(static_cast<c10::DeviceType>(tensor.device()), tensor.device_index());
  const auto options =
      at::TensorOptions().dtype(static_cast<at::ScalarType>(tensor.dtype())).device(device);
  auto* owner = new std::shared_ptr<void>(tensor.owner());
  return wrap(
      at::for_blob(tensor.data(), dims(tensor.sizes()))
          .strides(dims(tensor.strides()))
          .context(owner,
                   [](void* context) { delete static_cast<std::shared_ptr<void>*>(context); })
          .options(options)
          .target_device(device)
          .make_tensor());
}

const void* identity_of(PyObject* tensor) noexcept { return unpack(tensor).unsafeGetTensorImpl(); }

MemoryRange memory_of(PyObject* object) {
  TensorView view;
  if (view_of(object, view) != TensorState::Plain || view.data == nullptr) {
    return {};
  }
  const c10::TensorImpl& tensor = *unpack(object).unsafeGetTensorImpl();
  std::int64_t last = 0;
  for (std::int32_t axis = 0; axis < view.rank; ++axis) {
    if (view.sizes[axis] == 0) {
      return {};
    }
    last += (view.sizes[axis] - 1) * view.strides[axis];
  }
  const char* begin = static_cast<const char*>(view.data);
  return {tensor.unsafe_storage().unsafeGetStorageImpl(), begin,
          begin + (last + 1) * static_cast<std::int64_t>(tensor.itemsize())};
}

std::optional<std::uint32_t> version_of(PyObject* object) {
  const at::Tensor& tensor = unpack(object);
  if (tensor.is_inference()) {
    return std::nullopt;
  }
  return tensor.unsafeGetTensorImpl()->version_counter().current_version();
}

PyObject* clone(PyObject* object) {
  const at::AutoDispatchBelowADInplaceOrView outside_autograd;
  const at::Tensor& tensor = unpack(object);
  return wrap(tensor.clone(
      tensor.layout() == at::kStrided ? std::optional(at::MemoryFormat::Preserve) : std::nullopt));
}

bool same_values(PyObject* first, PyObject* second) {
  const at::AutoDispatchBelowADInplaceOrView outside_autograd;
  const at::Tensor& a = unpack(first);
  const at::Tensor& b = unpack(second);
  if (a.scalar_type() != b.scalar_type() || a.layout() != b.layout() || a.sizes() != b.sizes()) {
    return false;
  }
  if (a.layout() != at::kStrided || a.is_meta() || a.is_quantized()) {
    return true;  // such tensors' values are not compared
  }
  const at::Tensor equal = at::eq(a, b);
  return (a.is_floating_point() || a.is_complex()
              ? equal.logical_or(at::ne(a, a).logical_and(at::ne(b, b)))
              : equal)
      .all()
      .item<bool>();
}

PyObject* dtype_to_python(DType dtype) {
  auto* object =
      reinterpret_cast<PyObject*>(torch::getTHPDtype(static_cast<at::ScalarType>(dtype)));
  return Py_NewRef(object);
}

DType dtype_from_python(PyObject* object) {
  if (!THPDtype_Check(object)) {
    throw TypeError("dtype must be a torch.dtype, not " + std::string(Py_TYPE(object)->tp_name));
  }
  return static_cast<DType>(reinterpret_cast<THPDtype*>(object)->scalar_type);
}

bool translate_torch_exception(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (python_error& error) {
    error.restore();
  } catch (const c10::Error& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
  } catch (...) {
    return false;
  }
  return true;
}

}  // namespace graphtune::python
