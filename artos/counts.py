"""Whole numbers as people write them: 500000, 500_000, 5e5."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from artos.protocol.fields import MOST

_FORM = "write a whole number (4, 5_000, 1e6)"


def count(text: str) -> int:
    """The whole number that ``text`` is exactly; powers of ten are welcome (``1e6``).

    Raises:
        ValueError: it is none, or none that 64 bits hold.
    """
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError(_FORM) from None
    if not number.is_finite() or number.copy_abs() > MOST:
        raise ValueError("that is more than 64 bits hold")
    if number != number.to_integral_value():
        raise ValueError(_FORM)
    return int(number)
