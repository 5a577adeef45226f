// The driver of the study of attentions' decode steps.
#include "experiments/attention/decode_study.h"

int main(int argc, char** argv) {
  return scaling::run_study(*scaling::make_attention_decode_study(), argc, argv);
}
