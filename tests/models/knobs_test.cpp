// Knobs: text to values and back, names of choices, several structs as one list.
#include "models/knobs.h"

#include <gtest/gtest.h>

#include "kernels/check.h"
#include "tests/helpers.h"

namespace scaling {

enum class Colour { red, deep_blue };
constexpr std::array<const char*, 2> names_of(Colour) { return {"red", "deep_blue"}; }

namespace {

struct Paint {
  Colour colour = Colour::red;
  double coats = 1.5;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("colour", k.colour, "of the wall");
    visit("coats", k.coats, "one over the other", Trait{.quick = "1", .in_key = InKey::no});
  }
};

struct Room {
  std::int64_t width = 3;
  bool lit = false;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("width", k.width, "in metres");
    visit("lit", k.lit, "has a lamp");
  }
};

TEST(Knobs, ChoicesAreKnownByName) {
  Colour colour = Colour::red;
  parse_value("colour", "deep_blue", colour);
  EXPECT_EQ(colour, Colour::deep_blue);
  EXPECT_EQ(print_value(colour), "deep_blue");
  EXPECT_EQ(message_of([&] { parse_value("colour", "mauve", colour); }),
            "unknown colour 'mauve'; known: red, deep_blue");
  EXPECT_EQ(colour, Colour::deep_blue);
}

TEST(Knobs, SeveralStructsAreOneList) {
  Paint paint;
  Room room;
  Knobs knobs;
  knobs.add(paint);
  knobs.add(room);
  knobs.set("colour", "deep_blue");
  knobs.set("width", "12");
  knobs.set("lit", "1");
  EXPECT_EQ(paint.colour, Colour::deep_blue);
  EXPECT_EQ(room.width, 12);
  EXPECT_TRUE(room.lit);
  EXPECT_EQ(
      knobs.all(),
      (Settings{{"colour", "deep_blue"}, {"coats", "1.5"}, {"width", "12"}, {"lit", "true"}}));
  EXPECT_EQ(knobs.changed(), (Settings{{"colour", "deep_blue"}, {"width", "12"}, {"lit", "true"}}));
  EXPECT_TRUE(knobs.has("coats"));
  EXPECT_FALSE(knobs.has("height"));
  EXPECT_EQ(message_of([&] { knobs.set("height", "1"); }),
            "unknown knob 'height'; known: colour, coats, width, lit");
  EXPECT_NE(message_of([&] { knobs.set("width", "wide"); }).find("'wide' for width"),
            std::string::npos);
}

/// Text of one value has one form, whoever wrote it.
TEST(Knobs, InfoTellsDefaultsAndForms) {
  const std::vector<KnobInfo> all = knobs_of<Paint>();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].initial, "red");
  EXPECT_EQ(all[1].initial, "1.5");
  EXPECT_STREQ(all[1].trait.quick, "1");
  EXPECT_EQ(all[1].trait.in_key, InKey::no);
  EXPECT_EQ(all[1].normalised("coats", "2.50"), "2.5");
  EXPECT_NE(message_of([&] { all[1].normalised("coats", "inf"); }).find("coats"),
            std::string::npos);
}

}  // namespace
}  // namespace scaling
