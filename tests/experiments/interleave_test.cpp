// Turns, ceilings around trials, when there are enough: on candidates in scripted times.
#include "experiments/instruments/interleave.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <thread>

namespace scaling {
namespace {

/// Takes a scripted time under scripted ceilings.
class FakeCandidate {
 public:
  FakeCandidate(std::string name, std::vector<std::string>* log)
      : name_(std::move(name)), log_(log) {}
  Candidate candidate() {
    return {.name = name_,
            .trial = [this](int number) { return trial(number); },
            .warm_up = [this] { ++warm_ups; },
            .prepare = [this] { ++prepared; },
            .ceilings = [this] { return ceilings(); }};
  }
  int warm_ups = 0, prepared = 0, measured = 0;
  bool unsteady = false;
  double jitter = 0;
  int nap_ms = 0;
  std::vector<LongPart> parts;

 private:
  Trial trial(int number) {
    EXPECT_EQ(number + 1, prepared);
    log_->push_back(name_);
    std::this_thread::sleep_for(std::chrono::milliseconds(nap_ms));
    return {{10 + jitter * (number % 3), 1}, parts};
  }
  Ceilings ceilings() {
    ++measured;
    const double read = unsteady && measured % 2 == 0 ? 80e9 : 50e9;
    return {read, 1e12};
  }
  std::string name_;
  std::vector<std::string>* log_;
};

std::vector<Trials> run(const std::vector<FakeCandidate*>& fakes, const Protocol& protocol) {
  std::vector<Candidate> candidates;
  for (FakeCandidate* fake : fakes) candidates.push_back(fake->candidate());
  std::multiset<std::size_t> finished;
  std::vector<Trials> trials =
      interleave(candidates, protocol, [&](std::size_t i, const Trials&) { finished.insert(i); });
  EXPECT_EQ(finished.size(), fakes.size());
  for (std::size_t i = 0; i < fakes.size(); ++i) EXPECT_EQ(finished.count(i), 1u);
  return trials;
}

TEST(Interleave, GoesOnUntilTheMedianIsKnown) {
  std::vector<std::string> log;
  FakeCandidate a("a", &log), b("b", &log);
  const auto results = run({&a, &b}, {});
  ASSERT_EQ(results.size(), 2u);
  // Six equal values are the fewest with a 95 % interval.
  EXPECT_EQ(results[0].kept.size(), 6u);
  EXPECT_EQ(results[1].kept.size(), 6u);
  EXPECT_EQ(a.warm_ups, 1);
  for (std::size_t round = 0; round < 6; ++round) {
    EXPECT_EQ((std::set<std::string>{log[2 * round], log[2 * round + 1]}.size()), 2u);
  }
  EXPECT_EQ(uncertainty_of(results[0], 2), 0);
}

TEST(Interleave, TrialsOfARoundAreKnownByItsNumber) {
  std::vector<std::string> log;
  FakeCandidate steady("steady", &log), odd("odd", &log);
  odd.unsteady = true;  // all its trials are rejected first, then kept
  const auto results = run({&steady, &odd}, {.least = 3, .most = 12});
  for (const Trials& trials : results) {
    double last = 0;
    for (std::size_t i = 0; i < trials.kept.size(); ++i) {
      EXPECT_EQ(trials.kept[i].round, int(i));
      EXPECT_GE(trials.kept[i].began, last);
      last = trials.kept[i].began;
    }
  }
  EXPECT_GE(results[1].kept.size(), 8u);
}

TEST(Interleave, OnlyTheDecisiveColumnsNeedBeKnown) {
  std::vector<std::string> log;
  FakeCandidate a("a", &log);
  a.jitter = 5;
  Protocol none;
  none.decisive = 0;
  EXPECT_EQ(run({&a}, none)[0].kept.size(), 6u);
  FakeCandidate b("b", &log);
  b.jitter = 5;
  const Trials trials = run({&b}, {.most = 12, .decisive = 1})[0];
  EXPECT_EQ(trials.kept.size(), 12u);
  EXPECT_GT(uncertainty_of(trials, 1), 0.1);
}

TEST(Interleave, BudgetEndsAnImpreciseCandidate) {
  std::vector<std::string> log;
  FakeCandidate a("a", &log);
  a.jitter = 5;
  EXPECT_EQ(run({&a}, {.budget_seconds = 1e-9})[0].kept.size(), 6u);
}

TEST(Interleave, RowsShareTheirBudgetsSoThatAllAreInEveryRound) {
  std::vector<std::string> log;
  FakeCandidate quick("quick", &log), slow("slow", &log);
  quick.jitter = slow.jitter = 5;
  slow.nap_ms = 4;
  const std::vector<Trials> trials = run({&quick, &slow}, {.budget_seconds = 0.1, .precision = 0});
  // The slow one takes of the quick one's budget what that leaves; the round at the end is cut.
  EXPECT_GT(trials[1].seconds, 1.3 * 0.1);
  EXPECT_NEAR(double(trials[0].kept.size()), double(trials[1].kept.size()), 1);
}

TEST(Interleave, ALackOfTrialsIsNotWaitedForLongerThanTwiceTheBudget) {
  std::vector<std::string> log;
  FakeCandidate a("a", &log);
  a.unsteady = true;
  const Trials trials = run({&a}, {.budget_seconds = 1e-9})[0];
  EXPECT_TRUE(trials.unstable);
  EXPECT_EQ(trials.attempts, 6);  // the least, of which none could be waited for
}

TEST(Interleave, RejectsWhatDisagreeingCeilingsBracketAndGivesThatUp) {
  std::vector<std::string> log;
  FakeCandidate a("a", &log);
  a.unsteady = true;
  const Trials trials = run({&a}, {})[0];
  EXPECT_TRUE(trials.unstable);
  EXPECT_TRUE(trials.rejected.empty());
  EXPECT_EQ(int(trials.kept.size()), trials.attempts);
  EXPECT_GE(trials.attempts, 8);
  EXPECT_DOUBLE_EQ(trials.kept[0].parts[0].ceilings.read_bytes_per_second, 65e9);
  // The reading after one trial serves as the one before the next.
  EXPECT_EQ(a.measured, trials.attempts + 1);
}

TEST(Interleave, WithoutCeilingsEveryTrialIsBelieved) {
  std::vector<std::string> log;
  FakeCandidate a("a", &log);
  a.unsteady = true;
  std::vector<Candidate> candidates = {a.candidate()};
  candidates[0].ceilings = {};
  candidates[0].warm_up = {};
  const Trials trials = interleave(candidates, {.least = 2, .most = 2})[0];
  EXPECT_EQ(trials.kept.size(), 2u);
  EXPECT_EQ(trials.attempts, 2);
  EXPECT_FALSE(trials.unstable);
  EXPECT_EQ(a.measured + a.warm_ups, 0);
}

TEST(Interleave, LongPartsHaveCeilingsOfTheirOwn) {
  std::vector<std::string> log;
  FakeCandidate a("a", &log);
  const Ceilings slow{50e9, 1e12}, fast{60e9, 1e12};
  a.parts.assign(9, {{0.5, 0.1}, slow, slow});
  a.parts.push_back({{0.4, 0.1}, slow, fast});  // the machine changed
  const Trials steady = run({&a}, {})[0];
  EXPECT_TRUE(steady.by_part);
  EXPECT_FALSE(steady.unstable);
  EXPECT_TRUE(steady.rejected.empty());
  EXPECT_EQ(steady.kept.size(), 6u) << "parts of one trial are one moment: six trials all the same";
  EXPECT_EQ(steady.kept[0].parts.size(), 9u);
  EXPECT_DOUBLE_EQ(steady.kept[0].column(0), 0.5);
  EXPECT_EQ(a.measured, 1) << "before it was known that parts are long";

  FakeCandidate b("b", &log);
  b.parts.assign(6, {{0.4, 0.1}, slow, fast});  // more than half
  b.parts.resize(10, {{0.5, 0.1}, slow, slow});
  const Trials unsteady = run({&b}, {})[0];
  EXPECT_TRUE(unsteady.unstable);
  EXPECT_EQ(unsteady.kept[0].parts.size(), 10u);
  EXPECT_DOUBLE_EQ(unsteady.kept[0].parts[0].ceilings.read_bytes_per_second, 55e9);
}

TEST(Interleave, MayWarmUpBeforeEachOfAFixedNumber) {
  std::vector<std::string> log;
  FakeCandidate a("a", &log);
  a.jitter = 5;
  EXPECT_EQ(run({&a}, {.least = 6, .most = 6, .warm_up_each = true})[0].kept.size(), 6u);
  EXPECT_EQ(a.warm_ups, 7);
}

}  // namespace
}  // namespace scaling
