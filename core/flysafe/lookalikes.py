"""Marks letters that look like ASCII letters, where they can mislead a person.

Russian or Greek text stays readable; `раypal`, a single word `сору`, a mathematical `𝐫𝐦` and a character that
only looks like a slash are marked. The text must have passed `safe_text`. There are three rules:

1. Some characters are marked everywhere: fullwidth and mathematical letters, Roman numerals, and the hyphens,
   slashes, dots and spaces that are not ASCII.
2. In a word with a Latin letter, letters of other alphabets are marked. Han, kana and Hangul are not, because
   they mix with Latin in ordinary writing and do not look like it.
3. In a word made only of look-alikes all letters are marked, unless it has at most three letters and is next
   to a word of its alphabet that cannot be Latin (`с`, `о`, `а` in a Russian sentence).
"""

from __future__ import annotations

import functools
import re
import unicodedata

from flysafe.text import CLOSE, OPEN

_ALWAYS = re.compile(
    "["
    "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"  # spaces
    "\u02d7\u2010-\u2012\u2043\u2212\ufe58\ufe63\uff0d"  # hyphens
    "\u2024\ufe52\uff0e\u2044\u2215\u29f8\uff0f\u2216\u29f5\ufe68\uff3c"  # full stops and slashes
    "\u037e\u1fef\u201a\uff02\uff07\uff40\ua789\u2236\u01c3"  # semicolon, quotes, colon, exclamation mark
    "\uff10-\uff19\uff21-\uff3a\uff41-\uff5a"  # fullwidth digits and letters
    "\u2102\u210a-\u2113\u2115\u2118-\u211d\u2124\u2128\u212a\u212c-\u2134\u2139\u2145-\u2149"  # letterlike
    "\u2160-\u217f\u24b6-\u24e9\u0251\u0261\u0269\u017f\ufb00-\ufb06"  # Roman, circled, a g i s, ligatures
    "\U0001d400-\U0001d7ff\U0001f130-\U0001f149\U0001fbf0-\U0001fbf9"  # mathematical, squared, segmented
    "]"
)

_LOOKALIKES = frozenset(
    "асԁеһіјӏорԛѕуѵԝхАВЕНІЈКМОРЅТХУҮԚԜСԌӀѴ"  # Cyrillic
    "αγινορσυϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿ"  # Greek
    "ցհյոզսօՕՍՏԼ"  # Armenian
    "ᎠᎡᎢᎥᎩᎪᎫᎬᎳᎷᎻᎽᏀᏂᏃᏎᏏᏒᏔᏙᏚᏞᏟᏢᏦᏧᏴ"  # Cherokee
    "ⲀⲂⲈⲎⲒⲔⲘⲚⲞⲟⲢⲣⲤⲥⲦⲬⲭⲨⲩ"  # Coptic
) | frozenset(map(chr, range(0xA4D0, 0xA4F8)))  # Lisu

_WORDS = re.compile(f"{OPEN}[^{CLOSE}]*{CLOSE}|(?P<word>(?:[^\\W_]|[\u0300-\u036f])+)")
_SHORT = 3
_BESIDE = re.compile(r'[,;:.!?»")]? (?:[—–-] )?[«"(]?')
"""The characters between two words of one sentence."""

_NEUTRAL = frozenset(
    (
        *("LATIN", "CJK", "IDEOGRAPHIC", "VERTICAL", "BOPOMOFO", "HANGUL"),
        *("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HALFWIDTH"),
        *("MICRO", "FEMININE", "MASCULINE", "DIGIT", "SUPERSCRIPT", "SUBSCRIPT"),
    )
)
"""First words of the names of characters that may stand beside Latin letters."""


def mark_lookalikes(safe: str) -> str:
    """The text, which `safe_text` returned, with misleading characters as tokens. Linear."""
    text = _ALWAYS.sub(lambda match: _token(match[0]), safe)
    words = [match for match in _WORDS.finditer(text) if match["word"]]
    pieces: list[str] = []
    done = 0
    for index, match in enumerate(words):
        word = match[0]
        if word.isascii():
            continue
        if any(map(_is_latin, word)):
            marked = "".join(map(_mark_foreign, word))
        elif _is_disguise(word) and not (len(word) <= _SHORT and _in_sentence(text, words, index)):
            marked = "".join(_token(letter) if letter in _LOOKALIKES else letter for letter in word)
        else:
            continue
        pieces += (text[done : match.start()], marked)
        done = match.end()
    return "".join((*pieces, text[done:]))


def _token(character: str) -> str:
    return f"{OPEN}U+{ord(character):04X}{CLOSE}"


@functools.lru_cache(maxsize=4096)
def _alphabet(character: str) -> str:
    """Return the first word of the character's Unicode name, which for a letter is its alphabet."""
    return unicodedata.name(character, "UNNAMED").partition(" ")[0]


def _is_latin(character: str) -> bool:
    return character.isalpha() and (character.isascii() or _alphabet(character) == "LATIN")


def _mark_foreign(character: str) -> str:
    """Return a token for a letter or digit that is not usual beside Latin letters, else the character."""
    if character.isascii() or not character.isalnum() or _alphabet(character) in _NEUTRAL:
        return character
    return _token(character)


def _is_disguise(word: str) -> bool:
    """Return whether every letter of the word looks like an ASCII letter."""
    letters = [character for character in word if character.isalpha()]
    return bool(letters) and all(letter in _LOOKALIKES for letter in letters)


def _in_sentence(text: str, words: list[re.Match[str]], index: int) -> bool:
    """Return whether a word next to it has the same alphabet and cannot be mistaken for Latin."""
    word = words[index]
    alphabet = _alphabet(word[0][0])
    for neighbour in words[max(index - 1, 0) : index] + words[index + 1 : index + 2]:
        first, second = sorted((word, neighbour), key=lambda match: match.start())
        between = _BESIDE.fullmatch(text, first.end(), second.start())
        plain = not any(map(_is_latin, neighbour[0])) and not _is_disguise(neighbour[0])
        if between and plain and _alphabet(neighbour[0][0]) == alphabet:
            return True
    return False
