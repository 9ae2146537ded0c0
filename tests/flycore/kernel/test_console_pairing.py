"""The pairing code as a state machine with a clock of the test's own."""

from __future__ import annotations

import pytest

from flycore.kernel.console_pairing import (
    ALPHABET,
    LENGTH,
    MOST_OF_ONE,
    MOST_SHOWN,
    TRIES,
    VALID_SECONDS,
    WINDOW_SECONDS,
    CodeCheck,
    PairingCodes,
)
from kits.tables import each_row

WRONG = "-" + "0" * LENGTH  # zero is no letter of the alphabet


def attached(book: PairingCodes, connection: str = "one", program: str = "xterm", now: float = 0.0) -> str:
    code = book.issue(connection, program, now)
    assert code is not None
    return code


def test_a_code_is_of_letters_that_are_not_taken_for_one_another() -> None:
    code = attached(PairingCodes())
    assert len(code) == LENGTH
    assert set(code) <= set(ALPHABET)
    assert not set("0O1IL") & set(ALPHABET)


@pytest.mark.parametrize("typed", [str, str.lower, lambda code: f" {code[:4]}-{code[4:]}\n"])
def test_the_code_counts_as_people_type_it(typed: object) -> None:
    assert callable(typed)
    book = PairingCodes()
    assert book.check("one", typed(attached(book)), 1.0) is CodeCheck.PAIRED


def test_a_code_counts_once() -> None:
    book = PairingCodes()
    code = attached(book)
    assert book.check("one", code, 1.0) is CodeCheck.PAIRED
    assert book.check("one", code, 1.0) is CodeCheck.NONE


def test_a_code_counts_for_two_minutes() -> None:
    book = PairingCodes()
    early, late = attached(book, "early"), attached(book, "late")
    assert book.check("early", early, VALID_SECONDS - 0.001) is CodeCheck.PAIRED
    assert book.check("late", late, VALID_SECONDS) is CodeCheck.NONE
    assert book.check("late", late, 0.0) is CodeCheck.NONE


def test_three_wrong_codes_use_the_right_one_up() -> None:
    book = PairingCodes()
    code = attached(book)
    for _ in range(TRIES - 1):
        assert book.check("one", WRONG, 1.0) is CodeCheck.WRONG
    assert book.check("one", WRONG, 1.0) is CodeCheck.SPENT
    assert book.check("one", code, 1.0) is CodeCheck.NONE


def test_a_new_attach_makes_the_earlier_code_worthless() -> None:
    book = PairingCodes()
    first = attached(book)
    second = attached(book)
    assert book.check("one", first, 1.0) is CodeCheck.WRONG
    assert book.check("one", second, 1.0) is CodeCheck.PAIRED


def test_a_code_is_worth_nothing_on_another_connection_nor_after_its_own_has_gone() -> None:
    book = PairingCodes()
    mine, other = attached(book, "mine"), attached(book, "other")
    assert book.check("other", mine, 1.0) is CodeCheck.WRONG
    assert book.check("third", mine, 1.0) is CodeCheck.NONE
    book.forget("mine")
    assert book.check("mine", mine, 1.0) is CodeCheck.NONE
    assert book.check("other", other, 1.0) is CodeCheck.PAIRED


@each_row("code", ["", "é" * LENGTH, "\ud800", "A" * 100_000, "\0" * LENGTH])
def test_what_is_no_code_is_a_wrong_one(code: str) -> None:
    book = PairingCodes()
    attached(book)
    assert book.check("one", code, 1.0) is CodeCheck.WRONG


def test_a_thousand_requests_show_a_person_few_codes() -> None:
    book = PairingCodes()
    shown = [book.issue(f"c{number}", "agent", number / 100) for number in range(1000)]
    assert sum(code is not None for code in shown) == MOST_OF_ONE
    assert book.issue("person", "xterm", 10.0) is not None
    shown = [book.issue(f"p{number}", f"program {number}", 10.0) for number in range(1000)]
    assert sum(code is not None for code in shown) == MOST_SHOWN - MOST_OF_ONE - 1
    assert book.issue("person", "xterm", 10.0 + WINDOW_SECONDS) is not None
