"""Whole numbers as people write them: 500000, 500_000, 5e5."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from artos.specs.fields import MOST

_FORM = "write a whole number (4, 5_000, 1e6)"


def count(text: str) -> int:
    """The whole number that ``text`` stands for, exactly; also in the form ``1e6``.

    Raises:
        ValueError: ``text`` is not a whole number, or does not fit into 64 bits.
    """
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError(_FORM) from None
    if not number.is_finite() or number.copy_abs() > MOST:
        raise ValueError("the number does not fit into 64 bits")
    if number != number.to_integral_value():
        raise ValueError(_FORM)
    return int(number)
