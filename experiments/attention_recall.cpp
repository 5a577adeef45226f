// The driver of the study of recall.
#include "experiments/attention/recall_study.h"

int main(int argc, char** argv) {
  return scaling::run_study(*scaling::make_recall_study(), argc, argv);
}
