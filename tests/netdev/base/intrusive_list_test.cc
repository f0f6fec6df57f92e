// SPDX-License-Identifier: Apache-2.0
#include "netdev/base/intrusive_list.h"

#include <gtest/gtest.h>

#include <list>
#include <memory>
#include <vector>

#include "netdev/base/seeded_random.h"

namespace tapwire {
namespace {

struct FirstTag {};
struct SecondTag {};

struct Item : ListHook<FirstTag>, ListHook<SecondTag> {
  explicit Item(int v) : value(v) {}
  int value;
};

using FirstList = IntrusiveList<Item, FirstTag>;
using SecondList = IntrusiveList<Item, SecondTag>;

template <typename List>
std::vector<int> Values(const List& list) {
  std::vector<int> values;
  for (const Item& item : list) {
    values.push_back(item.value);
  }
  return values;
}

TEST(IntrusiveListTest, KeepsOrderAtBothEnds) {
  Item a(1), b(2), c(3);
  FirstList list;
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.front(), nullptr);
  EXPECT_EQ(list.back(), nullptr);
  EXPECT_EQ(list.PopFront(), nullptr);
  list.PushBack(b);
  list.PushBack(c);
  list.PushFront(a);
  EXPECT_EQ(Values(list), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(list.size(), 3U);
  EXPECT_EQ(list.front(), &a);
  EXPECT_EQ(list.back(), &c);
  EXPECT_EQ(list.PopFront(), &a);
  EXPECT_FALSE(static_cast<ListHook<FirstTag>&>(a).linked());
  EXPECT_EQ(Values(list), (std::vector<int>{2, 3}));
}

TEST(IntrusiveListTest, DestroyedElementLeaves) {
  FirstList list;
  Item a(1), c(3);
  auto b = std::make_unique<Item>(2);
  list.PushBack(a);
  list.PushBack(*b);
  list.PushBack(c);
  b.reset();
  EXPECT_EQ(Values(list), (std::vector<int>{1, 3}));
}

TEST(IntrusiveListTest, DestroyedListLeavesElementsFree) {
  Item a(1);
  {
    FirstList list;
    list.PushBack(a);
  }
  EXPECT_FALSE(static_cast<ListHook<FirstTag>&>(a).linked());
}

TEST(IntrusiveListTest, TagsAreIndependent) {
  Item a(1), b(2);
  FirstList first;
  SecondList second;
  first.PushBack(a);
  first.PushBack(b);
  second.PushBack(b);
  second.PushBack(a);
  first.Remove(a);
  EXPECT_EQ(Values(first), (std::vector<int>{2}));
  EXPECT_EQ(Values(second), (std::vector<int>{2, 1}));
}

TEST(IntrusiveListTest, PushMovesAnElementThatIsOnAList) {
  Item a(1), b(2);
  FirstList list, other;
  list.PushBack(a);
  list.PushBack(b);
  list.PushBack(a);
  EXPECT_EQ(Values(list), (std::vector<int>{2, 1}));
  list.PushFront(*list.front());
  EXPECT_EQ(Values(list), (std::vector<int>{2, 1}));
  list.PushBack(*list.back());
  EXPECT_EQ(Values(list), (std::vector<int>{2, 1}));
  other.PushBack(a);
  EXPECT_EQ(Values(list), (std::vector<int>{2}));
  EXPECT_EQ(Values(other), (std::vector<int>{1}));
}

TEST(IntrusiveListTest, SpliceMovesAll) {
  Item a(1), b(2), c(3);
  FirstList list, other;
  list.Splice(other);
  EXPECT_TRUE(list.empty());
  list.PushBack(a);
  other.PushBack(b);
  other.PushBack(c);
  list.Splice(other);
  list.Splice(list);
  EXPECT_TRUE(other.empty());
  EXPECT_EQ(Values(list), (std::vector<int>{1, 2, 3}));
}

TEST(IntrusiveListTest, RandomOperationsAgreeWithStdList) {
  SeededRandom random(5);
  std::vector<std::unique_ptr<Item>> items;
  for (int i = 0; i < 20; ++i) {
    items.push_back(std::make_unique<Item>(i));
  }
  FirstList list;
  std::list<int> model;
  for (int step = 0; step < 20000; ++step) {
    const int id = static_cast<int>(random.Uniform(20));
    Item& item = *items[static_cast<size_t>(id)];
    switch (random.Uniform(5)) {
      case 0:
        list.PushBack(item);
        model.remove(id);
        model.push_back(id);
        break;
      case 1:
        list.PushFront(item);
        model.remove(id);
        model.push_front(id);
        break;
      case 2:
        list.Remove(item);
        model.remove(id);
        break;
      case 3:
        items[static_cast<size_t>(id)] = std::make_unique<Item>(id);
        model.remove(id);
        break;
      default:
        if (Item* position = list.front(); position != nullptr && position != &item) {
          model.remove(id);
          model.push_front(id);
          list.Insert(*position, item);
        }
    }
    ASSERT_EQ(Values(list), std::vector<int>(model.begin(), model.end())) << "step " << step;
  }
}

}  // namespace
}  // namespace tapwire
