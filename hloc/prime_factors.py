"""The prime factors of a number."""

from __future__ import annotations


def prime_factors(number: int) -> list[int]:
    """Return the prime factors of a positive number, the smallest first; none for 1."""
    found, divisor = [], 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            found.append(divisor)
            number //= divisor
        divisor += 1
    return [*found, number] if number > 1 else found
