import unittest

from points import points


class TestPoints(unittest.TestCase):
    def test_a_euro(self):
        self.assertEqual(3, points(350))
