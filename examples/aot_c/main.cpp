// The same as main.c, through the class that `--header-lang=c,c++` adds.
#include <array>
#include <cstdio>

#include "classifier.hpp"

int main() {
  const std::array<float, CLASSIFIER_ARG0_ELEMENTS> points = {0.1f, 0.05f, -0.5f, 0.2f,
                                                              0.3f, -0.6f, 0.0f, 0.9f};
  std::array<float, CLASSIFIER_OUT0_ELEMENTS> probabilities{};
  std::array<std::int32_t, CLASSIFIER_OUT1_ELEMENTS> classes{};

  classifier_model model;
  if (const int status = model(points.data(), probabilities.data(), classes.data())) {
    std::fprintf(stderr, "classifier returned %d\n", status);
    return 1;
  }
  for (std::size_t i = 0; i < classes.size(); i++) {
    std::printf("(%5.2f, %5.2f) -> class %d  ", points[2 * i], points[2 * i + 1],
                static_cast<int>(classes[i]));
    for (std::size_t c = 0; c < CLASSIFIER_OUT0_DIM1; c++)
      std::printf(" %.9g", probabilities[CLASSIFIER_OUT0_DIM1 * i + c]);
    std::printf("\n");
  }
  return 0;
}
