/* Classifies four points by the network that hloc has compiled into classifier.o. */
#include <stdio.h>
#include <stdlib.h>

#include "classifier.h"

int main(void) {
  const float points[CLASSIFIER_ARG0_DIM0][CLASSIFIER_ARG0_DIM1] = {
      {0.1f, 0.05f}, {-0.5f, 0.2f}, {0.3f, -0.6f}, {0.0f, 0.9f}};
  float probabilities[CLASSIFIER_OUT0_DIM0][CLASSIFIER_OUT0_DIM1];
  int32_t classes[CLASSIFIER_OUT1_DIM0];

  /* aligned_alloc wants a multiple of the alignment that is not 0. */
  size_t blocks = CLASSIFIER_TEMP_BYTES / CLASSIFIER_ALIGNMENT + 1;
  void *temp = aligned_alloc(CLASSIFIER_ALIGNMENT, blocks * CLASSIFIER_ALIGNMENT);
  if (temp == NULL) return EXIT_FAILURE;

  int status = classifier(&points[0][0], &probabilities[0][0], classes, temp);
  free(temp);
  if (status != 0) {
    fprintf(stderr, "classifier returned %d\n", status);
    return EXIT_FAILURE;
  }
  for (int i = 0; i < CLASSIFIER_ARG0_DIM0; i++) {
    printf("(%5.2f, %5.2f) -> class %d  ", points[i][0], points[i][1], (int)classes[i]);
    for (int c = 0; c < CLASSIFIER_OUT0_DIM1; c++) printf(" %.9g", probabilities[i][c]);
    printf("\n");
  }
  return EXIT_SUCCESS;
}
