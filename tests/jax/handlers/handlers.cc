// Handlers of the XLA FFI as JAX's documentation has them, for tests/jax/test_ffi_handlers.py.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

// y = x / sqrt(mean(x^2) + eps) along the last dimension.
ffi::Error RmsNorm(float eps, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  auto dims = x.dimensions();
  if (dims.size() == 0) return ffi::Error::InvalidArgument("RmsNorm input must be an array");
  int64_t size = dims.back(), total = x.element_count();
  for (int64_t row = 0; row < total; row += size) {
    const float* in = x.typed_data() + row;
    float* out = y->typed_data() + row;
    float sum = 0.0f;
    for (int64_t i = 0; i < size; ++i) sum += in[i] * in[i];
    float scale = 1.0f / std::sqrt(sum / float(size) + eps);
    for (int64_t i = 0; i < size; ++i) out[i] = in[i] * scale;
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(rms_norm, RmsNorm, ffi::Ffi::Bind()
    .Attr<float>("eps").Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());

// Every kind of attribute: their sum.
ffi::Error SumAttributes(bool flag, int32_t number, std::string_view text,
                         ffi::Span<const int64_t> list, ffi::Dictionary inner,
                         ffi::ResultBuffer<ffi::F64> out) {
  auto third = inner.get<double>("third");
  if (third.has_error()) return third.error();
  double sum = (flag ? 1000 : 0) + number + double(text.size()) + *third;
  for (int64_t value : list) sum += double(value);
  *out->typed_data() = sum;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(sum_attributes, SumAttributes, ffi::Ffi::Bind()
    .Attr<bool>("flag").Attr<int32_t>("number").Attr<std::string_view>("text")
    .Attr<ffi::Span<const int64_t>>("list").Attr<ffi::Dictionary>("inner")
    .Ret<ffi::Buffer<ffi::F64>>());

// A counter with state: how often it was called since the program was compiled.
static int64_t states_alive = 0;
extern "C" int64_t alive() { return states_alive; }
struct Counter {
  static ffi::TypeId id;
  static ffi::TypeInfo info;
  explicit Counter(int64_t value) : value(value) { ++states_alive; }
  ~Counter() { --states_alive; }
  int64_t value;
};
ffi::TypeId Counter::id = {};
ffi::TypeInfo Counter::info = ffi::MakeTypeInfo<Counter>();
extern "C" void* counter_type_id() { return &Counter::id; }
extern "C" void* counter_type_info() { return &Counter::info; }
ffi::ErrorOr<std::unique_ptr<Counter>> NewCounter(int64_t start) {
  if (start < 0) return ffi::Unexpected(ffi::Error::InvalidArgument("start must not be negative"));
  return std::make_unique<Counter>(start);
}
ffi::Error Count(Counter* counter, int64_t start, ffi::ResultBuffer<ffi::S64> out) {
  *out->typed_data() = counter->value++;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(new_counter, NewCounter,
    ffi::Ffi::BindInstantiate().Attr<int64_t>("start"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(count, Count, ffi::Ffi::Bind()
    .Ctx<ffi::State<Counter>>().Attr<int64_t>("start").Ret<ffi::Buffer<ffi::S64>>());

// Any element type: copies; an operand and result that are one array are left alone.
ffi::Error Copy(ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> y) {
  if (x.untyped_data() != y->untyped_data())
    std::memcpy(y->untyped_data(), x.untyped_data(), x.size_bytes());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(copy, Copy, ffi::Ffi::Bind()
    .Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>());

// Adds one in a thread of its own; the result is a future.
ffi::Future AddLater(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> x,
                     ffi::ResultBuffer<ffi::F32> y) {
  ffi::Promise promise;
  ffi::Future future(promise);
  pool.Schedule([promise = std::move(promise), x, y]() mutable {
    for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] + 1;
    if (x.typed_data()[0] < 0) promise.SetError(ffi::Error::Internal("negative"));
    else promise.SetAvailable();
  });
  return future;
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(add_later, AddLater, ffi::Ffi::Bind()
    .Ctx<ffi::ThreadPool>().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());

// The first kind of custom call.
extern "C" void plain(void* out, const void** in) {
  static_cast<float*>(out)[0] = static_cast<const float*>(in[0])[0] * 2;
}
