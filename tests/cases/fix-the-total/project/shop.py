"""Prices of a small shop, in cents."""


def total(prices, discount_percent=0):
    """What a basket costs; the discount is taken off once, and a part of a cent is dropped."""
    cents = 0
    for price in prices:
        cents += price - price * discount_percent // 100
    return cents
