"""Whole numbers as people write them: 500000, 500_000, 5e5."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from artos.fields import MOST


def count(text: str) -> int:
    """The whole number that ``text`` is exactly; powers of ten are welcome (``1e6``).

    Raises:
        ValueError: it is none, or none that 64 bits hold.
    """
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text!r} is no whole number (write 500000, 500_000 or 5e5)") from None
    if not number.is_finite() or number.copy_abs() > MOST:
        raise ValueError(f"{text} is too large")
    if number != number.to_integral_value():
        raise ValueError(f"{text} is no whole number")
    return int(number)
