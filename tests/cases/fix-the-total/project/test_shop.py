import unittest

from shop import total


class TotalTest(unittest.TestCase):
    def test_a_basket_is_the_sum_of_its_prices(self):
        self.assertEqual(total([250, 199]), 449)

    def test_the_discount_is_taken_off_the_whole_basket_once(self):
        self.assertEqual(total([199, 199, 199], discount_percent=10), 538)


if __name__ == "__main__":
    unittest.main()
