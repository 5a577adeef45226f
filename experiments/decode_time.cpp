// The driver of the study of decoding.
#include "experiments/decode/decode_study.h"

int main(int argc, char** argv) {
  return scaling::run_study(*scaling::make_decode_study(), argc, argv);
}
